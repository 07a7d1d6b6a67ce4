//! The way to a pod, which can be cut: no byte passes and nobody is told, until it is healed.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::client::Stream;

/// Whether bytes pass. Clones are one way.
#[derive(Clone, Default)]
pub(super) struct Link {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    cut: bool,
    waiting: Vec<Waker>,
}

impl Link {
    /// Cuts or heals it.
    pub(super) fn set(&self, cut: bool) {
        let waiting = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.cut = cut;
            if cut {
                return;
            }
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether it is cut.
    pub(super) fn is_cut(&self) -> bool {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .cut
    }

    /// Waits while it is cut.
    pub(super) fn whole(&self) -> impl Future<Output = ()> + Send {
        let link = self.clone();
        poll_fn(move |cx| link.poll(cx))
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.cut {
            return Poll::Ready(());
        }
        if !state
            .waiting
            .iter()
            .any(|waker| waker.will_wake(cx.waker()))
        {
            state.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// A stream over a way that may be cut.
pub(super) struct Linked {
    stream: Box<dyn Stream>,
    link: Link,
}

impl Linked {
    pub(super) fn new(stream: Box<dyn Stream>, link: Link) -> Self {
        Self { stream, link }
    }
}

impl AsyncRead for Linked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.link.poll(cx));
        // Woken by a cut too late, what is read now was under way before.
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Linked {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.link.poll(cx));
        Pin::new(&mut self.stream).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.link.poll(cx));
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn a_cut_holds_bytes_back_and_nobody_is_told() {
        let (near, mut far) = tokio::io::duplex(64);
        let link = Link::default();
        let mut near = Linked::new(Box::new(near), link.clone());
        let mut byte = [0];
        far.write_all(b"a").await.unwrap();
        near.read_exact(&mut byte).await.unwrap();
        link.set(true);
        far.write_all(b"b").await.unwrap();
        let long = Duration::from_hours(1);
        assert!(timeout(long, near.read_exact(&mut byte)).await.is_err());
        assert!(timeout(long, near.write_all(b"c")).await.is_err());
        assert!(timeout(long, link.whole()).await.is_err());
        let waiting = tokio::spawn(async move {
            near.read_exact(&mut byte).await.unwrap();
            byte
        });
        tokio::task::yield_now().await;
        link.set(false);
        assert_eq!(waiting.await.unwrap(), *b"b");
    }
}
