//! Read your writes: which writes of this process the watch has not delivered yet. Pure.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::ObjectKey;

/// How long a write is waited for. A watch delivers within milliseconds; longer means that it is
/// cut or says nothing, and whoever reads must know that what it reads is old.
pub(super) const EXPECTATION_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Expectations {
    /// The highest resource version up to which the store holds everything. Resource versions of one
    /// kind are ordered integers (Kubernetes 1.35 promises it, etcd always did); others only match
    /// when equal.
    progress: u64,
    /// The same of each namespace that is filled on its own.
    parts: HashMap<Box<str>, u64>,
    pending: HashMap<ObjectKey, Expectation>,
}

#[derive(Debug)]
struct Expectation {
    uid: String,
    /// The version that must be reached; `None` once it was.
    version: Option<String>,
    /// Whether the object must also be gone or terminating.
    gone: bool,
    until: Instant,
    /// It was not seen in time, and that was told.
    overdue: bool,
}

impl Expectation {
    fn is_met(&self) -> bool {
        self.version.is_none() && !self.gone
    }
}

impl Expectations {
    /// An object was written and is now at `version`.
    pub(super) fn written(&mut self, now: Instant, key: &ObjectKey, uid: &str, version: &str) {
        if self.has_reached(&key.namespace, version) {
            self.pending.remove(key);
            return;
        }
        let expectation = Expectation {
            uid: uid.to_owned(),
            version: Some(version.to_owned()),
            gone: false,
            until: now + EXPECTATION_LIMIT,
            overdue: false,
        };
        self.pending.insert(key.clone(), expectation);
    }

    /// An object was deleted. `present` says whether the store holds it, not terminating.
    pub(super) fn deleted(&mut self, now: Instant, key: &ObjectKey, uid: &str, present: bool) {
        // A write that was not seen yet must be seen first: else the object that it made would
        // appear after it is thought gone.
        let version = self
            .pending
            .remove(key)
            .filter(|pending| pending.uid == uid)
            .and_then(|pending| pending.version);
        if version.is_none() && !present {
            return;
        }
        let expectation = Expectation {
            uid: uid.to_owned(),
            version,
            gone: true,
            until: now + EXPECTATION_LIMIT,
            overdue: false,
        };
        self.pending.insert(key.clone(), expectation);
    }

    /// The store holds this version. Returns whether an expectation was met.
    pub(super) fn saw(&mut self, key: &ObjectKey, uid: &str, version: &str, ending: bool) -> bool {
        self.update(key, |pending| {
            let other = pending.uid != uid;
            if other
                || pending
                    .version
                    .as_deref()
                    .is_some_and(|v| reaches(version, v))
            {
                pending.version = None;
            }
            if other || ending {
                pending.gone = false;
            }
        })
    }

    /// The object is no longer in the store. Returns whether an expectation was met.
    pub(super) fn saw_deleted(&mut self, key: &ObjectKey, uid: &str) -> bool {
        self.update(key, |pending| {
            if pending.uid == uid {
                pending.version = None;
                pending.gone = false;
            }
        })
    }

    /// The store holds everything of a namespace, or of all, up to `version`. Returns whether an
    /// expectation was met.
    pub(super) fn reached(&mut self, namespace: Option<&str>, version: &str) -> bool {
        let Ok(version) = version.parse::<u64>() else {
            return false;
        };
        let progress = match namespace {
            None => &mut self.progress,
            Some(namespace) => match self.parts.get_mut(namespace) {
                Some(progress) => progress,
                None => self.parts.entry(namespace.into()).or_default(),
            },
        };
        *progress = version.max(*progress);
        let progress = *progress;
        let before = self.pending.len();
        self.pending.retain(|key, pending| {
            let here = namespace.is_none_or(|namespace| *key.namespace == *namespace);
            let reached = |version: &str| here && at_most(version, progress);
            if pending.version.as_deref().is_some_and(reached) {
                pending.version = None;
            }
            !pending.is_met()
        });
        self.pending.len() < before
    }

    /// Until when `key` is waited for; `None` when its writes were seen. What was not seen in time is
    /// not forgotten: the store is behind until it shows it.
    pub(super) fn pending(&self, key: &ObjectKey) -> Option<Instant> {
        self.pending.get(key).map(|pending| pending.until)
    }

    /// Notes that the time of `key` is over. Returns whether that is news.
    pub(super) fn give_up(&mut self, key: &ObjectKey) -> bool {
        let pending = self.pending.get_mut(key);
        pending.is_some_and(|pending| !std::mem::replace(&mut pending.overdue, true))
    }

