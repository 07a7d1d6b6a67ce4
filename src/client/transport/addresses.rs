//! Several addresses of one API server: each connection begins with the next one.
//!
//! Connections are few and long (one a lane where there is HTTP/2), and a new one is made because the
//! last was lost, or was asked to leave: going elsewhere first is what gets away from a server that is
//! ill in a way that TCP does not see, and what spreads clients again after a GOAWAY.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::vec;

use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

/// A resolver whose answers begin with another address each time. Clones take turns with each other.
#[derive(Clone)]
pub(super) struct Rotating<R> {
    resolver: R,
    asked: Arc<AtomicUsize>,
}

impl<R> Rotating<R> {
    pub(super) fn new(resolver: R) -> Self {
        Self {
            resolver,
            asked: Arc::default(),
        }
    }
}

impl<R> Service<Name> for Rotating<R>
where
    R: Service<Name>,
    R::Response: Iterator<Item = SocketAddr>,
    R::Future: Send + 'static,
{
    type Response = vec::IntoIter<SocketAddr>;
    type Error = R::Error;
    type Future = BoxFuture<'static, Result<Self::Response, R::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), R::Error>> {
        self.resolver.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let turn = self.asked.fetch_add(1, Ordering::Relaxed);
        let resolving = self.resolver.call(name);
        Box::pin(async move { Ok(rotated(resolving.await?.collect(), turn).into_iter()) })
    }
}

/// The addresses, from the `turn`th on. The family that came first stays first: the system has its
/// reasons. Name servers shuffle their answers, so the order within a family is our own.
fn rotated(addresses: Vec<SocketAddr>, turn: usize) -> Vec<SocketAddr> {
    let preferred = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second) = addresses
        .into_iter()
        .partition::<Vec<_>, _>(|address| address.is_ipv6() == preferred);
    let mut all = Vec::with_capacity(first.len() + second.len());
    for mut family in [first, second] {
        family.sort_unstable();
        family.dedup();
        let from = turn.checked_rem(family.len()).unwrap_or(0);
        family.rotate_left(from);
        all.append(&mut family);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::dial::{CONNECTION_TIMEOUT, Dial, Stream, Tcp};
    use super::*;
    use crate::client::testing::FakeServer;
    use crate::client::{Client, ClientOptions, Error, POD, WatchOptions};
    use http::Uri;
    use serde_json::Value;
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::io;
    use std::time::Duration;
    use tokio::time::Instant;

    #[test]
    fn each_turn_begins_with_another_address_of_the_preferred_family() {
        let parse = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let shuffled = parse(&["[::2]:1", "10.0.0.2:1", "[::1]:1", "10.0.0.1:1", "[::2]:1"]);
        let first = parse(&["[::1]:1", "[::2]:1", "10.0.0.1:1", "10.0.0.2:1"]);
        let second = parse(&["[::2]:1", "[::1]:1", "10.0.0.2:1", "10.0.0.1:1"]);
        assert_eq!(rotated(shuffled.clone(), 0), first);
        assert_eq!(rotated(shuffled.clone(), 1), second);
        assert_eq!(rotated(shuffled, 2), first);
        assert!(rotated(Vec::new(), 7).is_empty());
    }

    /// A name with these addresses. The port is the URL's.
    #[derive(Clone)]
    struct Fixed(Vec<SocketAddr>);

    impl Service<Name> for Fixed {
        type Response = vec::IntoIter<SocketAddr>;
        type Error = Infallible;
        type Future = Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Name) -> Self::Future {
            ready(Ok(self.0.clone().into_iter()))
        }
    }

    async fn get(client: &Client) -> Result<Value, Error> {
        client.get(POD, Some("ns"), "a").await
    }

    /// Two servers with one name, certificate and port, the first of which listens if `both` do; and a
    /// client of that name.
    async fn pair(both: bool) -> (FakeServer, FakeServer, Client) {
        let first = FakeServer::readable();
        let second = first.twin();
        let port = second
            .listen_at("127.0.0.2:0".parse().unwrap())
            .await
            .port();
        let at = |host: [u8; 4]| SocketAddr::from((host, port));
        if both {
            first.listen_at(at([127, 0, 0, 1])).await;
        }
        let names = Fixed(vec![at([127, 0, 0, 1]), at([127, 0, 0, 2])]);
        let config = first.config_at(format!("https://fake:{port}"));
        let dial = Arc::new(Tcp::resolved_by(names));
        let client = Client::with_dial(config, ClientOptions::default(), dial).unwrap();
        (first, second, client)
    }

    #[tokio::test]
    async fn k107266_an_address_where_nobody_listens_fails_no_request() {
        let (first, second, client) = pair(false).await;
        get(&client).await.unwrap();
        let lane = client.election_lane();
        let renewed: Result<Value, Error> = lane.get(POD, Some("ns"), "a").await;
        renewed.unwrap();
        assert_eq!((first.requests().len(), second.requests().len()), (0, 2));
    }

    #[tokio::test]
    async fn k48610_one_that_is_asked_to_leave_goes_to_the_other_server_and_keeps_its_watch() {
        let (first, second, client) = pair(true).await;
        let options = WatchOptions::default();
        let mut watch = client.watch(POD, None, &options).await.unwrap();
        assert_eq!(first.requests().len(), 1);
        first.go_away();
        // What is already on the old connection is answered there.
        let elsewhere = async {
            while second.requests().is_empty() {
                get(&client).await.unwrap();
            }
        };
        let limit = Duration::from_secs(10);
        tokio::time::timeout(limit, elsewhere)
            .await
            .expect("it stays");
        let ended = tokio::time::timeout(Duration::from_millis(10), watch.next::<Value>());
        assert!(ended.await.is_err(), "the watch goes on where it was");
    }

    /// Takes the first connection and says nothing on it; then there is a server.
    struct Mute {
        server: FakeServer,
        held: std::sync::Mutex<Vec<tokio::io::DuplexStream>>,
    }

    impl Dial for Mute {
        fn dial(&self, server: Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
            let mut held = self.held.lock().unwrap();
            if !held.is_empty() {
                return self.server.dial(server);
            }
            let (near, far) = tokio::io::duplex(1024);
            held.push(far);
            Box::pin(async move { Ok(Box::new(near) as Box<dyn Stream>) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn k107266_a_server_that_takes_connections_and_says_nothing_fails_no_request() {
        let server = FakeServer::readable();
        let dial = Mute {
            server: server.clone(),
            held: std::sync::Mutex::default(),
        };
        let config = server.config_at("https://fake");
        let client = Client::with_dial(config, ClientOptions::default(), Arc::new(dial)).unwrap();
        let start = Instant::now();
        // A POST, too: nothing of it was sent.
        let body = serde_json::json!({});
        let created = client.create::<_, Value>(POD, Some("ns"), &body).await;
        created.unwrap();
        assert!(start.elapsed() < CONNECTION_TIMEOUT + Duration::from_secs(1));
    }
}
