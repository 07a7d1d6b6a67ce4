//! A server that passes requests on, with faults of its own.

use http::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{MAPS, Wire, server};
use crate::apiserver::{Access, ApiServer, ApiServerOptions, Fault, Rule};
use crate::client::{Client, ClientOptions, Config, ConfigSource};

/// A server, and one that passes on to it.
async fn two() -> (ApiServer, ApiServer) {
    let (behind, listener) = (server(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let kubeconfig = Access::plain("behind").kubeconfig(address, "behind", "any");
    std::fs::write(file.path(), kubeconfig).unwrap();
    let source = ConfigSource {
        kubeconfig: Some(file.path().to_owned()),
        context: None,
    };
    let config = Config::load(&source).await.unwrap();
    let client = Client::new(config, ClientOptions::default()).unwrap();
    let serves = behind.clone();
    tokio::spawn(async move { serves.serve(listener, None, std::future::pending()).await });
    let before = ApiServer::new(ApiServerOptions {
        upstream: Some(client.election_lane()),
        ..ApiServerOptions::default()
    });
    (behind, before)
}

#[tokio::test]
async fn requests_are_passed_on_with_faults() {
    let (behind, before) = two().await;
    let mut wire = Wire::new(&before).await;
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "b"}});
    let (code, made) = wire.ask(Method::POST, MAPS, &map).await;
    assert_eq!((code, &made["data"]["a"]), (201, &json!("b")));
    assert_eq!(behind.objects("configmaps").len(), 1);
    let refusal = Fault::Status {
        code: 503,
        retry_after: Some(2),
    };
    let path = format!("{MAPS}/m");
    before
        .faults()
        .add(Rule::always(refusal).on("get").times(1));
    assert_eq!(wire.ask(Method::GET, &path, &Value::Null).await.0, 503);
    assert_eq!(wire.ask(Method::GET, &path, &Value::Null).await.0, 200);
    assert_eq!(wire.ask(Method::GET, "/version", &Value::Null).await.0, 200);
    let missing = wire
        .ask(Method::GET, &format!("{MAPS}/no"), &Value::Null)
        .await;
    assert_eq!((missing.0, &missing.1["reason"]), (404, &json!("NotFound")));
    // The deed is done behind, and its answer is lost here.
    let lost = Rule::always(Fault::DropAfter).on("delete").times(1);
    before.faults().add(lost);
    let refused = wire.send(Method::DELETE, &path, "").await;
    assert!(refused.is_err());
    assert!(behind.objects("configmaps").is_empty());
}
