//! Faults as a client suffers them.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Lines, MAPS, Wire, server};
use crate::apiserver::{Fault, Rule};

#[tokio::test(start_paused = true)]
async fn answers_are_lost_before_or_after_the_deed() {
    let server = server();
    server
        .faults()
        .add(Rule::always(Fault::DropBefore).on("create").times(1));
    let body = json!({"metadata": {"name": "m"}}).to_string();
    assert!(
        Wire::new(&server)
            .await
            .send(Method::POST, MAPS, &body)
            .await
            .is_err()
    );
    let mut wire = Wire::new(&server).await;
    assert_eq!(wire.get(&format!("{MAPS}/m")).await.0, 404);
    server
        .faults()
        .add(Rule::always(Fault::DropAfter).on("create").times(1));
    assert!(
        Wire::new(&server)
            .await
            .send(Method::POST, MAPS, &body)
            .await
            .is_err()
    );
    assert_eq!(wire.get(&format!("{MAPS}/m")).await.0, 200);
    assert_eq!(server.faults().injected()["dropAfter"], 1);
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_says_when_to_come_back() {
    let server = server();
    server.faults().add(
        Rule::always(Fault::Status {
            code: 429,
            retry_after: Some(3),
        })
        .of("configmaps")
        .by("wire"),
    );
    let mut wire = Wire::new(&server).await;
    let response = wire.send(Method::GET, MAPS, "").await.unwrap();
    assert_eq!(
        (
            response.status().as_u16(),
            response.headers()["retry-after"].to_str().unwrap()
        ),
        (429, "3")
    );
    drop(response);
    assert_eq!(wire.get("/api/v1/pods").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_go_silent_or_break_in_a_frame() {
    let server = server();
    server
        .faults()
        .add(Rule::always(Fault::Silent).on("watch").times(1));
    let mut silent = Lines::open(&server, "resourceVersion=0&timeoutSeconds=600").await;
    Wire::new(&server).await.create("a").await;
    assert!(
        tokio::time::timeout(Duration::from_secs(500), silent.next())
            .await
            .is_err()
    );
    server
        .faults()
        .add(Rule::always(Fault::HalfFrame).on("watch").times(1));
    let mut half = Lines::open(&server, "").await;
    Wire::new(&server).await.create("b").await;
    assert!(half.next().await.is_err());
    assert!(!half.1.is_empty(), "half a frame came");
    server.faults().add(
        Rule::always(Fault::BookmarkStorm { count: 50 })
            .on("watch")
            .times(1),
    );
    let version = server.resource_version();
    let mut storm = Lines::open(
        &server,
        &format!("resourceVersion={version}&allowWatchBookmarks=true"),
    )
    .await;
    let start = Instant::now();
    for _ in 0..200 {
        assert_eq!(storm.event().await.0, "BOOKMARK");
    }
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_answers_nothing_and_then_goes_on() {
    let server = server();
    let mut wire = Wire::new(&server).await;
    wire.create("a").await;
    server.faults().freeze();
    let asked = tokio::spawn(async move { wire.get(MAPS).await.0 });
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(!asked.is_finished());
    server.faults().thaw();
    assert_eq!(asked.await.unwrap(), 200);
}

#[tokio::test(start_paused = true)]
async fn goaway_lets_what_runs_finish() {
    let server = server();
    let (near, far) = tokio::io::duplex(1 << 16);
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve_stream(far).await }
    });
    let (mut sender, connection) =
        http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(near))
            .await
            .unwrap();
    tokio::spawn(connection);
    server.faults().add(Rule::always(Fault::GoAway).times(1));
    let request = || {
        Request::get(format!("http://x{MAPS}"))
            .body(Full::default())
            .unwrap()
    };
    let answered = sender.send_request(request()).await.unwrap();
    assert_eq!(answered.status(), 200);
    drop(answered);
    serving.await.unwrap();
    assert!(sender.send_request(request()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn faults_are_set_by_http_too() {
    let server = server();
    let mut wire = Wire::new(&server).await;
    let rule = json!({"verb": "get", "resource": "configmaps", "fault": "status", "code": 503});
    let (code, added) = wire.ask(Method::POST, "/faults", &rule).await;
    assert_eq!((code, &added["id"]), (201, &json!(0)));
    assert_eq!(wire.get(&format!("{MAPS}/x")).await.0, 503);
    let (_, listed) = wire.get("/faults").await;
    assert_eq!(
        (&listed["rules"][0]["hits"], &listed["injected"]["status"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        wire.ask(Method::DELETE, "/faults/0", &Value::Null).await.0,
        200
    );
    assert_eq!(wire.get(&format!("{MAPS}/x")).await.0, 404);
    assert_eq!(
        wire.ask(Method::POST, "/faults", &json!({"fault": "?"}))
            .await
            .0,
        400
    );
}
