//! One connection's two directions, and its two ends.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::request::{Answered, Departing, Fate, body, request_line, status_line};
use super::{Network, Party};

/// Bytes on the way before a sender has to wait: a socket's buffers.
const WINDOW: usize = 1 << 20;

/// One direction.
pub(super) struct Pipe {
    pub(super) from: Party,
    pub(super) to: Party,
    state: Mutex<PipeState>,
}

#[derive(Default)]
struct PipeState {
    /// When each message arrives. Rising: messages do not overtake each other.
    messages: VecDeque<(Instant, Bytes)>,
    size: usize,
    held: bool,
    end: End,
    /// Nobody reads it any more: what is written is refused from now on.
    deaf: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    /// The sender has closed it: an end of file after the last message.
    Closed,
    /// The sender has died: an error after the last message.
    Died,
    /// Nothing arrives any more.
    Broken,
}

impl Pipe {
    pub(super) fn new(from: Party, to: Party) -> Self {
        Self {
            from,
            to,
            state: Mutex::default(),
        }
    }

    pub(super) fn set_held(&self, held: bool) {
        let mut state = self.state();
        if state.held != held {
            state.held = held;
            state.wake();
        }
    }

    pub(super) fn break_now(&self) {
        let mut state = self.state();
        state.messages.clear();
        state.end = End::Broken;
        state.wake();
    }

    pub(super) fn end_after_what_was_sent(&self) {
        let mut state = self.state();
        if matches!(state.end, End::Open | End::Closed) {
            state.end = End::Died;
        }
        state.wake();
    }

    pub(super) fn reader_gone(&self) {
        let mut state = self.state();
        state.deaf = true;
        state.messages.clear();
        state.wake();
    }

    /// Nothing passes here any more.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state();
        state.deaf || state.end == End::Broken
    }

    fn close(&self) {
        let mut state = self.state();
        if state.end == End::Open {
            state.end = End::Closed;
        }
        state.wake();
    }

    fn state(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().unwrap()
    }
}

impl PipeState {
    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()]
            .into_iter()
            .flatten()
        {
            waker.wake();
        }
    }
}

/// One end of a connection.
pub(crate) struct Socket {
    network: Network,
    number: u64,
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
    /// The request that was sent last and is not answered.
    conversation: Arc<Mutex<Option<Departing>>>,
    arrival: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub(super) fn new(
        network: &Network,
        number: u64,
        incoming: Arc<Pipe>,
        outgoing: Arc<Pipe>,
        conversation: &Arc<Mutex<Option<Departing>>>,
    ) -> Self {
        Self {
            network: network.clone(),
            number,
            incoming,
            outgoing,
            conversation: conversation.clone(),
            arrival: None,
        }
    }

    /// Shows a message that begins a request or an answer to the witness.
    fn witnessed(&self, message: &[u8]) -> Fate {
        let Some(witness) = self.network.witness() else {
            return Fate::Lives;
        };
        if let Some((method, path)) = request_line(message) {
            let request = Departing {
                from: self.outgoing.from.clone(),
                to: self.outgoing.to.clone(),
                method: method.to_owned(),
                path: path.to_owned(),
                body: body(message),
            };
            *self.conversation.lock().unwrap() = Some(request.clone());
            return witness.departs(&request);
        }
        if let Some(status) = status_line(message)
            && let Some(request) = self.conversation.lock().unwrap().take()
        {
            witness.answers(&Answered { request, status });
        }
        Fate::Lives
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let pipe = self.incoming.clone();
            let mut state = pipe.state();
            state.reader = Some(cx.waker().clone());
            if state.held && state.end != End::Broken {
                return Poll::Pending;
            }
            let Some((at, message)) = state.messages.front_mut() else {
                return match state.end {
                    End::Open => Poll::Pending,
                    End::Closed => Poll::Ready(Ok(())),
                    End::Died | End::Broken => {
                        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
                    }
                };
            };
            if *at <= Instant::now() {
                let count = message.len().min(buffer.remaining());
                buffer.put_slice(&message[..count]);
                if count == message.len() {
                    state.messages.pop_front();
                } else {
                    message.advance(count);
                }
                state.size -= count;
                if let Some(writer) = state.writer.take() {
                    writer.wake();
                }
                self.arrival = None;
                return Poll::Ready(Ok(()));
            }
            let at = *at;
            drop(state);
            let arrival = self
                .arrival
                .get_or_insert_with(|| Box::pin(sleep_until(at)));
            if arrival.deadline() != at {
                arrival.as_mut().reset(at);
            }
            ready!(arrival.as_mut().poll(cx));
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        message: &[u8],
    ) -> Poll<io::Result<usize>> {
        let pipe = &self.outgoing;
        {
            let mut state = pipe.state();
            if state.end != End::Open || state.deaf {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            if state.size >= WINDOW {
                state.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        let fate = self.witnessed(message);
        if fate == Fate::DiesBefore {
            self.network.kill(&pipe.from);
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let at = Instant::now() + self.network.departs(&pipe.from, &pipe.to);
        {
            let mut state = pipe.state();
            let at = state.messages.back().map_or(at, |(last, _)| at.max(*last));
            state
                .messages
                .push_back((at, Bytes::copy_from_slice(message)));
            state.size += message.len();
            if let Some(reader) = state.reader.take() {
                reader.wake();
            }
        }
        if fate == Fate::DiesAfter {
            self.network.kill(&pipe.from);
        }
        Poll::Ready(Ok(message.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.close();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Both ways: nobody reads any more, and nothing more is sent.
        self.outgoing.close();
        self.network.forget(self.number, &self.incoming);
    }
}
