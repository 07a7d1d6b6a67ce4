//! What goes between a source and a replica: transactions and heartbeats one way, acknowledgements
//! the other. Nothing overtakes, and what a cut holds up comes once it is healed, unless an end has
//! given up by then.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use super::{
    data::Transaction,
    network::{Event, Network},
    process::{LinkId, ProcessId, Stage},
};
use crate::mysql::GtidSet;

/// `SOURCE_HEARTBEAT_PERIOD` as Mainstay sets it.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// `SOURCE_CONNECT_RETRY` as Mainstay sets it.
const RETRY: Duration = Duration::from_secs(1);
/// `replica_net_timeout` as Mainstay sets it.
const NET_TIMEOUT: Duration = Duration::from_secs(10);

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ToReplica,
    ToSource,
}

/// What is sent.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// A transaction, the position after it, and whether its commit waits for an acknowledgement.
    Transaction(Transaction, usize, bool),
    Heartbeat,
    /// Everything up to this position was received.
    Acknowledge(usize),
    /// The other end is gone.
    Close,
}

/// A connection of a receiver with its source.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) source: ProcessId,
    pub(super) replica: ProcessId,
    /// Hosts of source and replica.
    hosts: (String, String),
    pub(super) server_id: u32,
    /// Whether the replica acknowledges.
    pub(super) acknowledges: bool,
    /// What the replica had when it connected: left out.
    has: GtidSet,
    /// Position up to which the log was sent.
    sent: usize,
    /// When the replica last heard of its source.
    heard: Instant,
    /// For each way: when the last message arrives, and what is held up.
    pipes: [Pipe; 2],
}

#[derive(Debug)]
struct Pipe {
    last: Instant,
    held: VecDeque<Message>,
}

impl Link {
    /// Whether nothing gets through.
    pub(super) fn is_cut(&self, network: &Network) -> bool {
        network.is_cut(&self.hosts.0, &self.hosts.1)
    }
}

impl Network {
    /// Whether two hosts can't reach each other.
    pub(super) fn is_cut(&self, a: &str, b: &str) -> bool {
        self.cuts.contains(&pair(a, b))
    }

    /// Cuts or heals the way between two hosts.
    pub(super) fn cut(&mut self, a: &str, b: &str, cut: bool, now: Instant) {
        if cut {
            self.cuts.insert(pair(a, b));
        } else if self.cuts.remove(&pair(a, b)) {
            self.release(now);
        }
    }

    /// Delivers what was held up and is not any more.
    pub(super) fn release(&mut self, now: Instant) {
        let links: Vec<_> = self.links.keys().copied().collect();
        for id in links {
            for way in [Way::ToReplica, Way::ToSource] {
                while let Some(message) = self.unhold(id, way) {
                    self.deliver(id, way, message, now);
                }
            }
        }
    }

    fn unhold(&mut self, id: LinkId, way: Way) -> Option<Message> {
        if self.is_held_up(id, way) {
            return None;
        }
        let link = self.links.get_mut(&id)?;
        link.pipes[way as usize].held.pop_front()
    }

    fn is_held_up(&self, id: LinkId, way: Way) -> bool {
        self.links.get(&id).is_some_and(|link| {
            let target = match way {
                Way::ToReplica => link.replica,
                Way::ToSource => link.source,
            };
            link.is_cut(self) || self.is_frozen(target)
        })
    }

    fn send(&mut self, id: LinkId, way: Way, message: Message, now: Instant) {
        let takes = self.dice.within(&self.pace.network);
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let pipe = &mut link.pipes[way as usize];
        pipe.last = pipe.last.max(now + takes);
        let at = pipe.last;
        self.schedule(at, Event::Arrive(id, way, message));
    }

    pub(super) fn arrive(&mut self, id: LinkId, way: Way, message: Message, now: Instant) {
        let held_up = self.is_held_up(id, way);
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let held = &mut link.pipes[way as usize].held;
        if held_up || !held.is_empty() {
            held.push_back(message);
        } else {
            self.deliver(id, way, message, now);
        }
    }

