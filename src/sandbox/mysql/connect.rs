//! How a receiver gets to its source, and notices that it has lost it.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    data::Data,
    link::{HEARTBEAT, Link, Message, Way},
    network::{Event, Network},
    process::{LinkId, ProcessId, Stage},
};
use crate::mysql::GtidSet;

/// `SOURCE_CONNECT_RETRY` as Mainstay sets it.
const RETRY: Duration = Duration::from_secs(1);
/// `replica_net_timeout` as Mainstay sets it.
const NET_TIMEOUT: Duration = Duration::from_secs(10);

impl Network {
    /// The receiver has no connection any more, and tries to get one.
    pub(super) fn reconnect(&mut self, replica: ProcessId, why: &str, now: Instant) {
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
        let ends = (source, id);
        let connection = Link::new(ends, (host, own), server_id, acknowledges, has, now);
        self.links.insert(link, connection);
        // It begins anew, at the log's beginning, which takes back what it had acknowledged: it does not
        // acknowledge again what it has already.
        self.with(source, |process, _| process.acknowledged.remove(&server_id));
        self.with(id, |process, _| {
            let receiver = &mut process.receiver;
            (receiver.link, receiver.hangs) = (Some(link), false);
            (receiver.errno, receiver.error) = (0, String::new());
        });
        self.schedule(now + HEARTBEAT, Event::Heartbeat(link));
        self.schedule(now + NET_TIMEOUT, Event::Silence(link));
        self.feed(source, now);
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
        if self.is_frozen(replica) {
            // It will see what has come meanwhile first.
            return self.schedule(now + RETRY, Event::Silence(id));
        }
        if until > now {
            return self.schedule(until, Event::Silence(id));
        }
        self.send(id, Way::ToSource, Message::Close, now);
        self.reconnect(replica, "Timeout", now);
    }
}

/// Why a source does not serve a replica that has `has`, if it does not (error 1236).
fn refusal(data: &Data, has: &GtidSet) -> Option<String> {
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
