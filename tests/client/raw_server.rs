//! A server that says what it is told to, HTTP or not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mainstay::client::{Client, ClientOptions, Config, ConfigSource};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What nobody may find in a message.
pub(crate) const SECRET: &str = "hunter2";
/// Of each call.
pub(crate) const DEADLINE: Duration = Duration::from_secs(1);

/// What it does once it has read the head of a request.
#[derive(Clone)]
pub(crate) enum Says {
    /// This, then it closes the connection.
    Bytes(Vec<u8>),
    /// The first, then the second over and over, as fast as it is read.
    Flood(Vec<u8>, Vec<u8>),
    /// The same, but slowly.
    Trickle(Vec<u8>, Vec<u8>),
}

/// Counts what it was asked and what it got rid of.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) requests: AtomicUsize,
    pub(crate) written: AtomicUsize,
}

/// Serves on a free port of the loopback until the test ends.
pub(crate) async fn serve(says: Says) -> (SocketAddr, Arc<Counts>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Arc::<Counts>::default();
    let counting = Arc::clone(&counts);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, says.clone(), Arc::clone(&counting)));
        }
    });
    (address, counts)
}

async fn answer(mut stream: TcpStream, says: Says, counts: Arc<Counts>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    counts.requests.fetch_add(1, Ordering::SeqCst);
    let (first, again, pause) = match says {
        Says::Bytes(bytes) => {
            // The peer may have heard enough before the end.
            let _ = stream.write_all(&bytes).await;
            return;
        }
        Says::Flood(first, again) => (first, again, Duration::ZERO),
        Says::Trickle(first, again) => (first, again, Duration::from_millis(20)),
    };
    let mut next = first;
    while stream.write_all(&next).await.is_ok() {
        counts.written.fetch_add(next.len(), Ordering::SeqCst);
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        next.clone_from(&again);
    }
}

/// A client of `server`, with a token that is a secret.
pub(crate) async fn client(server: &str, authority: Option<&str>) -> Client {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let mut cluster = serde_json::json!({"server": server});
    if let Some(pem) = authority {
        std::fs::write(folder.path().join("ca.pem"), pem).unwrap();
        cluster["certificate-authority"] = "ca.pem".into();
    }
    let config = serde_json::json!({
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": cluster}],
        "users": [{"name": "x", "user": {"token": SECRET}}],
    });
    std::fs::write(&file, config.to_string()).unwrap();
    let source = ConfigSource {
        kubeconfig: Some(file),
        context: None,
    };
    let options = ClientOptions {
        deadline: DEADLINE,
        ..ClientOptions::default()
    };
    Client::new(Config::load(&source).await.unwrap(), options).unwrap()
}
