use super::super::testing::{FakeServer, Reply};
use super::super::{Client, ClientOptions, Config, Error, ListOptions, POD};
use crate::client::credentials::Auth;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const OBJECT: &str = r#"{"metadata":{"name":"a"}}"#;

async fn get(client: &Client) -> Result<Value, Error> {
    client.get(POD, Some("ns"), "a").await
}

async fn create(client: &Client) -> Result<Value, Error> {
    client.create(POD, Some("ns"), &json!({})).await
}

#[tokio::test(start_paused = true)]
async fn k1798_every_call_ends_by_its_deadline() {
    let start = Instant::now();
    let server = FakeServer::replying([]);
    let error = get(&server.client()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "get pods ns/a (sent to http://fake/api/v1/namespaces/ns/pods/a): no answer within 15s"
    );
    assert_eq!(start.elapsed(), Duration::from_secs(15));

    let (_chunks, never_ending) = Reply::stream();
    let server = FakeServer::replying([never_ending]);
    assert!(matches!(
        get(&server.client()).await,
        Err(Error::Timeout { .. })
    ));

    let start = Instant::now();
    let server = FakeServer::new(|_| Reply::status(503, ""));
    let error = get(&server.client()).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Unavailable {
                code: Some(503),
                ..
            }
        ),
        "{error}"
    );
    assert!(
        start.elapsed() <= Duration::from_secs(15),
        "retries fit into it"
    );
    assert!(server.requests().len() > 3);
}

#[tokio::test]
async fn cgo1345_a_rotated_token_is_read_again_on_401_and_the_request_repeated_once() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "old\n").unwrap();
    let config = Config {
        auth: Auth::TokenFile {
            file: file.path().to_owned(),
            fallback: None,
        },
        ..Config::without_credentials("http://fake")
    };
    let mut accepted = "Bearer old";
    let path = file.path().to_owned();
    let server = FakeServer::new(move |request| {
        if request.path_and_query.ends_with("/rotate") {
            std::fs::write(&path, "new\n").unwrap();
            accepted = "Bearer new";
        }
        if request.headers["authorization"] == accepted {
            Reply::json(OBJECT)
        } else {
            Reply::status(401, "")
        }
    });
    let client = server.client_with(config, ClientOptions::default());
    get(&client).await.unwrap();
    let _: Value = client.get(POD, Some("ns"), "rotate").await.unwrap();
    create(&client).await.unwrap();
    assert_eq!(server.requests().len(), 4, "one was repeated");

    std::fs::write(file.path(), "wrong\n").unwrap();
    let _: Result<Value, _> = client.get(POD, Some("ns"), "a").await;
    let before = server.requests().len();
    let config = Config {
        auth: Auth::TokenFile {
            file: file.path().to_owned(),
            fallback: None,
        },
        ..Config::without_credentials("http://fake")
    };
    let client = server.client_with(config, ClientOptions::default());
    let error = get(&client).await.unwrap_err();
    assert!(matches!(error, Error::Unauthorized { .. }), "{error}");
    assert_eq!(server.requests().len(), before + 2, "once, not for ever");
}

#[tokio::test(start_paused = true)]
async fn bodies_are_bounded_and_truncated_ones_are_errors() {
    let (chunks, reply) = Reply::stream();
    chunks.send(Ok("{".into())).unwrap();
    chunks.send(Err(std::io::Error::other("cut"))).unwrap();
    let server = FakeServer::replying([reply, Reply::json(OBJECT)]);
    get(&server.client()).await.unwrap();
    assert_eq!(
        server.requests().len(),
        2,
        "a read that broke off is repeated"
    );

    let large = " ".repeat(17 << 20);
    let server = FakeServer::replying([Reply::json(large.clone()), Reply::status(500, large)]);
    let error = get(&server.client()).await.unwrap_err();
    assert!(
        error.to_string().contains("larger than 16777216 bytes"),
        "{error}"
    );
    let error = get(&server.client()).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Unavailable {
                code: Some(500),
                ..
            }
        ),
        "{error}"
    );

    let server = FakeServer::replying([Reply::json("<html>sign in</html>")]);
    let list = server
        .client()
        .list::<Value>(POD, None, &ListOptions::default())
        .await;
    assert!(matches!(list, Err(Error::Decode { .. })));
}
