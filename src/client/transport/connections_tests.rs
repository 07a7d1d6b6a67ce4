use super::*;
use crate::client::testing::{FakeServer, Reply};
use crate::client::transport::{Dial, Stream, Transport, tls::Identity};
use futures_util::future::{BoxFuture, join_all};
use http::header;
use http_body_util::BodyExt as _;
use std::io;
use std::sync::atomic::AtomicUsize;

const LIMIT: Duration = Duration::from_secs(10);

fn transport(server: &FakeServer) -> Transport {
    let config = server.config_at("https://fake");
    let identity = Arc::new(Identity::default());
    Transport::new(&config, identity, Some(Arc::new(server.clone()))).unwrap()
}

fn request(path: &str) -> Request<Body> {
    let uri = format!("https://fake{path}");
    Request::get(uri).body(Body::default()).unwrap()
}

fn http1() -> FakeServer {
    FakeServer::with_tls(&["fake"], &["http/1.1"], |request| {
        match request.path_and_query.as_str() {
            "/endless" => Reply::Endless(Bytes::new()),
            "/hang" => Reply::Hang,
            _ => Reply::json("{}"),
        }
    })
}

async fn read(transport: &Transport, path: &str) -> Bytes {
    let answer = transport.send(request(path)).await.unwrap();
    answer.into_body().collect().await.unwrap().to_bytes()
}

/// Which connection each request came on.
fn connections(server: &FakeServer) -> Vec<usize> {
    let requests = server.requests();
    requests.iter().map(|request| request.connection).collect()
}

/// The way onto the HTTP/2 connection in use.
fn shared(transport: &Transport) -> Arc<Line> {
    let connections = transport.connections();
    let state = lock(&connections.pool.state);
    Arc::clone(state.shared.as_ref().unwrap())
}

/// Waits until so many HTTP/1.1 connections can be used again.
async fn idle(transport: &Transport, count: usize) {
    let connections = transport.connections();
    until(|| lock(&connections.pool.state).idle.len() == count).await;
}

/// Says nothing to the first ones.
struct Mute {
    first: AtomicUsize,
    then: FakeServer,
}

impl Dial for Mute {
    fn dial(&self, server: Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        assert_eq!(server, "https://fake/");
        let less = |left: usize| left.checked_sub(1);
        let relaxed = Ordering::Relaxed;
        if self.first.fetch_update(relaxed, relaxed, less).is_ok() {
            return Box::pin(std::future::pending());
        }
        self.then.dial(server)
    }
}

async fn until(mut holds: impl FnMut() -> bool) {
    let held = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, held).await.unwrap();
}

#[tokio::test]
async fn reqwest1323_nobody_can_send_on_a_connection_that_ended_nor_waits_for_it() {
    let server = FakeServer::readable();
    let transport = transport(&server);
    read(&transport, "/").await;
    let left = shared(&transport);
    server.go_away();
    until(|| lock(&left.sender).is_none()).await;
    // The request comes back, and goes elsewhere.
    let uri = Uri::from_static("https://fake/");
    let failed = left.send(request("/"), &uri).await.err().unwrap();
    assert!(failed.unsent.is_some() && failed.why.unsent);
    read(&transport, "/").await;
    assert_eq!(connections(&server), [0, 1]);
}

#[tokio::test]
async fn requests_that_come_together_make_one_connection() {
    let server = FakeServer::readable();
    let transport = transport(&server);
    join_all((0..50).map(|_| read(&transport, "/"))).await;
    assert_eq!(connections(&server), [0; 50]);
}

