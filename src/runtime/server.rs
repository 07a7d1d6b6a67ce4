//! The HTTP listener of probes and metrics.
//!
//! It runs on a thread and an async runtime of its own: a probe is answered whatever else hangs.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::election::{Leadership, LeadershipWatch};
use super::health::{Health, Report, report};
use super::logs;
use super::metric::{self, RUNTIME_METRICS};
use super::shutdown::Shutdown;
use super::telemetry::Telemetry;

/// Connections served at a time; more wait. Probes and a few scrapers need less.
const MAX_CONNECTIONS: usize = 128;
/// How long a client may take to send a request's head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept (as when file descriptors ran out).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the main runtime proves that it runs, and samples are folded into histograms.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long `/debug/state` may take: it looks at every key.
const STATE_LIMIT: Duration = Duration::from_secs(5);
/// Without a heartbeat for so long the main runtime counts as stuck.
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(30);

struct State {
    health: Health,
    telemetry: Telemetry,
    leadership: Option<LeadershipWatch>,
}

/// See [`Health::serve`].
pub(super) async fn serve(
    health: Health,
    listener: TcpListener,
    telemetry: Telemetry,
    leadership: Option<LeadershipWatch>,
    shutdown: Shutdown,
) {
    let heartbeat = Heartbeat::new();
    let watched = heartbeat.clone();
    health.liveness("runtime".to_owned(), move || watched.check());
    let runtime = tokio::runtime::Handle::current().metrics();
    health.exporter(move |page| {
        let tasks = Some(runtime.num_alive_tasks() as f64);
        page.one(RUNTIME_METRICS, metric::RUNTIME_TASKS, tasks);
    });
    let state = Arc::new(State {
        health,
        telemetry: telemetry.clone(),
        leadership,
    });

    let stop = shutdown.clone();
    let (ended, mut end) = tokio::sync::oneshot::channel::<()>();
    let thread = listener.into_std().and_then(|listener| {
        std::thread::Builder::new()
            .name("health".to_owned())
            .spawn(move || {
                if let Err(error) = run(listener, &state, &stop) {
                    tracing::error!(%error, "probes and metrics are not served");
                }
                drop(ended);
            })
    });
    if let Err(error) = thread {
        tracing::error!(%error, "probes and metrics are not served");
        return;
    }
    loop {
        tokio::select! {
            biased;
            _ = &mut end => return,
            () = tokio::time::sleep(HEARTBEAT) => {
                heartbeat.beat();
                telemetry.upkeep();
            }
        }
    }
}

/// The thread's whole life.
fn run(
    listener: std::net::TcpListener,
    state: &Arc<State>,
    shutdown: &Shutdown,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        tokio::select! {
            biased;
            () = shutdown.triggered() => {}
            () = accept(&listener, state) => {}
        }
        Ok(())
    })
}

async fn accept(listener: &TcpListener, state: &Arc<State>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = permits.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let state = Arc::clone(state);
                tokio::spawn(async move {
                    connection(stream, peer.ip(), state).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection for probes");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, peer: IpAddr, state: Arc<State>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let state = Arc::clone(&state);
        async move {
            if request.uri().path() == "/debug/log" {
                let (status, body) = logs::answer(state.health.log(), peer, request).await;
                return Ok(text(status, body));
            }
            Ok::<_, Infallible>(respond(&state, request.method(), request.uri()).await)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::trace!(%error, "a probe's connection ended");
    }
}

async fn respond(state: &State, method: &Method, uri: &http::Uri) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
    }
    let verbose = uri.query().is_some_and(|query| {
        query
            .split('&')
            .any(|part| part == "verbose" || part.starts_with("verbose="))
    });
    match uri.path() {
        "/livez" => probe(
            "livez",
            &report(state.health.liveness_checks()).await,
            verbose,
        ),
        "/readyz" => probe(
            "readyz",
            &report(state.health.readiness_checks()).await,
            verbose,
        ),
        "/leaderz" => leader(state.leadership.as_ref().map(LeadershipWatch::current)),
        "/metrics" => {
            state.health.collect();
            let mut page = state.telemetry.page();
            state.health.export(&mut page);
            text(StatusCode::OK, page.into_text())
        }
        "/debug/state" => debug_state(state).await,
        _ => text(
            StatusCode::NOT_FOUND,
            "/livez /readyz /leaderz /metrics /debug/state\n".to_owned(),
        ),
    }
}

/// As kube-apiserver answers: `ok`, or every check that failed; all checks with `?verbose`.
fn probe(name: &str, report: &Report, verbose: bool) -> Response<Full<Bytes>> {
    let (status, verdict) = if report.healthy {
        (StatusCode::OK, "passed")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "failed")
    };
    let body = match (verbose, report.healthy) {
        (false, true) => "ok\n".to_owned(),
        (true, _) => format!("{}{name} check {verdict}\n", report.lines),
        (false, false) => format!("{}{name} check {verdict}\n", report.failed),
    };
    text(status, body)
}