    fn deliver(&mut self, id: LinkId, way: Way, message: Message, now: Instant) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let (source, replica, server_id) = (link.source, link.replica, link.server_id);
        let acknowledges = link.acknowledges;
        if way == Way::ToReplica {
            link.heard = now;
            let receives = |id| {
                self.processes
                    .get(&replica)?
                    .receiver
                    .link
                    .filter(|it| *it == id)
            };
            if receives(id).is_none() {
                return;
            }
        }
        match message {
            Message::Transaction(transaction, position, waits) => {
                self.receive(replica, transaction, now);
                if waits && acknowledges {
                    self.send(id, Way::ToSource, Message::Acknowledge(position), now);
                }
            }
            Message::Heartbeat => {
                self.with(replica, |process, _| process.receiver.heartbeats += 1);
            }
            Message::Acknowledge(position) => {
                self.with(source, |process, _| {
                    let up_to = process.acknowledged.entry(server_id).or_default();
                    *up_to = position.max(*up_to);
                });
                self.commit(source, now);
            }
            Message::Close if way == Way::ToSource => {
                self.links.remove(&id);
            }
            Message::Close => {
                self.links.remove(&id);
                self.reconnect(replica, "Lost connection to MySQL server during query", now);
            }
        }
    }

    /// The receiver has no connection any more, and tries to get one.
    fn reconnect(&mut self, replica: ProcessId, why: &str, now: Instant) {
        let retry = self.with(replica, |process, data| {
            let receiver = &mut process.receiver;
            (receiver.link, receiver.hangs) = (None, false);
            let host = data.source.as_ref().map_or("", |source| &source.host);
            receiver.errno = 2003;
            receiver.error = format!("Error connecting to source '{host}'. Message: {why}");
            receiver.generation
        });
        if let Some(generation) = retry {
            self.schedule(now + RETRY, Event::Connect(replica, generation));
        }
    }

    /// A receiver tries to reach its source.
    pub(super) fn connect(&mut self, id: ProcessId, generation: u64, now: Instant) {
        let takes = self.dice.within(&self.pace.network) + self.dice.within(&self.pace.network);
        let target = self.with(id, |process, data| {
            let receiver = &process.receiver;
            let tries = receiver.running && receiver.generation == generation;
            let source = data.source.as_ref().filter(|_| tries)?;
            Some((process.host.clone(), source.host.clone()))
        });
        let Some(Some((own, host))) = target else {
            return;
        };
        let source = self.names.get(&host).copied();
        let hangs = self.is_cut(&own, &host) || source.is_some_and(|it| self.is_frozen(it));
        match source.filter(|it| self.accepts(*it)) {
            _ if hangs => {
                self.with(id, |process, _| process.receiver.hangs = true);
                self.schedule(now + RETRY, Event::Connect(id, generation));
            }
            None => self.reconnect(id, "Can't connect to MySQL server (111)", now),
            Some(source) => self.schedule(now + takes, Event::Attach(id, generation, source)),
        }
    }

    fn accepts(&self, id: ProcessId) -> bool {
        self.processes
            .get(&id)
            .is_some_and(|process| process.stage == Stage::Up)
    }

    /// A receiver has reached its source, which looks at what the replica has.
    pub(super) fn attach(
        &mut self,
        id: ProcessId,
        generation: u64,
        source: ProcessId,
        now: Instant,
    ) {
        let replica = self.with(id, |process, data| {
            let receiver = &process.receiver;
            let tries = receiver.running && receiver.generation == generation;
            tries.then(|| {
                let has = data.executed.union(&data.received);
                let own = (process.host.clone(), process.server_id);
                (own, receiver.acknowledges, has)
            })
        });
        let Some(Some(((own, server_id), acknowledges, has))) = replica else {
            return;
        };
        let accepts = self.accepts(source) && !self.is_frozen(source);
        let found = self.with(source, |process, data| {
            (process.host.clone(), refusal(data, &has))
        });
        let Some((host, refused)) = found.filter(|(host, _)| accepts && !self.is_cut(&own, host))
        else {
            return self.connect(id, generation, now);
        };
        if let Some(why) = refused {
            self.with(id, |process, _| {
                let receiver = &mut process.receiver;
                (receiver.running, receiver.hangs) = (false, false);
                receiver.errno = 13114;
                receiver.error = why;
            });
            return;
        }
        // What is left of a connection before this one.
        self.links
            .retain(|_, link| link.source != source || link.server_id != server_id);
        let link = LinkId(self.id());
        let pipe = || Pipe {
            last: now,
            held: VecDeque::new(),
        };
        let connection = Link {
            source,
            replica: id,
            hosts: (host, own),
            server_id,
            acknowledges,
            has,
            sent: 0,
            heard: now,
            pipes: [pipe(), pipe()],
        };
        self.links.insert(link, connection);
        self.with(id, |process, _| {
            let receiver = &mut process.receiver;
            (receiver.link, receiver.hangs) = (Some(link), false);
            (receiver.errno, receiver.error) = (0, String::new());
        });
        self.schedule(now + HEARTBEAT, Event::Heartbeat(link));
        self.schedule(now + NET_TIMEOUT, Event::Silence(link));
        self.feed(source, now);
    }

    /// Sends every replica what is new in the log.
    pub(super) fn feed(&mut self, source: ProcessId, now: Instant) {
        let links: Vec<_> = self
            .links
            .iter()
            .filter(|(_, link)| link.source == source)
            .map(|(id, _)| *id)
            .collect();
        for id in links {
            let Some(link) = self.links.get(&id) else {
                continue;
            };
            let (sent, has) = (link.sent, link.has.clone());
            let news = self.with(source, |process, data| {
                let news = data
                    .log_from(sent)
                    .filter(|(_, news)| !has.contains(&news.gtid.uuid, news.gtid.number));
                let waits = |position| process.source_on && position > data.committed();
                let news = news.map(|(position, news)| {
                    Message::Transaction(news.clone(), position, waits(position))
                });
                (data.end(), news.collect::<Vec<_>>())
            });
            let Some((end, news)) = news else { continue };
            if let Some(link) = self.links.get_mut(&id) {
                link.sent = end;
            }
            for message in news {
                self.send(id, Way::ToReplica, message, now);
            }
        }
    }

    pub(super) fn heartbeat(&mut self, id: LinkId, now: Instant) {
        let source = self.links.get(&id).map(|link| link.source);
        let Some(source) = source.filter(|source| self.processes.contains_key(source)) else {
            return;
        };
        if !self.is_frozen(source) {
            self.send(id, Way::ToReplica, Message::Heartbeat, now);
        }
        self.schedule(now + HEARTBEAT, Event::Heartbeat(id));
    }

    pub(super) fn silence(&mut self, id: LinkId, now: Instant) {
        let Some(link) = self.links.get(&id) else {
            return;
        };
        let (replica, until) = (link.replica, link.heard + NET_TIMEOUT);
        let mine = self.processes.get(&replica).and_then(|it| it.receiver.link);
        if mine != Some(id) {
            return;
        }
        if until > now {
            return self.schedule(until, Event::Silence(id));
        }
        self.send(id, Way::ToSource, Message::Close, now);
        self.reconnect(replica, "Timeout", now);
    }

    /// The receiver closes its connection, if it has one.
    pub(super) fn disconnect(&mut self, replica: ProcessId, now: Instant) {
        let link = self.with(replica, |process, _| process.receiver.link.take());
        if let Some(Some(link)) = link {
            self.send(link, Way::ToSource, Message::Close, now);
        }
    }

    /// The kernel closes the connections of a process that is gone.
    pub(super) fn close_links(&mut self, id: ProcessId, now: Instant) {
        let links: Vec<_> = self
            .links
            .iter()
            .map(|(id, link)| (*id, link.source, link.replica))
            .collect();
        for (link, source, replica) in links {
            if source == id {
                self.send(link, Way::ToReplica, Message::Close, now);
            } else if replica == id {
                self.send(link, Way::ToSource, Message::Close, now);
            }
        }
    }
}

/// Why a source does not serve a replica that has `has`, if it does not (error 1236).
fn refusal(data: &super::data::Data, has: &GtidSet) -> Option<String> {
    let why = if !data.purged.is_subset_of(has) {
        "Cannot replicate because the source purged required binary logs."
    } else if !has.of(&data.uuid).is_subset_of(&data.logged) {
        "Replica has more GTIDs than the source has, using the source's SERVER_UUID."
    } else {
        return None;
    };
    Some(format!(
        "Got fatal error 1236 from source when reading data from binary log: '{why}'"
    ))
}

fn pair(a: &str, b: &str) -> (String, String) {
    let (first, second) = if a <= b { (a, b) } else { (b, a) };
    (first.to_owned(), second.to_owned())
}
