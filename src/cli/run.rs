//! `mainstay run`: the operator.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::settings::{Given, Loaded, Problems, Replica};
use crate::operator::{self, RunError};
use crate::runtime::{LogControl, Shutdown, Tasks, init_tracing};

/// What follows the list of options.
const AFTER_HELP: &str = "\
Each option can also be set by an environment variable, MAINSTAY_ and its name in capitals \
(--lease-duration is MAINSTAY_LEASE_DURATION), and in the file of --config by its name in camelCase \
(leaseDuration: 15s). A flag goes before the environment, that before the file. Times are seconds, or \
numbers with h, m, s or ms: 15, 1m30s, 500ms.";

/// The command line of `mainstay run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RunArgs {
    /// YAML file of options; see --print-config [env: MAINSTAY_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all options as a file for --config, each with where it came from, and exit
    #[arg(long)]
    print_config: bool,
    /// Stop, as on SIGTERM, once standard input ends: whoever started this is gone
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
    #[command(flatten)]
    given: Given,
}

impl RunArgs {
    fn load(&self) -> Result<Loaded, Problems> {
        Loaded::load(&self.given, self.config.clone(), |name| env::var_os(name))
    }
}

/// Why the operator did not run, or ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunFailure {
    /// The options can't be used.
    #[error(transparent)]
    Usage(#[from] Problems),
    /// The options can't be printed.
    #[error("can't print: {0}")]
    Print(#[from] io::Error),
    /// The operator itself.
    #[error(transparent)]
    Run(#[from] RunError),
}

pub(super) async fn run(args: RunArgs) -> Result<(), RunFailure> {
    let loaded = args.load()?;
    if args.print_config {
        io::stdout().lock().write_all(loaded.print().as_bytes())?;
        return Ok(());
    }
    let options = loaded.options(&replica());
    let (format, filter, repeats) = loaded.log();
    let log = init_tracing(format, filter, repeats);
    match loaded.differences().as_str() {
        "" => tracing::info!("all options have their defaults"),
        options => tracing::info!(options, "options that differ from the defaults"),
    }
    let signals_fail = |error| RunError::Setup(format!("signals: {error}"));
    // Dropped last: a second signal must end the process whatever it waits for.
    let mut signals = Tasks::new();
    let stop = Shutdown::on_signals(&mut signals).map_err(signals_fail)?;
    if args.stop_with_stdin {
        std::thread::spawn(super::stop_with_stdin);
    }
    // In a terminal it says that the terminal is gone, and ends the process as any other.
    if !io::stderr().is_terminal() {
        let hangup = signal(SignalKind::hangup()).map_err(signals_fail)?;
        let log = log.clone();
        signals.spawn("log reload", |_| reload_log(hangup, args, log));
    }
    tokio::select! {
        biased;
        ended = operator::run(options, log, stop) => Ok(ended?),
        ended = signals.ended() => Err(RunError::TaskEnded(ended).into()),
    }
}

/// At each SIGHUP reads the log's filter again. Never ends.
async fn reload_log(mut hangup: Signal, args: RunArgs, log: LogControl) {
    while hangup.recv().await.is_some() {
        reread(&args, &log);
    }
}

/// Reads the log's filter again; what can't be read leaves it as it is.
fn reread(args: &RunArgs, log: &LogControl) {
    let loaded = match args.load() {
        Ok(loaded) => loaded,
        Err(problems) => {
            let (filter, error) = (log.filter(), problems.to_string());
            tracing::warn!(
                filter,
                error,
                "SIGHUP: the options can't be used, the log filter stays"
            );
            return;
        }
    };
    if let Some(source) = loaded.log_fixed_by() {
        let filter = log.filter();
        tracing::info!(
            filter,
            source,
            "SIGHUP: the log filter is not the file's to change"
        );
        return;
    }
    let (_, filter, _) = loaded.log();
    match log.set(filter) {
        Ok(()) => tracing::info!(filter, "SIGHUP: the log filter was read again"),
        Err(error) => tracing::warn!(error, "SIGHUP: the log filter stays"),
    }
}

/// Names this process in the Lease: the pod and its UID, or host and process. And whether whoever had
/// this name before has ended: a container's first process begins when its last one is gone, and
/// another process in the pod gets a name of its own.
fn replica() -> Replica {
    let var = |name| env::var(name).ok().filter(|value| !value.is_empty());
    if let (Some(pod), Some(uid)) = (var("POD_NAME"), var("POD_UID")) {
        if std::process::id() == 1 {
            return Replica {
                identity: format!("{pod}_{uid}"),
                succeeds_itself: true,
                pod_namespace: var("POD_NAMESPACE"),
            };
        }
        return unique(&format!("{pod}_{uid}"));
    }
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "local",
        host => host,
    };
    unique(host)
}

fn unique(place: &str) -> Replica {
    // A process ID may come back after a restart; the start time makes the name its own.
    let started = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis());
    Replica {
        identity: format!("{place}_{}_{started}", std::process::id()),
        ..Replica::default()
    }
}
