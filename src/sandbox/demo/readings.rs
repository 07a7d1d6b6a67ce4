//! What the primary had executed, and when. Instances report once a second, each at its own moment:
//! what a replica lacks of a later reading of the primary says nothing of it.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use crate::mysql::GtidSet;
use crate::operator::observe::Sight;

/// Readings that are kept: those of more than a report's interval.
const KEPT: usize = 8;

/// The latest readings of the primary, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Readings {
    primary: String,
    readings: VecDeque<(Instant, GtidSet)>,
}

impl Readings {
    /// Takes in how the instances are seen now.
    pub(super) fn note(&mut self, primary: Option<&str>, sights: &BTreeMap<String, Sight>) {
        let primary = primary.unwrap_or_default();
        if self.primary != primary {
            primary.clone_into(&mut self.primary);
            self.readings.clear();
        }
        let Some(reading) = sights.get(primary).and_then(executed) else {
            return;
        };
        if self.readings.back().is_none_or(|(at, _)| *at < reading.0) {
            self.readings.push_back(reading);
        }
        if self.readings.len() > KEPT {
            self.readings.pop_front();
        }
    }

    /// How many transactions a replica lacks that the primary had when the replica was read; `None`
    /// where no reading of the primary is as old as that of the replica.
    pub(super) fn lacks(&self, replica: &Sight) -> Option<u64> {
        let (read_at, has) = executed(replica)?;
        let mut older = self.readings.iter().rev().filter(|(at, _)| *at <= read_at);
        let (_, had) = older.next()?;
        Some(had.subtract(&has).count())
    }
}

/// What it had executed when it was last read, and when that was; `None` while it is not heard.
fn executed(sight: &Sight) -> Option<(Instant, GtidSet)> {
    let server = sight.status.as_ref()?.server.as_ref()?;
    let set = server.gtid_executed.parse().ok().filter(|_| sight.fresh)?;
    Some((sight.read_at?, set))
}
