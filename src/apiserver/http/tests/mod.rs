//! The edge as a client sees it: bytes in, bytes out, over a pipe in memory.

mod faults;
mod reach;
mod relay;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::apiserver::{ApiServer, ApiServerOptions, Client};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn server() -> ApiServer {
    ApiServer::new(ApiServerOptions::default())
}

/// A connection to a server.
struct Wire(http1::SendRequest<Full<Bytes>>);

impl Wire {
    async fn new(server: &ApiServer) -> Self {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = server.clone();
        tokio::spawn(async move { server.serve_stream(far).await });
        let (sender, connection) = http1::handshake(TokioIo::new(near)).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: &str,
    ) -> hyper::Result<Response<Incoming>> {
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("user-agent", "wire/1 test")
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        self.0.send_request(request).await
    }

    async fn ask(&mut self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let response = self.send(method, path, &text).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn get(&mut self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, &Value::Null).await
    }

    async fn create(&mut self, name: &str) -> Value {
        let body = json!({"metadata": {"name": name}, "data": {"x": "1"}});
        self.ask(Method::POST, MAPS, &body).await.1
    }
}

/// The lines of a watch.
struct Lines(Incoming, Vec<u8>);

impl Lines {
    async fn open(server: &ApiServer, query: &str) -> Self {
        let mut wire = Wire::new(server).await;
        let response = wire
            .send(Method::GET, &format!("{MAPS}?watch=1&{query}"), "")
            .await
            .unwrap();
        // The sender must live as long as its connection is needed.
        tokio::spawn(async move {
            let _wire = wire;
            std::future::pending::<()>().await;
        });
        Self(response.into_body(), Vec::new())
    }

    /// The next event; `Ok(None)` at the end.
    async fn next(&mut self) -> Result<Option<Value>, String> {
        loop {
            if let Some(end) = self.1.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.1.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line).unwrap()));
            }
            match self.0.frame().await {
                Some(Ok(frame)) => self.1.extend_from_slice(&frame.into_data().unwrap()),
                Some(Err(error)) => return Err(error.to_string()),
                None => return Ok(None),
            }
        }
    }

    async fn event(&mut self) -> (String, Value) {
        let event = self.next().await.unwrap().unwrap();
        (
            event["type"].as_str().unwrap().to_owned(),
            event["object"].clone(),
        )
    }
}

#[tokio::test(start_paused = true)]
async fn objects_come_and_go_over_http() {
    let server = server();
    let mut wire = Wire::new(&server).await;
    let map = wire.create("m").await;
    assert_eq!(
        (&map["kind"], &map["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
    assert_eq!(map["metadata"]["managedFields"][0]["manager"], "wire");
    let (code, list) = wire.get(MAPS).await;
    assert_eq!((code, &list["kind"]), (200, &json!("ConfigMapList")));
    assert_eq!(list["items"][0]["metadata"]["name"], "m");
    assert!(
        list["items"][0].get("kind").is_none(),
        "typed items carry no kind"
    );
    let (code, patched) = wire
        .ask(
            Method::PATCH,
            &format!("{MAPS}/m"),
            &json!({"data": {"y": "2"}}),
        )
        .await;
    assert_eq!(
        (code, &patched["data"]),
        (200, &json!({"x": "1", "y": "2"}))
    );
    assert_eq!(
        wire.ask(Method::DELETE, &format!("{MAPS}/m"), &Value::Null)
            .await
            .0,
        200
    );
    let (code, status) = wire.get(&format!("{MAPS}/m")).await;
    assert_eq!((code, &status["reason"]), (404, &json!("NotFound")));
    assert_eq!(wire.get("/nothing").await.0, 404);
    assert_eq!(
        wire.ask(Method::POST, "/api/v1/configmaps", &json!({}))
            .await
            .0,
        405
    );
    let log = server.audit(0);
    assert_eq!(
        (
            log[0].verb,
            log[0].resource.as_str(),
            log[0].name.as_str(),
            log[0].code
        ),
        ("create", "configmaps", "m", 201)
    );
    assert!(log[0].wrote && !log[1].wrote);
}

#[tokio::test(start_paused = true)]
async fn a_watch_hears_of_changes_and_of_bookmarks() {
    let server = server();
    let mut wire = Wire::new(&server).await;
    wire.create("a").await;
    let mut lines = Lines::open(
        &server,
        "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=100",
    )
    .await;
    assert_eq!(lines.event().await.1["metadata"]["name"], "a");
    let (kind, mark) = lines.event().await;
    assert_eq!(
        (
            kind.as_str(),
            &mark["metadata"]["annotations"]["k8s.io/initial-events-end"]
        ),
        ("BOOKMARK", &json!("true"))
    );
    wire.create("b").await;
    let (kind, b) = lines.event().await;
    assert_eq!(
        (kind.as_str(), &b["metadata"]["name"], &b["kind"]),
        ("ADDED", &json!("b"), &json!("ConfigMap"))
    );
    let start = Instant::now();
    assert_eq!(lines.event().await.0, "BOOKMARK");
    assert!((59..=61).contains(&start.elapsed().as_secs()));
    assert_eq!(lines.next().await, Ok(None), "it ends after its time");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_is_told_in_the_stream() {
    let server = server();
    server.compact();
    let mut lines = Lines::open(&server, "resourceVersion=1").await;
    let (kind, status) = lines.event().await;
    assert_eq!(
        (kind.as_str(), &status["code"], &status["reason"]),
        ("ERROR", &json!(410), &json!("Expired"))
    );
    assert_eq!(lines.next().await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn tokens_decide_who_may_what() {
    let mut options = ApiServerOptions::default();
    options
        .tokens
        .insert("t".to_owned(), Client::admin("alice"));
    let server = ApiServer::new(options);
    let mut wire = Wire::new(&server).await;
    let (code, status) = wire.get(MAPS).await;
    assert_eq!(code, 403);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("User \"system:anonymous\" cannot list"),
        "{status}"
    );
    let asked = Request::get(MAPS)
        .header("authorization", "Bearer wrong")
        .body(Full::default());
    let refused = wire.0.send_request(asked.unwrap()).await.unwrap();
    assert_eq!(refused.status(), 401);
    drop(refused.into_body().collect().await);
    let asked = Request::get(MAPS)
        .header("authorization", "Bearer t")
        .body(Full::default());
    let let_in = wire.0.send_request(asked.unwrap()).await.unwrap();
    assert_eq!(let_in.status(), 200);
    drop(let_in.into_body().collect().await);
    assert_eq!(wire.get("/healthz").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_too_large_is_refused() {
    let server = server();
    let mut wire = Wire::new(&server).await;
    let body = json!({"metadata": {"name": "m"}, "data": {"x": "y".repeat(4 << 20)}});
    assert_eq!(wire.ask(Method::POST, MAPS, &body).await.0, 413);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_costs_no_memory_and_is_cut_off() {
    let server = ApiServer::new(ApiServerOptions {
        history: 50,
        ..ApiServerOptions::default()
    });
    let mut wire = Wire::new(&server).await;
    wire.create("m").await;
    let mut lines = Lines::open(
        &server,
        &format!("resourceVersion={}", server.resource_version()),
    )
    .await;
    let filler = "x".repeat(1 << 16);
    for round in 0..100 {
        let body = json!({"data": {"x": format!("{round}{filler}")}});
        assert_eq!(
            wire.ask(Method::PATCH, &format!("{MAPS}/m"), &body).await.0,
            200
        );
    }
    let mut heard = 0;
    while lines.next().await.unwrap().is_some() {
        heard += 1;
    }
    assert!(heard < 60, "{heard}");
}