/// What every part says of itself, JSON.
async fn debug_state(state: &State) -> Response<Full<Bytes>> {
    let health = state.health.clone();
    let looking = tokio::task::spawn_blocking(move || health.state());
    match tokio::time::timeout(STATE_LIMIT, looking).await {
        Ok(Ok(state)) => {
            let mut response = text(StatusCode::OK, format!("{state:#}\n"));
            let json = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            response
        }
        Ok(Err(error)) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("a part can't say how it is: {error}\n"),
        ),
        Err(_) => text(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("a part does not say within {STATE_LIMIT:?} how it is\n"),
        ),
    }
}

fn leader(leadership: Option<Leadership>) -> Response<Full<Bytes>> {
    match leadership {
        None => text(
            StatusCode::OK,
            "no election: this process leads\n".to_owned(),
        ),
        Some(Leadership::Leader { term }) => {
            text(StatusCode::OK, format!("leader in term {term}\n"))
        }
        Some(other) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{other}\n")),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        // Prometheus' text format; probes do not mind.
        header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    );
    response
}

/// When the main runtime last ran a task. In real time, because it is read by a real thread.
#[derive(Clone)]
struct Heartbeat {
    started: Instant,
    /// Milliseconds after `started`.
    last: Arc<AtomicU64>,
}

impl Heartbeat {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            last: Arc::new(AtomicU64::new(0)),
        }
    }

    fn beat(&self) {
        let at = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(at, Ordering::Relaxed);
    }

    fn check(&self) -> Result<String, String> {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        let age = self.started.elapsed().saturating_sub(last);
        if age > HEARTBEAT_LIMIT {
            Err(format!("the main runtime has not run a task for {age:.0?}"))
        } else {
            Ok(format!("ran {age:.0?} ago"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    fn get(address: std::net::SocketAddr, path: &str) -> (u16, String) {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    /// The main runtime has one thread, and the test blocks it all the time: every answer proves
    /// that probes do not need it.
    #[tokio::test]
    async fn probes_answer_while_the_runtime_is_blocked() {
        let health = Health::new();
        health.readiness("pods".to_owned(), || Err("not synced".to_owned()));
        health.liveness("worker".to_owned(), || Ok("idle".to_owned()));
        let seen = Arc::new(AtomicU64::new(7));
        let leads = Arc::clone(&seen);
        health.exporter(move |page| {
            let value = leads.load(Ordering::Relaxed);
            let value = (value > 0).then_some(value as f64);
            page.one(RUNTIME_METRICS, metric::LEADER, value);
        });
        health.debug("queue".to_owned(), || serde_json::json!({"ready": 3}));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (telemetry, _recorder) = Telemetry::detached().unwrap();
        let shutdown = Shutdown::new();
        let served = tokio::spawn(health.serve(listener, telemetry, None, shutdown.clone()));
        tokio::task::yield_now().await;

        assert_eq!(get(address, "/livez"), (200, "ok\n".to_owned()));
        let (status, body) = get(address, "/livez?verbose");
        assert_eq!(status, 200);
        assert!(
            body.starts_with("[+]worker ok: idle\n[+]runtime ok: ran "),
            "{body}"
        );
        assert!(body.ends_with("livez check passed\n"));
        assert_eq!(
            get(address, "/readyz"),
            (
                503,
                "[-]pods failed: not synced\nreadyz check failed\n".to_owned()
            )
        );
        assert_eq!(get(address, "/leaderz").0, 200);
        let (status, body) = get(address, "/metrics");
        assert_eq!(status, 200);
        for sample in [
            "process_open_fds ",
            "mainstay_runtime_tasks ",
            "mainstay_leader 7\n",
        ] {
            assert!(body.contains(&format!("\n{sample}")), "{sample} in {body}");
        }
        seen.store(0, Ordering::Relaxed);
        let (_, body) = get(address, "/metrics");
        assert!(
            !body.contains("mainstay_leader"),
            "what is gone leaves nothing: {body}"
        );
        assert_eq!(get(address, "/nothing").0, 404);
        let (status, body) = get(address, "/debug/state");
        let state: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &state["queue"]["ready"]), (200, &3.into()));

        shutdown.trigger();
        served.await.unwrap();
    }

    #[test]
    fn only_the_leader_is_leader() {
        let standby = Leadership::Standby {
            holder: "b".to_owned(),
        };
        assert_eq!(leader(Some(standby)).status(), 503);
        assert_eq!(leader(Some(Leadership::Unknown)).status(), 503);
        assert_eq!(leader(Some(Leadership::Leader { term: 3 })).status(), 200);
    }

    #[test]
    fn a_runtime_that_stands_still_is_reported() {
        let Some(started) = Instant::now().checked_sub(HEARTBEAT_LIMIT + HEARTBEAT) else {
            return;
        };
        let heartbeat = Heartbeat {
            started,
            last: Arc::default(),
        };
        assert!(heartbeat.check().is_err());
        heartbeat.beat();
        assert!(heartbeat.check().is_ok());
    }
}