    /// Whether no write is waited for.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    fn has_reached(&self, namespace: &str, version: &str) -> bool {
        let part = self.parts.get(namespace).copied().unwrap_or_default();
        at_most(version, self.progress.max(part))
    }

    fn update(&mut self, key: &ObjectKey, change: impl FnOnce(&mut Expectation)) -> bool {
        let Some(pending) = self.pending.get_mut(key) else {
            return false;
        };
        change(pending);
        let met = pending.is_met();
        if met {
            self.pending.remove(key);
        }
        met
    }
}

fn at_most(version: &str, progress: u64) -> bool {
    version
        .parse::<u64>()
        .is_ok_and(|version| version <= progress)
}

fn reaches(seen: &str, wanted: &str) -> bool {
    match (seen.parse::<u64>(), wanted.parse::<u64>()) {
        (Ok(seen), Ok(wanted)) => seen >= wanted,
        _ => seen == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ObjectKey {
        ObjectKey::new("ns", "a")
    }

    #[test]
    fn a_write_is_awaited_until_it_or_a_later_version_was_seen() {
        let now = Instant::now();
        let mut expected = Expectations::default();
        expected.written(now, &key(), "u", "9");
        assert!(!expected.saw(&key(), "u", "8", false));
        assert_eq!(expected.pending(&key()), Some(now + EXPECTATION_LIMIT));
        assert!(
            expected.saw(&key(), "u", "10", false),
            "compared as numbers"
        );
        assert_eq!(expected.pending(&key()), None);

        assert!(!expected.reached(None, "20"));
        expected.written(now, &key(), "u", "20");
        assert_eq!(
            expected.pending(&key()),
            None,
            "the watch was faster than the answer"
        );
        expected.written(now, &key(), "u", "21");
        assert!(
            expected.reached(None, "22"),
            "a bookmark or another object's later event will do"
        );
    }

    #[test]
    fn how_far_a_namespace_is_says_nothing_of_another() {
        let now = Instant::now();
        let mut expected = Expectations::default();
        expected.written(now, &key(), "u", "5");
        assert!(!expected.reached(Some("other"), "9"));
        assert!(expected.reached(Some("ns"), "6"));
        expected.written(now, &key(), "u", "7");
        assert!(
            expected.pending(&key()).is_some(),
            "only the other is so far"
        );
        expected.written(now, &key(), "u", "6");
        assert!(expected.pending(&key()).is_none());
    }

    #[test]
    fn a_deletion_is_awaited_only_for_what_is_there() {
        let now = Instant::now();
        let mut expected = Expectations::default();
        expected.deleted(now, &key(), "u", false);
        assert_eq!(expected.pending(&key()), None);
        expected.deleted(now, &key(), "u", true);
        assert!(!expected.saw(&key(), "u", "5", false));
        assert!(!expected.reached(None, "100"), "time alone removes nothing");
        assert!(expected.saw(&key(), "u", "6", true), "terminating is seen");
        expected.deleted(now, &key(), "u", true);
        assert!(
            expected.saw(&key(), "other", "7", false),
            "replaced under its name"
        );
        expected.deleted(now, &key(), "u", true);
        assert!(expected.saw_deleted(&key(), "u"));
    }

    #[test]
    fn an_object_made_and_deleted_before_it_was_seen_is_awaited_twice() {
        let now = Instant::now();
        let mut expected = Expectations::default();
        expected.written(now, &key(), "u", "5");
        expected.deleted(now, &key(), "u", false);
        assert!(
            !expected.saw(&key(), "u", "5", false),
            "now it is there, and must go"
        );
        assert!(expected.saw_deleted(&key(), "u"));
    }

    #[test]
    fn opaque_versions_match_only_themselves() {
        let mut expected = Expectations::default();
        expected.written(Instant::now(), &key(), "u", "b");
        assert!(!expected.saw(&key(), "u", "c", false));
        assert!(expected.saw(&key(), "u", "b", false));
    }

    #[test]
    fn what_is_not_seen_in_time_is_told_once_and_not_forgotten() {
        let now = Instant::now();
        let mut expected = Expectations::default();
        assert!(!expected.give_up(&key()));
        expected.written(now, &key(), "u", "5");
        assert!(expected.give_up(&key()));
        assert!(!expected.give_up(&key()));
        assert_eq!(expected.pending(&key()), Some(now + EXPECTATION_LIMIT));
        assert!(expected.saw(&key(), "u", "5", false));
        assert_eq!(expected.pending(&key()), None);
        expected.written(now, &key(), "u", "6");
        assert!(expected.give_up(&key()), "another write is other news");
    }
}