#[tokio::test]
async fn whoever_gives_up_takes_nobody_along() {
    let server = FakeServer::readable();
    let transport = transport(&server);
    let mut first = Box::pin(transport.send(request("/first")));
    let mut second = Box::pin(transport.send(request("/second")));
    for waiting in [&mut first, &mut second] {
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    }
    drop(first);
    second.await.unwrap();
    assert_eq!(connections(&server), [0]);
    assert_eq!(server.requests()[0].path_and_query, "/second");
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_fails_all_who_wait_for_it_and_nobody_later() {
    let server = FakeServer::readable();
    let transport = transport(&server);
    server.refuse(1);
    let failed = join_all((0..5).map(|_| transport.send(request("/")))).await;
    for (count, failed) in failed.into_iter().enumerate() {
        let error = failed.unwrap_err();
        let whose = if count == 0 {
            Attempt::Own
        } else {
            Attempt::Another
        };
        assert_eq!(error.unconnected, Some(whose));
        assert!(error.unsent, "{error:?}");
        assert!(error.message.contains("connection refused"), "{error:?}");
    }
    read(&transport, "/").await;
}

#[tokio::test(start_paused = true)]
async fn k107266_a_connection_that_takes_its_time_is_not_waited_for_alone() {
    let server = FakeServer::readable();
    let dial = Mute {
        first: AtomicUsize::new(2),
        then: server.clone(),
    };
    let config = server.config_at("https://fake");
    let identity = Arc::new(Identity::default());
    let transport = Transport::new(&config, identity, Some(Arc::new(dial))).unwrap();
    let start = Instant::now();
    // All of them, also those who came first.
    join_all((0..5).map(|_| read(&transport, "/"))).await;
    assert_eq!(start.elapsed(), 2 * PATIENCE);
    assert_eq!(connections(&server), [0; 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http1_what_was_opened_is_used() {
    for _ in 0..50 {
        let server = http1();
        let transport = transport(&server);
        tokio::spawn(async move { read(&transport, "/").await })
            .await
            .unwrap();
        assert_eq!(server.dials(), 1);
    }
}

#[tokio::test]
async fn http1_has_a_connection_for_each_request_at_a_time() {
    let server = http1();
    let transport = transport(&server);
    for _ in 0..3 {
        read(&transport, "/").await;
        idle(&transport, 1).await;
    }
    assert_eq!(connections(&server), [0; 3], "one after the other");
    let endless = transport.send(request("/endless")).await.unwrap();
    for _ in 0..2 {
        read(&transport, "/").await;
        idle(&transport, 1).await;
    }
    let taken = connections(&server);
    assert!(taken[3] != taken[4] && taken[4] == taken[5], "{taken:?}");
    let host = &server.requests()[4].headers[header::HOST];
    assert_eq!(host, "fake");

    // Those whose answers were not read can't be used again.
    drop(endless);
    let hanging = tokio::time::timeout(Duration::from_millis(10), transport.send(request("/hang")));
    assert!(hanging.await.is_err());
    read(&transport, "/").await;
    let later = connections(&server);
    let (hung, next) = (later[6], later[7]);
    assert!(
        hung != taken[3] && next != taken[3] && next != hung,
        "{later:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn http1_a_request_takes_what_is_returned_while_its_own_connection_is_made() {
    let server = http1();
    let transport = transport(&server);
    read(&transport, "/").await;
    idle(&transport, 1).await;
    let first = transport.send(request("/")).await.unwrap();
    // From now on nobody is let in.
    server.mute();
    let mut second = Box::pin(transport.send(request("/")));
    assert!(futures_util::poll!(second.as_mut()).is_pending());
    let start = Instant::now();
    first.into_body().collect().await.unwrap();
    second.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(connections(&server), [0; 3]);
}

#[tokio::test]
async fn http1_a_connection_that_the_server_closed_meanwhile_fails_no_request() {
    let server = http1();
    let transport = transport(&server);
    for round in 0..20 {
        read(&transport, "/").await;
        server.go_away();
        // It may be seen to have ended, or be about to.
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(server.requests().len(), 20);
}

#[tokio::test]
async fn connections_end_with_those_who_may_send_on_them_and_what_they_still_read() {
    let server = FakeServer::readable();
    let transport = transport(&server);
    let mut watch = transport.send(request("/?watch=true")).await.unwrap();
    let line = Arc::downgrade(&shared(&transport));
    transport.reconnect();
    assert!(line.upgrade().is_none(), "nobody can send on it");
    let ended = tokio::time::timeout(Duration::from_millis(10), watch.body_mut().frame());
    assert!(ended.await.is_err(), "what is read goes on");
    read(&transport, "/").await;
    assert_eq!(connections(&server), [0, 1]);
}
