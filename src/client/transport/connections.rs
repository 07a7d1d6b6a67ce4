//! The connections to one server: one for all requests where it speaks HTTP/2, else one for each
//! request at a time, used again afterwards.
//!
//! A request waits in its connection's queue until it is written. When the connection ends, whatever is
//! in the queue has to come back, as certainly not sent. hyper empties the queue then, but a request
//! that another thread is just putting into it can stay behind, and comes back only when the last
//! sender of that queue is gone. So a connection has one sender, nobody who waits for an answer holds
//! it, and it is dropped when the connection ends. (hyper-util's pool gives it to the request that
//! waits: that one would wait for itself, until its deadline.)

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::{Notify, oneshot};

use super::dial::{BoxError, Connect};
use super::line::{Failed, Line, open};
use super::unsent::{Attempt, SendError};

pub(super) type Body = Full<Bytes>;

/// Why a connection could not be made, for all who waited for it.
type Unconnected = Arc<BoxError>;

/// An attempt at a connection that several requests wait for.
type Opening = Shared<BoxFuture<'static, Result<(), Unconnected>>>;

/// See the module. Dropping it lets its connections end when the answers to what was sent are read.
pub(super) struct Connections {
    connect: Connect,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Pool {
    state: Mutex<State>,
    /// An HTTP/1.1 connection may be used again.
    returned: Notify,
}

#[derive(Default)]
struct State {
    /// Takes all requests (HTTP/2).
    shared: Option<Arc<Line>>,
    /// Ready for a request each (HTTP/1.1).
    idle: Vec<Arc<Line>>,
    /// What will be one of them.
    opening: Option<Opening>,
    /// The server was seen to speak HTTP/1.1: to wait for a connection of somebody else is of no use.
    one_each: bool,
}

/// What a request goes out on.
struct Taken {
    line: Arc<Line>,
    /// This request waited until it was made.
    new: bool,
}

impl Connections {
    pub(super) fn new(connect: Connect) -> Self {
        Self {
            connect,
            pool: Arc::default(),
        }
    }

    /// Sends `request` and waits for the head of the response. A connection that ends before it takes
    /// the request is replaced, unless it was made for it: then the server is at fault, or the way to
    /// it, and whoever asked decides what comes next.
    pub(super) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, SendError> {
        let uri = request.uri().clone();
        loop {
            let Taken { line, new } = self.line(&uri).await?;
            match line.send(request, &uri).await {
                Ok(response) => {
                    self.give_back(line);
                    return Ok(response);
                }
                Err(Failed { unsent, why }) => match unsent.filter(|_| !new) {
                    Some(unsent) => request = unsent,
                    None => return Err(why),
                },
            }
        }
    }

    /// A connection to `server` that would take a request.
    async fn line(&self, server: &Uri) -> Result<Taken, SendError> {
        let mut new = false;
        loop {
            let opening = {
                let mut state = lock(&self.pool.state);
                if let Some(line) = state.ready() {
                    return Ok(Taken { line, new });
                }
                // One that was lost, which nobody else would clear away.
                state.opening.take_if(|opening| opening.peek().is_some());
                if state.one_each {
                    None
                } else if let Some(opening) = &state.opening {
                    Some((Attempt::Another, opening.clone()))
                } else {
                    let opening = state.opening.insert(self.open_for_all(server));
                    Some((Attempt::Own, opening.clone()))
                }
            };
            let failed = |attempt, error: &BoxError| SendError::unconnected(attempt, &**error);
            let Some((attempt, opening)) = opening else {
                let opened = self.open_for_one(server).await;
                return opened.map_err(|error| failed(Attempt::Own, &error));
            };
            opening.await.map_err(|error| failed(attempt, &error))?;
            new = true;
        }
    }

    /// Makes a connection, also if whoever asked for it gives up meanwhile: others may wait for it.
    fn open_for_all(&self, server: &Uri) -> Opening {
        let (done, opened) = oneshot::channel();
        let opening = open(self.connect.clone(), server.clone());
        let pool = Arc::downgrade(&self.pool);
        tokio::spawn(async move {
            let opened = opening.await.map_err(Unconnected::from);
            if let Some(pool) = pool.upgrade() {
                let mut state = lock(&pool.state);
                state.opening = None;
                if let Ok(line) = &opened {
                    state.add(Arc::clone(line));
                }
            }
            // An error means that nobody waits any more.
            let _ = done.send(opened.map(drop));
        });
        let opened = opened.map(|opened| opened.unwrap_or_else(|_| Err(ending().into())));
        opened.boxed().shared()
    }

    /// Makes a connection for one request. It takes what is returned before that is ready; what was made
    /// for it is kept for another one then.
    async fn open_for_one(&self, server: &Uri) -> Result<Taken, BoxError> {
        let (done, mut opened) = oneshot::channel();
        let opening = open(self.connect.clone(), server.clone());
        let pool = Arc::downgrade(&self.pool);
        tokio::spawn(async move {
            if let Err(Ok(unwanted)) = done.send(opening.await)
                && let Some(pool) = pool.upgrade()
            {
                pool.keep(unwanted);
            }
        });
        loop {
            tokio::select! {
                biased;
                () = self.pool.returned.notified() => {
                    if let Some(line) = lock(&self.pool.state).ready() {
                        return Ok(Taken { line, new: false });
                    }
                }
                opened = &mut opened => {
                    let line = opened.map_err(|_| ending())??;
                    if line.http2 {
                        // Another server than before, or a newer one.
                        self.pool.keep(Arc::clone(&line));
                    }
                    return Ok(Taken { line, new: true });
                }
            }
        }
    }

    /// Keeps an HTTP/1.1 connection for another request, when the answer to this one has been read.
    fn give_back(&self, line: Arc<Line>) {
        if line.http2 {
            return;
        }
        let pool = Arc::downgrade(&self.pool);
        tokio::spawn(async move {
            let ready = poll_fn(|cx| line.poll_ready(cx)).await;
            if let Some(pool) = pool.upgrade().filter(|_| ready) {
                pool.keep(line);
            }
        });
    }
}

impl Pool {
    fn keep(&self, line: Arc<Line>) {
        lock(&self.state).add(line);
        self.returned.notify_one();
    }
}

impl State {
    /// A connection that would take a request now.
    fn ready(&mut self) -> Option<Arc<Line>> {
        self.shared.take_if(|line| !line.is_ready());
        if let Some(line) = &self.shared {
            return Some(Arc::clone(line));
        }
        while let Some(line) = self.idle.pop() {
            if line.is_ready() {
                return Some(line);
            }
        }
        None
    }

    fn add(&mut self, line: Arc<Line>) {
        self.one_each = !line.http2;
        if line.http2 {
            self.shared = Some(line);
        } else {
            self.idle.push(line);
        }
    }
}

/// Why an attempt at a connection never ends.
fn ending() -> BoxError {
    "the process is ending".into()
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
