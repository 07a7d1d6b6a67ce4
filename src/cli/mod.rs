//! The command line: one file a subcommand.

mod apiserver;
mod crd;
mod instance;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Highly available MySQL on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "mainstay", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator, in a cluster or on this machine against a kubeconfig
    Run(Box<run::RunArgs>),
    /// Manage one MySQL server: PID 1 of a MySQL container
    Instance(instance::InstanceArgs),
    /// Print the CustomResourceDefinition
    Crd,
    /// Run a Kubernetes API server in memory, for trying things out and for tests
    #[command(name = "apiserver")]
    ApiServer(apiserver::ApiServerArgs),
}

/// Parses the arguments and runs the subcommand. Exit code 2 for usage, 1 for failure.
pub async fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome: Result<(), Box<dyn std::error::Error>> = match cli.command {
        Command::Run(args) => run::run(*args).await.map_err(Into::into),
        Command::Instance(args) => instance::run(args).await,
        Command::Crd => crd::run().map_err(Into::into),
        Command::ApiServer(args) => apiserver::run(args).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mainstay: {error}");
            ExitCode::FAILURE
        }
    }
}
