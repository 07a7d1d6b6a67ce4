//! What is known of one cluster at one moment: plain values that a plan is made of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::kinds::{Pod, VolumeClaim};
use super::resources::ClaimChange;
use crate::instance::{AppAccount, InstanceStatus};
use crate::mysql::GtidSet;

/// Both clocks, read once a pass. Decisions use `instant`; `wall` is for what is written down, and
/// for the one deadline that is: a handover's must outlast the operator that began it.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Monotonic.
    pub instant: Instant,
    /// For the record and for people.
    pub wall: Timestamp,
}

/// What is known of one cluster. Everything by ordinal.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Pods, those that terminate included.
    pub pods: BTreeMap<u32, Arc<Pod>>,
    /// Volume claims.
    pub volumes: BTreeMap<u32, Arc<VolumeClaim>>,
    /// What the instances say of themselves.
    pub sights: BTreeMap<u32, Sight>,
    /// The application's account as its Secret has it.
    pub app: Option<AppAccount>,
    /// What the volume claims that exist need to be as the spec asks.
    pub claims: BTreeMap<u32, ClaimChange>,
    /// Template hash that each wanted pod should carry; empty while no pod can be made of the spec.
    pub templates: BTreeMap<u32, String>,
}

/// What is known of one instance, and since when.
#[derive(Clone, Debug)]
pub struct Sight {
    /// UID of the pod that this is about.
    pub pod_uid: String,
    /// The last that was heard, however long ago; `None` if it never spoke.
    pub status: Option<InstanceStatus>,
    /// When that was received.
    pub read_at: Option<Instant>,
    /// When the command was given that this is the answer to: it was read after that. `None` for what
    /// the instance says by itself, which may have been read some time before it is received.
    pub asked_at: Option<Instant>,
    /// Whether the instance is being heard now. If not, what it does is *unknown*.
    pub fresh: bool,
    /// Since when `fresh` is what it is.
    pub since: Instant,
    /// Since when its manager says that mysqld runs and can't be read, if it does.
    pub mute_since: Option<Instant>,
    /// Why it is not heard; empty while it is.
    pub error: String,
    /// When it was last told to follow.
    pub told_to_follow: Option<Instant>,
    /// When it was last told to become a clone.
    pub told_to_clone: Option<Instant>,
    /// Transactions that it seems to have of its own.
    pub suspicion: Option<Suspicion>,
}

impl Sight {
    /// What it had executed when it was last read, its server's UUID, and when that was.
    fn transactions(&self) -> Option<(GtidSet, &str, Instant)> {
        let server = self.status.as_ref()?.server.as_ref()?;
        let executed = server.gtid_executed.parse().ok()?;
        Some((executed, &server.server_uuid, self.read_at?))
    }
}

/// Transactions that an instance has and the primary had not when it was read *after* the instance.
#[derive(Clone, Debug)]
pub struct Suspicion {
    /// The transactions, those that are still missing at each later reading.
    pub transactions: GtidSet,
    /// The reading of the primary in which they were first missing.
    pub since: Instant,
    /// The latest reading of the primary in which they were still missing.
    pub last: Instant,
}

/// How long a surplus must last, in readings of the primary that are newer than the replica's,
/// before it is called errant (moco#419: one skewed reading is no verdict). Two or three of a
/// manager's reports, which come each second.
pub const ERRANT_CONFIRMATION: Duration = Duration::from_millis(2500);

impl Suspicion {
    /// What there is to suspect of `instance`, as it and the primary are seen now. Only a reading of
    /// the primary that is newer than the instance's counts, and the primary's own transactions never
    /// do: those are merely not read yet (moco#419).
    #[must_use]
    pub fn of(instance: &Sight, primary: &Sight) -> Option<Self> {
        let before = instance.suspicion.clone();
        let Some((theirs, _, theirs_at)) = instance.transactions() else {
            return before;
        };
        // What it has no more (it was seeded anew) is no longer held against it.
        let before = before.and_then(|suspicion| suspicion.still_in(&theirs));
        match primary.transactions().filter(|_| primary.fresh) {
            Some((executed, uuid, read_at)) if read_at >= theirs_at => {
                let surplus = theirs.subtract(&executed);
                let surplus = surplus.subtract(&surplus.of(uuid));
                Self::next(before.as_ref(), &surplus, read_at)
            }
            _ => before,
        }
    }

    /// Whether the surplus lasted long enough to be a verdict.
    #[must_use]
    pub fn confirmed(&self) -> bool {
        self.last.duration_since(self.since) >= ERRANT_CONFIRMATION
    }

