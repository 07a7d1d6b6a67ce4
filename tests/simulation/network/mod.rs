//! A network in memory: every message takes a time that the seed decides, and every way between two
//! parties can be slow, held, or broken.
//!
//! A held direction is a lossy link under TCP: what was sent arrives once the link is good again, and
//! when that takes longer than [`PATIENCE`] the connection breaks at both ends. Parties die with all
//! their connections; what such a party had sent may still arrive, but it sends nothing any more.

mod pipe;
mod request;
#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use mainstay::client::Jitter;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use pipe::Pipe;
pub(crate) use pipe::Socket;
pub(crate) use request::{Answered, Departing, Fate, Witness};

/// Who sends and receives: `api`, `operator-a`, `demo-0`.
pub(crate) type Party = Arc<str>;

/// After so long without an acknowledgement a connection is given up, as the operator's TCP settings
/// say (`TCP_USER_TIMEOUT`); so long a connection is waited for, too.
const PATIENCE: Duration = Duration::from_secs(15);
/// The kernel's and the clients' patience with a handshake.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Takes the serving end of a connection that somebody opened, and whom it is from.
pub(crate) type Acceptor = Arc<dyn Fn(Socket, &Party) + Send + Sync>;

/// The network. Clones are the same.
#[derive(Clone)]
pub(crate) struct Network(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    witness: Mutex<Option<Arc<dyn Witness>>>,
    /// Something that may let a connection be made has changed.
    changed: Notify,
}

struct State {
    chance: Jitter,
    started: Instant,
    acceptors: BTreeMap<Party, Acceptor>,
    /// Directions that let nothing pass, and which hold of all that was.
    held: BTreeMap<(Party, Party), u64>,
    holds: u64,
    /// Whose messages stand still, in and out, without anybody's connection breaking.
    frozen: BTreeSet<Party>,
    /// Added to each message from or to a party.
    slow: BTreeMap<Party, Duration>,
    dead: BTreeSet<Party>,
    connections: BTreeMap<u64, Connection>,
    opened: u64,
    /// Of every message: who to whom and when. Two runs that differ have another one.
    digest: u64,
    messages: u64,
}

struct Connection {
    client: Party,
    server: Party,
    /// From the client, and to it.
    pipes: [Arc<Pipe>; 2],
}

