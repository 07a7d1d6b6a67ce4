//! The command line: one file a subcommand.

mod apiserver;
mod crd;
mod demo;
mod instance;
mod metrics;
mod run;
mod settings;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The exit code for wrong usage, as clap's.
const USAGE: u8 = 2;

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
    /// Print the documentation of the operator's metrics
    Metrics,
    /// Show all of it on this machine: API server, node, operator, MySQL
    Demo(Box<demo::DemoArgs>),
    /// Run a Kubernetes API server in memory, for trying things out and for tests
    #[command(name = "apiserver")]
    ApiServer(apiserver::ApiServerArgs),
}

/// Parses the arguments and runs the subcommand. Exit code 2 for usage, 1 for failure.
pub async fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome: Result<(), Box<dyn std::error::Error>> = match cli.command {
        Command::Run(args) => match run::run(*args).await {
            Ok(()) => Ok(()),
            Err(error @ run::RunFailure::Usage(_)) => {
                eprintln!("mainstay: {error}");
                return ExitCode::from(USAGE);
            }
            Err(error) => Err(error.into()),
        },
        Command::Instance(args) => instance::run(args).await,
        Command::Crd => crd::run().map_err(Into::into),
        Command::Metrics => metrics::run().map_err(Into::into),
        Command::Demo(args) => match demo::run(*args).await {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::FAILURE, // it has said why
            Err(error) => Err(error.into()),
        },
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

/// Waits for the end of standard input, then for what a SIGTERM does.
fn stop_with_stdin() {
    // A thread of its own: an asynchronous read would hold up the end of the process.
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    tracing::info!("standard input has ended");
    let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGTERM);
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn no_argument_contradicts_another() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_names_every_option_once_under_its_heading_with_its_default() {
        let mut cli = Cli::command();
        let run = cli.find_subcommand_mut("run").unwrap();
        let help = run.render_long_help().to_string();
        let all: Vec<_> = help.split_whitespace().collect();
        let all = all.join(" ");
        let leading = "Leader election: --lease-namespace <NAME>";
        let lease = "--lease-duration <TIME> A leader that does not renew is replaced after this; \
                     whole seconds [default: 15s]";
        for words in [leading, lease, "MAINSTAY_LEASE_DURATION"] {
            assert_eq!(all.matches(words).count(), 1, "{words} in {help}");
        }
    }
}
