//! Whether a request that failed may have been carried out.

use std::error::Error;

/// Whose attempt at a connection it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Attempt {
    /// This request's.
    Own,
    /// Another's that it waited for: several that fail so are one connection that failed.
    Another,
}

/// Why no response head came.
#[derive(Debug)]
pub(in crate::client) struct SendError {
    /// There was no connection to send it on: whose attempt at one failed.
    pub(in crate::client) unconnected: Option<Attempt>,
    /// Whether it is certain that the server did not take the request.
    pub(in crate::client) unsent: bool,
    pub(in crate::client) message: String,
}

impl SendError {
    /// There was no connection, because of `error` of this attempt.
    pub(super) fn unconnected(attempt: Attempt, error: &(dyn Error + 'static)) -> Self {
        Self {
            unconnected: Some(attempt),
            unsent: true,
            message: causes(error).1,
        }
    }

    /// The connection was gone, which `message` says.
    pub(super) fn unsent(message: String) -> Self {
        Self {
            unconnected: None,
            unsent: true,
            message,
        }
    }

    /// The request was on a connection, and this is what came of it.
    pub(super) fn new(error: &hyper::Error) -> Self {
        let (unsent, message) = causes(error);
        Self {
            unconnected: None,
            unsent,
            message,
        }
    }
}

/// Whether one of an error's causes says that the request was not taken, and what they all say.
fn causes(error: &(dyn Error + 'static)) -> (bool, String) {
    let mut unsent = was_not_taken(error);
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        unsent |= was_not_taken(cause);
        let cause_message = cause.to_string();
        if !message.ends_with(&cause_message) {
            message = format!("{message}: {cause_message}");
        }
        source = cause.source();
    }
    (unsent, message)
}

/// Whether `cause` says that the server has not begun with the request, and never will.
fn was_not_taken(cause: &(dyn Error + 'static)) -> bool {
    // hyper calls a request canceled that was still queued when its connection ended.
    let queued = cause.downcast_ref::<hyper::Error>();
    // A GOAWAY without an error fails only the streams above the last one that the server took, which
    // it names; a refused stream was not taken either (RFC 9113, 6.8 and 8.7).
    let refused = cause.downcast_ref::<h2::Error>().is_some_and(|error| {
        let (left, reset) = (error.is_go_away(), error.is_reset());
        error.is_remote()
            && (left && error.reason() == Some(h2::Reason::NO_ERROR)
                || reset && error.reason() == Some(h2::Reason::REFUSED_STREAM))
    });
    refused || queued.is_some_and(hyper::Error::is_canceled)
}

#[cfg(test)]
mod tests {
    use super::super::dial::{Dial, Stream};
    use crate::client::testing::{FakeServer, Reply};
    use crate::client::{Client, ClientOptions, Error, POD};
    use futures_util::future::BoxFuture;
    use http::Uri;
    use serde_json::{Value, json};
    use std::io;
    use std::sync::{Arc, Mutex};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    const PREFACE: usize = 24;
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const HEADERS: u8 = 1;

    /// GOAWAY that names no stream as taken.
    fn go_away(reason: u8) -> Vec<u8> {
        vec![0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, reason]
    }

    /// RST_STREAM of the first request.
    fn reset(reason: u8) -> Vec<u8> {
        vec![0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, reason]
    }

    /// A server whose first connection answers the first request with these frames.
    struct Scripted {
        frames: Mutex<Option<Vec<u8>>>,
        then: FakeServer,
    }

    impl Dial for Scripted {
        fn dial(&self, server: Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
            let Some(frames) = self.frames.lock().unwrap().take() else {
                return self.then.dial(server);
            };
            let (near, far) = tokio::io::duplex(64 << 10);
            tokio::spawn(answer(self.then.clone(), far, frames));
            Box::pin(async move { Ok(Box::new(near) as Box<dyn Stream>) })
        }
    }

    async fn answer(server: FakeServer, stream: DuplexStream, frames: Vec<u8>) -> io::Result<()> {
        let mut stream = server.acceptor().accept(stream).await?;
        stream.read_exact(&mut [0; PREFACE]).await?;
        stream.write_all(&SETTINGS).await?;
        stream.flush().await?;
        let mut frames = Some(frames);
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut body = vec![0; length as usize];
            stream.read_exact(&mut body).await?;
            if let Some(frames) = frames.take_if(|_| head[3] == HEADERS) {
                stream.write_all(&frames).await?;
                stream.flush().await?;
            }
        }
    }

    async fn create(frames: Vec<u8>) -> (Result<Value, Error>, usize) {
        let then = FakeServer::with_tls(&["fake"], &["h2"], |_| Reply::json("{}"));
        let dial = Arc::new(Scripted {
            frames: Mutex::new(Some(frames)),
            then: then.clone(),
        });
        let config = then.config_at("https://fake");
        let client = Client::with_dial(config, ClientOptions::default(), dial).unwrap();
        let created = client.create(POD, Some("ns"), &json!({})).await;
        (created, then.requests().len())
    }

    #[tokio::test(start_paused = true)]
    async fn k88567_a_post_that_crosses_a_goaway_was_not_taken_and_is_sent_again() {
        const REFUSED_STREAM: u8 = 7;
        const ENHANCE_YOUR_CALM: u8 = 11;
        // The second one stays where it is unless it is asked to leave, too.
        let refused = [reset(REFUSED_STREAM), go_away(0)].concat();
        for not_taken in [go_away(0), refused] {
            let (created, sent) = create(not_taken).await;
            created.unwrap();
            assert_eq!(sent, 1);
        }
        for perhaps in [go_away(ENHANCE_YOUR_CALM), reset(2)] {
            let (created, sent) = create(perhaps).await;
            let error = created.unwrap_err();
            assert!(
                matches!(error, Error::Unavailable { unsent: false, .. }),
                "{error}"
            );
            assert_eq!(sent, 0, "it may have been carried out");
        }
    }
}
