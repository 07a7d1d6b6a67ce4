//! The operator as a process: telemetry, the probes' listener, and the operator proper.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::metric::OPERATOR_METRICS;
use super::service::{Operator, Options, RunError};
use crate::client::{CLIENT_METRICS, Client, ClientOptions, Config, ConfigSource};
use crate::metric::Metric;
use crate::runtime::{
    Health, LogControl, PROCESS_METRICS, RUNTIME_METRICS, Shutdown, Tasks, Telemetry,
};

/// How the process is to run.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// Where the API server is found.
    pub source: ConfigSource,
    /// Address of probes and metrics.
    pub listen: SocketAddr,
    /// Client limits.
    pub client: ClientOptions,
    /// The operator proper.
    pub operator: Options,
}

/// Every metric of the process, in parts with a title each.
#[must_use]
pub fn metrics() -> [(&'static str, &'static [Metric]); 4] {
    [
        ("Clusters and election", OPERATOR_METRICS),
        ("Work, watches and caches", RUNTIME_METRICS),
        ("Requests to the API server", CLIENT_METRICS),
        ("Process", PROCESS_METRICS),
    ]
}

/// Runs until `stop`. `log` is the process's, to be summed up and to be changed.
pub async fn run(options: ProcessOptions, log: LogControl, stop: Shutdown) -> Result<(), RunError> {
    let telemetry = Telemetry::install().map_err(RunError::Setup)?;
    let health = Health::new();
    health.log_control(log.clone());
    let listener = TcpListener::bind(options.listen)
        .await
        .map_err(|error| RunError::Listen {
            address: options.listen,
            error,
        })?;
    let config = Config::load(&options.source).await?;
    let in_cluster = std::env::var_os("POD_NAME").is_some();
    let client = Client::new(config, options.client)?;
    let operator = Operator::new(client.clone(), options.operator, &health)?;

    // Probes answer before anything else is up, and until all else has stopped.
    let leadership = Some(operator.leadership());
    health.debug("process".to_owned(), process_state());
    let mut base = Tasks::new();
    base.spawn("probes", |stop| {
        health.serve(listener, telemetry, leadership, stop)
    });
    base.spawn("log summaries", |stop| async move {
        log.summarise(stop).await;
    });
    check_access(&client, &options.source, in_cluster).await?;
    let left = tokio::select! {
        biased;
        left = operator.run(stop) => left?,
        ended = base.ended() => return Err(RunError::TaskEnded(ended)),
    };
    base.stop().await;
    tracing::info!(left, "stopped");
    Ok(())
}

/// For `/debug/state`, which is answered on another runtime than this one.
fn process_state() -> impl Fn() -> Value {
    let (started, runtime) = (Instant::now(), Handle::current());
    move || {
        let metrics = runtime.metrics();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptimeSeconds": started.elapsed().as_secs_f64(),
            "threads": metrics.num_workers(),
            "tasks": metrics.num_alive_tasks(),
        })
    }
}

/// Whether we are let in. Outside a cluster a person waits for the answer; inside, an API server
/// that is down for now is waited for.
async fn check_access(
    client: &Client,
    source: &ConfigSource,
    in_cluster: bool,
) -> Result<(), RunError> {
    let server = client.server();
    match client.server_version().await {
        Ok(version) => {
            tracing::info!(server, version, "connected");
            Ok(())
        }
        Err(error) if in_cluster && error.is_transient() => {
            tracing::warn!(server, %error, "the API server does not answer yet");
            Ok(())
        }
        Err(error) => {
            let origin = match (&source.kubeconfig, &source.context) {
                (Some(file), Some(context)) => format!("{}, {context}", file.display()),
                (Some(file), None) => file.display().to_string(),
                (None, Some(context)) => format!("KUBECONFIG or the default file, {context}"),
                (None, None) => "KUBECONFIG, the pod's service account or the default file".into(),
            };
            Err(RunError::ApiServer {
                server: server.to_owned(),
                origin,
                error: Box::new(error),
            })
        }
    }
}