impl Network {
    /// A network without parties.
    pub(crate) fn new(chance: Jitter) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State {
                chance,
                started: Instant::now(),
                acceptors: BTreeMap::new(),
                held: BTreeMap::new(),
                holds: 0,
                frozen: BTreeSet::new(),
                slow: BTreeMap::new(),
                dead: BTreeSet::new(),
                connections: BTreeMap::new(),
                opened: 0,
                digest: 0xcbf2_9ce4_8422_2325,
                messages: 0,
            }),
            witness: Mutex::new(None),
            changed: Notify::new(),
        }))
    }

    /// Shows every request and answer to `witness` from now on.
    pub(crate) fn show_to(&self, witness: Arc<dyn Witness>) {
        *self.0.witness.lock().unwrap() = Some(witness);
    }

    /// Lets others connect to `party`.
    pub(crate) fn serve(&self, party: &Party, acceptor: Acceptor) {
        self.state().acceptors.insert(party.clone(), acceptor);
        self.0.changed.notify_waiters();
    }

    /// Opens a connection; the other end goes to whoever serves `to`.
    ///
    /// # Errors
    /// As a kernel would: refused, or timed out while nothing passes.
    pub(crate) async fn connect(&self, from: &Party, to: &Party) -> io::Result<Socket> {
        timeout(CONNECT_PATIENCE, self.handshake(from, to))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn handshake(&self, from: &Party, to: &Party) -> io::Result<Socket> {
        loop {
            let changed = self.0.changed.notified();
            let latency = {
                let mut state = self.state();
                if state.dead.contains(from) {
                    return Err(io::ErrorKind::NetworkDown.into());
                }
                state.passes_both(from, to).then(|| state.latency(from, to))
            };
            let Some(latency) = latency else {
                changed.await;
                continue;
            };
            sleep(latency).await;
            let mut state = self.state();
            if state.passes_both(from, to) {
                let Some(acceptor) = state.acceptors.get(to).cloned() else {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                };
                let (client, server) = state.open(self, from, to);
                drop(state);
                acceptor(server, from);
                return Ok(client);
            }
        }
    }

    /// Lets nothing pass from `from` to `to` until [`Self::heal`].
    pub(crate) fn hold(&self, from: &Party, to: &Party) {
        let mut state = self.state();
        state.holds += 1;
        let number = state.holds;
        let direction = (from.clone(), to.clone());
        if let Entry::Vacant(entry) = state.held.entry(direction.clone()) {
            entry.insert(number);
            state.refresh();
            drop(state);
            let network = self.clone();
            tokio::spawn(async move { network.lose_patience(direction, number).await });
        }
    }

    /// Cuts both directions.
    pub(crate) fn cut(&self, one: &Party, other: &Party) {
        self.hold(one, other);
        self.hold(other, one);
    }

    /// Lets both directions pass again. What was sent meanwhile arrives now, where the connection has
    /// not been given up.
    pub(crate) fn heal(&self, one: &Party, other: &Party) {
        let mut state = self.state();
        state.held.remove(&(one.clone(), other.clone()));
        state.held.remove(&(other.clone(), one.clone()));
        state.refresh();
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Ends every fault but death.
    pub(crate) fn heal_all(&self) {
        let mut state = self.state();
        state.held.clear();
        state.frozen.clear();
        state.slow.clear();
        state.refresh();
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Stops a process: neither it nor those who wait for it notice more than that nothing comes.
    pub(crate) fn freeze(&self, party: &Party) {
        let mut state = self.state();
        state.frozen.insert(party.clone());
        state.refresh();
    }

    /// Lets it go on: what it was sent, and what it sent, arrives now.
    pub(crate) fn thaw(&self, party: &Party) {
        let mut state = self.state();
        state.frozen.remove(party);
        state.refresh();
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Makes every message from and to `party` later by `by`; zero ends it.
    pub(crate) fn slow_down(&self, party: &Party, by: Duration) {
        let mut state = self.state();
        if by.is_zero() {
            state.slow.remove(party);
        } else {
            state.slow.insert(party.clone(), by);
        }
    }

    /// Ends a party for ever. Its peers see their connections end once they have read what it had
    /// sent; what was on its way to it is lost.
    pub(crate) fn kill(&self, party: &Party) {
        let mut state = self.state();
        state.dead.insert(party.clone());
        state.frozen.remove(party);
        let acceptor = state.acceptors.remove(party);
        for connection in state.connections.values() {
            let [up, down] = &connection.pipes;
            if connection.client == *party {
                down.break_now();
                up.end_after_what_was_sent();
            } else if connection.server == *party {
                up.break_now();
                down.end_after_what_was_sent();
            }
        }
        state.refresh();
        drop(state);
        drop(acceptor);
        self.0.changed.notify_waiters();
    }

    /// Whether the party was killed.
    pub(crate) fn is_dead(&self, party: &Party) -> bool {
        self.state().dead.contains(party)
    }

    /// What tells this history from another: messages so far, and a digest of who sent them to whom
    /// and when.
    pub(crate) fn digest(&self) -> (u64, u64) {
        let state = self.state();
        (state.messages, state.digest)
    }

    /// Breaks the connections in a direction that is still held.
    async fn lose_patience(&self, direction: (Party, Party), number: u64) {
        sleep(PATIENCE).await;
        let state = self.state();
        if state.held.get(&direction) != Some(&number) {
            return;
        }
        let (from, to) = &direction;
        for connection in state.connections.values() {
            let ends = (&connection.client, &connection.server);
            if ends == (from, to) || ends == (to, from) {
                for pipe in &connection.pipes {
                    pipe.break_now();
                }
            }
        }
    }

    /// One end of a connection is gone; with the second the connection is.
    fn forget(&self, number: u64, incoming: &Arc<Pipe>) {
        incoming.reader_gone();
        let mut state = self.state();
        let over = |connection: &Connection| connection.pipes.iter().all(|pipe| pipe.is_over());
        if state.connections.get(&number).is_some_and(over) {
            state.connections.remove(&number);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    fn witness(&self) -> Option<Arc<dyn Witness>> {
        self.0.witness.lock().unwrap().clone()
    }

    /// A message leaves: when it arrives.
    fn departs(&self, from: &Party, to: &Party) -> Duration {
        let mut state = self.state();
        let now = state.started.elapsed();
        state.mix(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        for byte in from.bytes().chain(to.bytes()) {
            state.mix(u64::from(byte));
        }
        state.messages += 1;
        state.latency(from, to)
    }
}

impl State {
    fn mix(&mut self, value: u64) {
        self.digest = (self.digest ^ value).wrapping_mul(0x0100_0000_01b3);
    }

    fn passes(&self, from: &Party, to: &Party) -> bool {
        !self.held.contains_key(&(from.clone(), to.clone()))
            && !self.frozen.contains(from)
            && !self.frozen.contains(to)
    }

    fn passes_both(&self, one: &Party, other: &Party) -> bool {
        self.passes(one, other) && self.passes(other, one)
    }

    /// Mostly a millisecond or two, now and then far more: what is sent over two connections at once
    /// arrives in any order.
    fn latency(&mut self, from: &Party, to: &Party) -> Duration {
        let draw = self.chance.bits() % 1000;
        let millis = match draw {
            0..800 => 1,
            800..960 => 2 + draw % 4,
            960..995 => 10 + draw % 30,
            _ => 100 + (draw % 5) * 50,
        };
        let slow = |party| self.slow.get(party).copied().unwrap_or_default();
        Duration::from_millis(millis) + slow(from) + slow(to)
    }

    fn open(&mut self, network: &Network, from: &Party, to: &Party) -> (Socket, Socket) {
        let up = Arc::new(Pipe::new(from.clone(), to.clone()));
        let down = Arc::new(Pipe::new(to.clone(), from.clone()));
        self.opened += 1;
        let number = self.opened;
        self.connections.insert(
            number,
            Connection {
                client: from.clone(),
                server: to.clone(),
                pipes: [up.clone(), down.clone()],
            },
        );
        let conversation = Arc::new(Mutex::new(None));
        let client = Socket::new(network, number, down.clone(), up.clone(), &conversation);
        let server = Socket::new(network, number, up, down, &conversation);
        (client, server)
    }

    /// Tells every pipe whether it lets anything pass.
    fn refresh(&mut self) {
        for connection in self.connections.values() {
            for pipe in &connection.pipes {
                pipe.set_held(!self.passes(&pipe.from, &pipe.to));
            }
        }
    }
}
