//! A state without what differs from run to run: UUIDs, addresses, words of errors.

use std::fmt::Write as _;

use mainstay::{
    instance::InstanceStatus,
    mysql::{ServerState, ThreadState},
};

/// Replaces UUIDs by the letters of their instances: `a` is that of 0. Sets are sorted again.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    uuids: Vec<(String, char)>,
    hosts: Vec<(String, u8)>,
}

impl Names {
    /// Learns an instance's names.
    pub(super) fn learn(&mut self, number: u8, host: &str, status: &InstanceStatus) {
        if !self.hosts.iter().any(|(known, _)| known == host) {
            self.hosts.push((host.to_owned(), number));
        }
        let Some(server) = &status.server else { return };
        let letter = char::from(b'a' + number);
        if !self
            .uuids
            .iter()
            .any(|(uuid, _)| *uuid == server.server_uuid)
        {
            self.uuids.push((server.server_uuid.clone(), letter));
        }
    }

    fn set(&self, set: &str) -> String {
        let mut items: Vec<_> = set
            .split(',')
            .filter(|item| !item.is_empty())
            .map(|item| {
                let (uuid, numbers) = item.split_once(':').unwrap_or((item, ""));
                let known = self.uuids.iter().find(|(known, _)| known == uuid);
                format!("{}:{numbers}", known.map_or('?', |(_, letter)| *letter))
            })
            .collect();
        items.sort();
        if items.is_empty() {
            "-".to_owned()
        } else {
            items.join(",")
        }
    }

    fn host(&self, host: &str) -> String {
        let known = self.hosts.iter().find(|(known, _)| known == host);
        known.map_or("?".to_owned(), |(_, number)| number.to_string())
    }

    /// A status as one line.
    pub(super) fn line(&self, status: &InstanceStatus, rows: &[u64]) -> String {
        let mut line = format!("{:?} term {}", status.phase, status.term);
        for (is, word) in [(status.promoted, "promoted"), (status.stopping, "stopping")] {
            if is {
                let _ = write!(line, ", {word}");
            }
        }
        if let Some(server) = &status.server {
            self.server(&mut line, server);
        }
        let _ = write!(line, ", rows {rows:?}");
        line
    }

    fn server(&self, line: &mut String, server: &ServerState) {
        let rights = if server.super_read_only {
            "read-only"
        } else {
            "writable"
        };
        let _ = write!(
            line,
            ", {rights}, executed {}, purged {}",
            self.set(&server.gtid_executed),
            self.set(&server.gtid_purged)
        );
        if server.semi_sync_source {
            let _ = write!(
                line,
                ", waits for {} of {}",
                server.semi_sync_wait_for, server.semi_sync_clients
            );
        }
        if server.semi_sync_waiting > 0 {
            let _ = write!(line, ", {} waiting", server.semi_sync_waiting);
        }
        if server.semi_sync_replica {
            line.push_str(", acknowledges");
        }
        if let Some(replication) = &server.replication {
            let _ = write!(
                line,
                ", follows {}: receiver {}, applier {}, received {}",
                self.host(&replication.source_host),
                thread(&replication.receiver.state),
                thread(&replication.applier),
                self.set(&replication.received)
            );
        }
    }
}

/// A thread's state; of an error MySQL's number, if it is in the words.
fn thread(state: &ThreadState) -> String {
    match state {
        ThreadState::Failed(why) => {
            let known = ["1236", "1062"].into_iter().find(|code| why.contains(code));
            format!("failed ({})", known.unwrap_or(why))
        }
        other => format!("{other:?}").to_lowercase(),
    }
}
