//! The limits in front of the client, over loopback: 10 000 requests from 100 tasks to a server that
//! answers at once, and to one that answers 429 above 30 a second, while a lease is renewed on the
//! election lane. `cargo bench --bench limiter -- 1000` sends fewer.
//!
//! It takes the time that the rates make it take: about three minutes, and six.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use mainstay::client::{Client, ClientOptions, Config, Error, LEASE, POD};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const REQUESTS: usize = 10_000;
const TASKS: usize = 100;
/// What the second server takes each second.
const TAKEN: u64 = 30;
/// Between two renewals; the holder loses the lease after 15 s without one.
const RENEW: Duration = Duration::from_secs(1);
/// Seconds in one line of the table.
const LINE: usize = 10;

fn main() -> ExitCode {
    let requests = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(REQUESTS);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(async {
        measure("answers at once", None, requests).await;
        measure("429 above 30 a second", Some(TAKEN), requests).await;
    });
    ExitCode::SUCCESS
}

/// Answers, and counts what it answered in each second since it began.
struct Server {
    began: Instant,
    limit: Option<u64>,
    /// Of this second: which one it is, and how many came.
    second: Mutex<(u64, u64)>,
    /// (200, 429), by second.
    answered: Mutex<Vec<(u64, u64)>>,
    renewals: Mutex<Vec<Instant>>,
}

impl Server {
    async fn start(limit: Option<u64>) -> (Arc<Self>, String) {
        let server = Arc::new(Self {
            began: Instant::now(),
            limit,
            second: Mutex::default(),
            answered: Mutex::default(),
            renewals: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let serving = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = Arc::clone(&serving);
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let server = Arc::clone(&server);
                        async move { Ok::<_, hyper::Error>(server.answer(&request)) }
                    });
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        (server, url)
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
        if request.uri().path().contains("/leases/") {
            self.renewals.lock().expect("no panic").push(Instant::now());
            return response;
        }
        let now = self.began.elapsed().as_secs();
        let mut second = self.second.lock().expect("no panic");
        if second.0 != now {
            *second = (now, 0);
        }
        second.1 += 1;
        let too_many = self.limit.is_some_and(|limit| second.1 > limit);
        let mut answered = self.answered.lock().expect("no panic");
        let at = usize::try_from(now).expect("a small number");
        if answered.len() <= at {
            answered.resize(at + 1, (0, 0));
        }
        if too_many {
            answered[at].1 += 1;
            *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
            let after = http::HeaderValue::from_static("1");
            response.headers_mut().insert("retry-after", after);
        } else {
            answered[at].0 += 1;
        }
        response
    }
}

/// What the tasks met.
#[derive(Default)]
struct Met {
    refused: AtomicU64,
    /// What was given to a task as failed, and how often; it asks again.
    failed: Mutex<BTreeMap<String, u64>>,
    waits: Mutex<Vec<Duration>>,
}

async fn measure(name: &str, limit: Option<u64>, requests: usize) {
    let (server, url) = Server::start(limit).await;
    let config = Config::without_credentials(url);
    let client = Client::new(config, ClientOptions::default()).expect("a client");
    let lane = client.election_lane();
    let renewing = tokio::spawn(renew(lane));
    let met = Arc::new(Met::default());
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        tasks.spawn(send(
            client.clone(),
            Arc::clone(&met),
            requests / TASKS,
            start,
        ));
    }
    let mut finished = Vec::new();
    while let Some(task) = tasks.join_next().await {
        finished.push(task.expect("no panic"));
    }
    renewing.abort();
    let took = start.elapsed();
    finished.sort_unstable();
    let mut waits = met.waits.lock().expect("no panic").clone();
    waits.sort_unstable();
    let part = |part: usize| waits[(waits.len() * part / 1000).min(waits.len() - 1)];
    println!(
        "\n{name}: {requests} requests of {TASKS} tasks in {:.1} s",
        took.as_secs_f64()
    );
    println!(
        "  first task {:.1} s, last task {:.1} s",
        finished[0].as_secs_f64(),
        finished[TASKS - 1].as_secs_f64()
    );
    println!(
        "  from asking to the answer: p50 {:.2} s, p99 {:.2} s, longest {:.2} s; {} held back by the breaker",
        part(500).as_secs_f64(),
        part(990).as_secs_f64(),
        part(1000).as_secs_f64(),
        met.refused.load(Ordering::SeqCst),
    );
    for (error, times) in &*met.failed.lock().expect("no panic") {
        println!("  given to a task as failed, {times} times: {error}");
    }
    print_rates(&server);
    let renewals = server.renewals.lock().expect("no panic");
    let gaps = renewals.windows(2).map(|pair| pair[1] - pair[0]);
    println!(
        "  {} renewals, the longest time between two {:.2} s",
        renewals.len(),
        gaps.max().unwrap_or_default().as_secs_f64()
    );
}

fn print_rates(server: &Server) {
    let answered = server.answered.lock().expect("no panic");
    let best = answered.iter().map(|(ok, many)| ok + many).max();
    println!("  most in one second: {}", best.unwrap_or_default());
    for (line, seconds) in answered.chunks(LINE).enumerate() {
        let sum = |of: fn(&(u64, u64)) -> u64| seconds.iter().map(of).sum::<u64>() as f64;
        let per_second = |sum: f64| sum / seconds.len() as f64;
        println!(
            "  from {:>4} s: {:>5.1} a second taken, {:>5.1} refused",
            line * LINE,
            per_second(sum(|(ok, _)| *ok)),
            per_second(sum(|(_, many)| *many)),
        );
    }
}

/// Renews as the elector does.
async fn renew(lane: Client) {
    let mut ticks = tokio::time::interval(RENEW);
    let body = json!({"metadata": {"name": "l", "resourceVersion": "1"}});
    loop {
        ticks.tick().await;
        let renewed: Result<Value, Error> = lane.replace(LEASE, Some("ns"), "l", None, &body).await;
        if let Err(error) = renewed {
            println!("  a renewal failed: {error}");
        }
    }
}

/// One task: so many requests, one after the other, each until it succeeds; when it was done.
async fn send(client: Client, met: Arc<Met>, requests: usize, start: Instant) -> Duration {
    let mut breaker = client.breaker().expect("the ordinary lane has one");
    for _ in 0..requests {
        let asked = Instant::now();
        loop {
            // As the workers do: nothing starts while it is open.
            breaker.not_open().await;
            match client.get::<Value>(POD, Some("ns"), "a").await {
                Ok(_) => break,
                Err(Error::BreakerOpen { .. }) => {
                    met.refused.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) => {
                    let mut failed = met.failed.lock().expect("no panic");
                    *failed.entry(error.to_string()).or_default() += 1;
                }
            }
        }
        met.waits.lock().expect("no panic").push(asked.elapsed());
    }
    start.elapsed()
}
