//! What the server reaches itself: pods and conversion webhooks.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use super::{Wire, server};
use crate::apiserver::{LogOptions, PodDial, PodStream, WebhookDial};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod that says what it was asked.
struct Echo;

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let told = format!(
        "{} {} {} {}",
        parts.method,
        parts.uri,
        parts.headers.contains_key("authorization"),
        String::from_utf8_lossy(&body)
    );
    let mut response = Response::new(Full::from(told));
    *response.status_mut() = http::StatusCode::ACCEPTED;
    Ok(response)
}

async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: S) {
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(echo));
    let _ = served.await;
}

impl PodDial for Echo {
    fn dial(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
        tls: bool,
    ) -> BoxFuture<'static, io::Result<Box<dyn PodStream>>> {
        let known = (namespace, pod, port, tls) == ("default", "p", 8443, true);
        Box::pin(async move {
            if !known {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (near, far) = tokio::io::duplex(1 << 10);
            tokio::spawn(serve(far));
            Ok(Box::new(near) as Box<dyn PodStream>)
        })
    }

    fn log(
        &self,
        _: &str,
        _: &str,
        options: LogOptions,
    ) -> BoxFuture<'static, io::Result<Box<dyn AsyncRead + Send + Unpin>>> {
        Box::pin(async move {
            let text = format!("tail {:?}\n", options.tail_lines);
            Ok(Box::new(io::Cursor::new(text.into_bytes())) as Box<dyn AsyncRead + Send + Unpin>)
        })
    }
}

async fn text(response: Response<Incoming>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn requests_are_passed_on_to_pods() {
    let server = server();
    let mut wire = Wire::new(&server).await;
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    assert_eq!(wire.ask(Method::POST, PODS, &pod).await.0, 201);
    let path = format!("{PODS}/https:p:8443/proxy/v1/x%20y?z=1");
    assert_eq!(
        wire.ask(Method::GET, &path, &Value::Null).await.0,
        503,
        "nobody runs pods"
    );
    server.set_pod_dialer(Arc::new(Echo));
    let response = wire.send(Method::POST, &path, "hello").await.unwrap();
    assert_eq!(response.status(), 202);
    assert_eq!(text(response).await, "POST /v1/x%20y?z=1 false hello");
    let refused = wire
        .ask(Method::GET, &format!("{PODS}/p:1/proxy"), &Value::Null)
        .await;
    assert_eq!(
        (refused.0, &refused.1["reason"]),
        (503, &json!("ServiceUnavailable"))
    );
    let missing = wire
        .ask(Method::GET, &format!("{PODS}/q:1/proxy"), &Value::Null)
        .await;
    assert_eq!(missing.0, 404);
    let log = wire
        .send(Method::GET, &format!("{PODS}/p/log?tailLines=3"), "")
        .await
        .unwrap();
    assert_eq!(text(log).await, "tail Some(3)\n");
}

/// A conversion webhook that gives each object the version that is asked for, and says so.
struct Converter(TlsAcceptor);

async fn convert(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request
        .into_body()
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut objects = review["request"]["objects"].clone();
    for object in objects.as_array_mut().into_iter().flatten() {
        object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
        object["spec"]["converted"] = true.into();
    }
    let answer = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response":
        {"uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects}});
    Ok(Response::new(Full::from(answer.to_string())))
}

impl WebhookDial for Converter {
    fn dial(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn PodStream>>> {
        assert_eq!((host, port), ("hook.default.svc", 443));
        let acceptor = self.0.clone();
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(1 << 14);
            tokio::spawn(async move {
                let stream = acceptor.accept(far).await.unwrap();
                let served = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(convert));
                let _ = served.await;
            });
            Ok(Box::new(near) as Box<dyn PodStream>)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn versions_are_converted_by_their_webhook() {
    let pair = rcgen::generate_simple_self_signed(vec!["hook.default.svc".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key.into())
        .unwrap();
    let server = server();
    server.set_webhook_dialer(Arc::new(Converter(TlsAcceptor::from(Arc::new(tls)))));
    let mut wire = Wire::new(&server).await;
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    let definition = json!({"metadata": {"name": "things.g.io"}, "spec": {"group": "g.io", "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"}, "versions": [version("v1", true), version("v2", false)],
        "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig":
            {"caBundle": STANDARD.encode(pair.cert.pem()), "service": {"namespace": "default", "name": "hook"}}}}}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, answer) = wire.ask(Method::POST, definitions, &definition).await;
    assert_eq!(code, 201, "{answer}");
    let (v1, v2) = (
        "/apis/g.io/v1/namespaces/default/things",
        "/apis/g.io/v2/namespaces/default/things",
    );
    let thing = json!({"apiVersion": "g.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": 1}});
    assert_eq!(wire.ask(Method::POST, v1, &thing).await.0, 201);
    let (_, stored) = wire.get(&format!("{v1}/t")).await;
    assert_eq!(stored["spec"], json!({"a": 1}));
    let (_, converted) = wire.get(&format!("{v2}/t")).await;
    assert_eq!(
        (&converted["apiVersion"], &converted["spec"]["converted"]),
        (&json!("g.io/v2"), &json!(true))
    );
    let (_, list) = wire.get(v2).await;
    assert_eq!(list["items"][0]["spec"]["converted"], true);
    let patch = json!({"spec": {"b": 2}});
    let (code, patched) = wire.ask(Method::PATCH, &format!("{v2}/t"), &patch).await;
    assert_eq!((code, &patched["spec"]["b"]), (200, &json!(2)), "{patched}");
    let (_, stored) = wire.get(&format!("{v1}/t")).await;
    assert_eq!(stored["spec"], json!({"a": 1, "b": 2, "converted": true}));
}
