//! `mainstay run`: the operator.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::client::{ClientOptions, ConfigSource};
use crate::operator::instances::Access;
use crate::operator::{self, Options, ProcessOptions, RunError};
use crate::runtime::{ElectionOptions, LogFormat, init_tracing};

/// Flags of `mainstay run`. Each can be set by the environment variable that its help names.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Kubeconfig file (default: KUBECONFIG, the pod's service account, or ~/.kube/config)
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig (default: its current context)
    #[arg(long)]
    context: Option<String>,
    /// Work in this namespace only (default: in all)
    #[arg(long, env = "MAINSTAY_NAMESPACE")]
    namespace: Option<String>,
    /// Address of /livez, /readyz, /leaderz and /metrics
    #[arg(long, env = "MAINSTAY_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// Clusters reconciled at a time
    #[arg(long, env = "MAINSTAY_WORKERS", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// API requests a second, in the long run
    #[arg(long, env = "MAINSTAY_QPS", default_value_t = 50.0, value_parser = positive)]
    qps: f64,
    /// API requests at once, after a quiet time
    #[arg(long, env = "MAINSTAY_BURST", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    burst: u32,
    /// API requests in flight
    #[arg(long, env = "MAINSTAY_MAX_IN_FLIGHT", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    max_in_flight: u16,
    /// Namespace of the Lease that elects the leader
    #[arg(
        long,
        env = "MAINSTAY_LEASE_NAMESPACE",
        default_value = "mainstay-system"
    )]
    lease_namespace: String,
    /// Name of the Lease
    #[arg(long, env = "MAINSTAY_LEASE_NAME", default_value = "mainstay")]
    lease_name: String,
    /// Seconds after which a leader that does not renew is replaced
    #[arg(long, env = "MAINSTAY_LEASE_DURATION", default_value_t = 15.0, value_parser = positive)]
    lease_duration: f64,
    /// Seconds after which a leader that can't renew gives up
    #[arg(long, env = "MAINSTAY_RENEW_DEADLINE", default_value_t = 10.0, value_parser = positive)]
    renew_deadline: f64,
    /// Seconds between renewals
    #[arg(long, env = "MAINSTAY_RENEW_INTERVAL", default_value_t = 1.0, value_parser = positive)]
    renew_interval: f64,
    /// Seconds that running reconciles may take to finish on SIGTERM
    #[arg(long, env = "MAINSTAY_SHUTDOWN_GRACE", default_value_t = 25.0, value_parser = positive)]
    shutdown_grace: f64,
    /// How MySQL pods are reached: their address, or the API server's pod proxy
    #[arg(long, env = "MAINSTAY_INSTANCE_ACCESS", value_enum, default_value_t)]
    instance_access: Access,
    /// Image that brings this binary into MySQL pods
    #[arg(
        long,
        env = "MAINSTAY_OPERATOR_IMAGE",
        default_value = "docker.io/library/mainstay:dev"
    )]
    operator_image: String,
    /// Stop, as on SIGTERM, once standard input ends: whoever started this is gone
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
    /// Log lines for people or for machines
    #[arg(long, env = "MAINSTAY_LOG_FORMAT", value_enum, default_value_t = Format::Text)]
    log_format: Format,
    /// What is logged, such as info or mainstay=debug
    #[arg(long, env = "MAINSTAY_LOG", default_value = "info")]
    log: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("must be a number above 0".into()),
    }
}

pub(super) async fn run(args: RunArgs) -> Result<(), RunError> {
    let format = match args.log_format {
        Format::Text => LogFormat::Text,
        Format::Json => LogFormat::Json,
    };
    init_tracing(format, &args.log);
    if args.stop_with_stdin {
        std::thread::spawn(super::stop_with_stdin);
    }
    let identity = identity();
    let version = env!("CARGO_PKG_VERSION");
    operator::run(ProcessOptions {
        source: ConfigSource {
            kubeconfig: args.kubeconfig,
            context: args.context,
        },
        listen: args.listen,
        client: ClientOptions {
            qps: args.qps,
            burst: args.burst,
            max_in_flight: usize::from(args.max_in_flight),
            user_agent: format!("mainstay/{version} ({identity})"),
            ..ClientOptions::default()
        },
        operator: Options {
            namespace: args.namespace,
            workers: usize::from(args.workers),
            election: ElectionOptions {
                namespace: args.lease_namespace,
                name: args.lease_name,
                identity,
                lease_duration: Duration::from_secs_f64(args.lease_duration),
                renew_deadline: Duration::from_secs_f64(args.renew_deadline),
                renew_interval: Duration::from_secs_f64(args.renew_interval),
            },
            shutdown_grace: Duration::from_secs_f64(args.shutdown_grace),
            instance_access: args.instance_access,
            operator_image: args.operator_image,
            tuning: operator::Tuning::default(),
        },
    })
    .await
}

/// Names this process in the Lease: the pod and its UID, or host and process.
fn identity() -> String {
    let var = |name| {
        std::env::var(name)
            .ok()
            .filter(|value: &String| !value.is_empty())
    };
    if let (Some(pod), Some(uid)) = (var("POD_NAME"), var("POD_UID")) {
        return format!("{pod}_{uid}");
    }
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "local",
        host => host,
    };
    // A process ID may come back after a restart; the start time makes the name its own.
    let started = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis());
    format!("{host}_{}_{started}", std::process::id())
}
