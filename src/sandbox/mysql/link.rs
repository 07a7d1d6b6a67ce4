//! What goes between a source and a replica: transactions and heartbeats one way, acknowledgements
//! the other. Nothing overtakes, and what a cut holds up comes once it is healed, unless an end has
//! given up by then.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use super::{
    data::Transaction,
    network::{Event, Network},
    process::{LinkId, ProcessId},
};
use crate::mysql::GtidSet;

/// `SOURCE_HEARTBEAT_PERIOD` as Mainstay sets it.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);

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
    pub(super) heard: Instant,
    /// For each way: when the last message arrives, and what is held up.
    pipes: [Pipe; 2],
}

#[derive(Debug)]
struct Pipe {
    last: Instant,
    held: VecDeque<Message>,
}

impl Link {
    /// A connection of a source and a replica, by their processes and hosts.
    pub(super) fn new(
        (source, replica): (ProcessId, ProcessId),
        hosts: (String, String),
        server_id: u32,
        acknowledges: bool,
        has: GtidSet,
        now: Instant,
    ) -> Self {
        let pipe = || Pipe {
            last: now,
            held: VecDeque::new(),
        };
        Self {
            source,
            replica,
            hosts,
            server_id,
            acknowledges,
            has,
            sent: 0,
            heard: now,
            pipes: [pipe(), pipe()],
        }
    }

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

    pub(super) fn send(&mut self, id: LinkId, way: Way, message: Message, now: Instant) {
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
            // One sign of life is as good as many.
            if !matches!(
                (&message, held.back()),
                (Message::Heartbeat, Some(Message::Heartbeat))
            ) {
                held.push_back(message);
            }
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

fn pair(a: &str, b: &str) -> (String, String) {
    let (first, second) = if a <= b { (a, b) } else { (b, a) };
    (first.to_owned(), second.to_owned())
}
