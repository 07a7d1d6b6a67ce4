//! The `mainstay` command.

use clap::{Parser, Subcommand};
use mainstay::cli::instance;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Manage mysqld inside its container
    Instance(instance::InstanceArgs),
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let Command::Instance(args) = Cli::parse().command;
    match instance::run(args).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mainstay: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
