//! `mainstay demo`: the whole system on one machine.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::sandbox::demo::{self, DemoError, DemoOptions};

/// Flags of `mainstay demo`.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Take the standard tour of faults (or the script's), print a summary, and exit: 0 if all held
    #[arg(long)]
    once: bool,
    /// Play this file; its steps are listed when one is wrong
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Model MySQL in memory even where there is a mysqld
    #[arg(long, conflicts_with = "mysqld")]
    modelled: bool,
    /// The mysqld to run [default: in PATH, /usr/sbin or /usr/libexec; else MySQL is modelled]
    #[arg(long, value_name = "FILE", env = "MAINSTAY_MYSQLD")]
    mysqld: Option<PathBuf>,
    /// Folder for kubeconfig, logs and data, which must be empty and stays [default: a temporary one]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keep the temporary folder
    #[arg(long)]
    keep: bool,
    /// Where the API server listens; port 0 is any that is free
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// What is logged into the folder, such as info or mainstay=debug
    #[arg(long, env = "MAINSTAY_LOG", default_value = "info")]
    log: String,
}

/// Runs the demo; whether all held that must.
pub(super) async fn run(args: DemoArgs) -> Result<bool, DemoError> {
    demo::run(DemoOptions {
        once: args.once,
        script: args.script,
        modelled: args.modelled,
        mysqld: args.mysqld,
        dir: args.dir,
        keep: args.keep,
        listen: args.listen,
        log: args.log,
    })
    .await
}
