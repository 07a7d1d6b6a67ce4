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
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::dial::{BoxError, Connect};
use super::line::{Failed, Line, open};
use super::unsent::{Attempt, SendError};
use crate::sync::watch;

pub(super) type Body = Full<Bytes>;

/// An attempt at a connection joined by requests, until another is made beside it: a connection takes a
/// few round trips, and who is slower may be ill, or not be there.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a connection could not be made, for all who waited for it.
struct Unconnected {
    error: BoxError,
    /// Whether one of them has taken it for its own.
    taken: AtomicBool,
}

/// An attempt at a connection that several requests wait for.
#[derive(Clone)]
struct Opening {
    number: u64,
    begun: Instant,
    /// `None` until it has ended. A connection that was made is in the pool then.
    outcome: watch::Receiver<Option<Result<(), Arc<Unconnected>>>>,
}

/// See the module. Dropping it lets its connections end when the answers to what was sent are read.
pub(super) struct Connections {
    connect: Connect,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Pool {
    state: Mutex<State>,
    /// Told when there may be a connection for whoever waits for one.
    added: Notify,
}

#[derive(Default)]
struct State {
    /// Takes all requests (HTTP/2).
    shared: Option<Arc<Line>>,
    /// Ready for a request each (HTTP/1.1).
    idle: Vec<Arc<Line>>,
    /// The newest attempt at one of them.
    opening: Option<Opening>,
    openings: u64,
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

    /// A connection to `server` that would take a request. The first attempt at one that this request
    /// waited for decides when there is none; what is tried beside it can only help.
    async fn line(&self, server: &Uri) -> Result<Taken, SendError> {
        let mut first: Option<Opening> = None;
        loop {
            let mut added = pin!(self.pool.added.notified());
            // Before the look, so that what is added after it is not missed.
            added.as_mut().enable();
            let made = first.as_ref().is_some_and(Opening::has_ended);
            let newest = {
                let mut state = lock(&self.pool.state);
                if let Some(line) = state.ready() {
                    return Ok(Taken { line, new: made });
                }
                if state.one_each {
                    None
                } else {
                    Some(self.newest(&mut state, server))
                }
            };
            let Some(newest) = newest else {
                return self.line_for_one(server).await;
            };
            let later = newest.begun + PATIENCE;
            tokio::select! {
                biased;
                () = added => {}
                made = first.get_or_insert(newest).end() => {
                    made?;
                    let mut state = lock(&self.pool.state);
                    if let Some(line) = state.ready() {
                        return Ok(Taken { line, new: true });
                    }
                    if !state.one_each {
                        let problem = "the connection ended before it could be used";
                        return Err(SendError::unsent(problem.to_owned()));
                    }
                }
                () = tokio::time::sleep_until(later) => {}
            }
        }
    }

    /// The attempt at a connection that is to be joined now.
    fn newest(&self, state: &mut State, server: &Uri) -> Opening {
        let now = Instant::now();
        let joined = |opening: &&Opening| now < opening.begun + PATIENCE;
        if let Some(opening) = state.opening.as_ref().filter(joined) {
            return opening.clone();
        }
        state.openings += 1;
        let (sender, outcome) = watch::channel(None);
        let opening = Opening {
            number: state.openings,
            begun: now,
            outcome,
        };
        state.opening = Some(opening.clone());
        let (number, pool) = (opening.number, Arc::downgrade(&self.pool));
        let opened = open(self.connect.clone(), server.clone());
        // Also if whoever asked gives up meanwhile: others wait for it.
        tokio::spawn(async move {
            let opened = opened.await;
            if let Some(pool) = pool.upgrade() {
                lock(&pool.state).opening.take_if(|o| o.number == number);
                let outcome = opened.map(|line| pool.keep(line));
                sender.send_replace(Some(outcome.map_err(Unconnected::new)));
            }
        });
        opening
    }

    /// Makes a connection for one request. It takes what is returned before that is ready; what was made
    /// for it is kept for another one then.
    async fn line_for_one(&self, server: &Uri) -> Result<Taken, SendError> {
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
            let mut added = pin!(self.pool.added.notified());
            added.as_mut().enable();
            let ready = lock(&self.pool.state).ready();
            if let Some(line) = ready {
                opened.close();
                if let Ok(Ok(unwanted)) = opened.try_recv() {
                    self.pool.keep(unwanted);
                }
                return Ok(Taken { line, new: false });
            }
            tokio::select! {
                biased;
                () = added => {}
                opened = &mut opened => {
                    let line = opened
                        .unwrap_or_else(|_| Err(lost()))
                        .map_err(|error| SendError::unconnected(Attempt::Own, &*error))?;
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

impl Unconnected {
    fn new(error: BoxError) -> Arc<Self> {
        Arc::new(Self {
            error,
            taken: AtomicBool::new(false),
        })
    }

    /// What one who waited is told. The first who hears of it counts for all.
    fn tell(&self) -> SendError {
        let taken = self.taken.swap(true, Ordering::Relaxed);
        let attempt = if taken {
            Attempt::Another
        } else {
            Attempt::Own
        };
        SendError::unconnected(attempt, &*self.error)
    }
}

impl Opening {
    /// Waits until it has ended: whether a connection was made.
    async fn end(&mut self) -> Result<(), SendError> {
        let ended = self.outcome.wait_for(Option::is_some).await;
        match ended.as_deref() {
            Ok(Some(Ok(()))) => Ok(()),
            Ok(Some(Err(failed))) => Err(failed.tell()),
            Ok(None) | Err(_) => Err(Unconnected::new(lost()).tell()),
        }
    }

    fn has_ended(&self) -> bool {
        self.outcome.borrow().is_some()
    }
}

/// What is left of an attempt at a connection that did not come to its end.
fn lost() -> BoxError {
    "the attempt at a connection was given up".into()
}

impl Pool {
    fn keep(&self, line: Arc<Line>) {
        lock(&self.state).add(line);
        self.added.notify_waiters();
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
        let shared = self.shared.as_ref().is_some_and(|line| line.is_ready());
        if !line.http2 {
            // One that comes back after the server was replaced says nothing about the new one.
            self.one_each = !shared;
            self.idle.push(line);
        } else if !shared {
            self.one_each = false;
            self.shared = Some(line);
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