    /// What is left of the suspicion of an instance that has executed `executed` now.
    #[must_use]
    pub fn still_in(mut self, executed: &GtidSet) -> Option<Self> {
        let vanished = self.transactions.subtract(executed);
        self.transactions = self.transactions.subtract(&vanished);
        (!self.transactions.is_empty()).then_some(self)
    }

    /// The suspicion after a new look: only what was missing all along counts, and a surplus that
    /// vanished clears it.
    #[must_use]
    pub fn next(previous: Option<&Self>, surplus: &GtidSet, read_at: Instant) -> Option<Self> {
        if surplus.is_empty() {
            return None;
        }
        let lasting = previous.cloned().and_then(|s| s.still_in(surplus));
        let mut suspicion = lasting.unwrap_or_else(|| Self {
            transactions: surplus.clone(),
            since: read_at,
            last: read_at,
        });
        suspicion.last = read_at;
        Some(suspicion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::ServerState;

    fn set(text: &str) -> GtidSet {
        text.parse().unwrap()
    }

    fn sight(uuid: &str, executed: &str, read_at: Instant) -> Sight {
        let status = serde_json::json!({
            "name": "demo-0", "podUid": "u", "term": 1, "phase": "Running", "message": "",
            "starts": 1, "promoted": false, "stopping": false, "configHash": "", "appHash": "",
            "server": ServerState {
                server_uuid: uuid.to_owned(),
                gtid_executed: executed.to_owned(),
                ..ServerState::default()
            },
        });
        Sight {
            pod_uid: "u".into(),
            status: serde_json::from_value(status).unwrap(),
            read_at: Some(read_at),
            asked_at: None,
            fresh: true,
            since: read_at,
            mute_since: None,
            error: String::new(),
            told_to_follow: None,
            told_to_clone: None,
            suspicion: None,
        }
    }

    #[test]
    fn moco_419_491_only_a_newer_reading_of_the_primary_accuses() {
        let start = Instant::now();
        let step = Duration::from_secs(1);
        let replica = sight(B, &format!("{A}:1-9,{B}:1"), start + step);
        // Read before the replica: what it lacks may have come since.
        let older = sight(A, &format!("{A}:1-5"), start);
        assert!(Suspicion::of(&replica, &older).is_none());
        // Read after it: its own surplus counts, what the primary wrote itself does not.
        let newer = sight(A, &format!("{A}:1-5"), start + 2 * step);
        let suspicion = Suspicion::of(&replica, &newer).unwrap();
        assert_eq!(suspicion.transactions, set(&format!("{B}:1")));
        // The same reading again is no second witness; a later one is.
        let mut replica = replica;
        replica.suspicion = Some(suspicion);
        assert!(!Suspicion::of(&replica, &newer).unwrap().confirmed());
        let later = sight(
            A,
            &format!("{A}:1-9"),
            start + 2 * step + ERRANT_CONFIRMATION,
        );
        assert!(Suspicion::of(&replica, &later).unwrap().confirmed());
        // A primary that is not heard now accuses nobody.
        let mut silent = later;
        silent.fresh = false;
        assert!(!Suspicion::of(&replica, &silent).unwrap().confirmed());
    }

    const A: &str = "aaaaaaaa-0000-0000-0000-000000000000";
    const B: &str = "bbbbbbbb-0000-0000-0000-000000000000";

    #[test]
    fn moco_419_a_surplus_that_goes_away_is_no_verdict() {
        let start = Instant::now();
        let first = Suspicion::next(None, &set(&format!("{A}:7")), start).unwrap();
        assert!(!first.confirmed());
        let later = start + ERRANT_CONFIRMATION;
        assert!(Suspicion::next(Some(&first), &GtidSet::default(), later).is_none());
        // Another surplus begins anew; only what lasts is confirmed.
        let other = Suspicion::next(Some(&first), &set(&format!("{A}:8-9")), later).unwrap();
        assert!(!other.confirmed());
        let lasting = Suspicion::next(Some(&first), &set(&format!("{A}:7-9")), later).unwrap();
        assert!(lasting.confirmed());
        assert_eq!(lasting.transactions, set(&format!("{A}:7")));
    }

    #[test]
    fn an_instance_that_was_seeded_anew_is_not_seeded_again_for_what_it_had() {
        let suspicion = Suspicion::next(None, &set(&format!("{A}:7")), Instant::now()).unwrap();
        assert!(
            suspicion
                .clone()
                .still_in(&set(&format!("{A}:1-7")))
                .is_some()
        );
        assert!(suspicion.still_in(&set(&format!("{A}:1-6"))).is_none());
    }
}
