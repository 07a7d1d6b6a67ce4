//! How a loop does, for probes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::WatchLimits;
use super::source::PartScope;
use crate::client::{Error, Resource};
use crate::runtime::ObjectKey;

/// A healthy loop does something at least this often: its longest pause is a watch without a frame
/// (6 min 30 s).
const STUCK_AFTER: Duration = Duration::from_mins(10);

/// So many undecodable objects are named.
const NAMED: usize = 20;

/// Written by the loop, read by probes.
pub(super) struct Status {
    resource: Resource,
    scope: String,
    inner: Mutex<Inner>,
    contacts: Contacts,
    /// Which of `contacts` is this loop's.
    number: usize,
}

/// When each loop of a kind had contact, in Unix seconds; 0 for never. Shared by them.
type Contacts = Arc<Mutex<Vec<f64>>>;

struct Inner {
    /// How long the loop may fail before its cache is stale.
    stale_after: Duration,
    objects: usize,
    synced: bool,
    /// Since when the loop has been failing, and the last reason.
    trouble: Option<Trouble>,
    /// When a page or a frame came last.
    contact: Instant,
    /// When the loop did anything last.
    tick: Instant,
    /// Objects whose newest version can't be decoded, with the reason.
    quarantine: BTreeMap<ObjectKey, String>,
}

struct Trouble {
    since: Instant,
    forbidden: bool,
    message: String,
}

impl Status {
    /// Of the loops that keep one store.
    pub(super) fn of_parts(resource: Resource, parts: &[PartScope]) -> Vec<Self> {
        let contacts: Contacts = Arc::new(Mutex::new(vec![0.0; parts.len()]));
        let statuses = parts.iter().enumerate().map(|(number, part)| {
            let scope = match &part.namespace {
                Some(namespace) => format!("namespace {namespace}"),
                None => "all namespaces".to_owned(),
            };
            Self::new(resource, scope, Arc::clone(&contacts), number)
        });
        statuses.collect()
    }

    /// Of the only loop.
    #[cfg(test)]
    pub(super) fn alone(resource: Resource) -> Self {
        Self::new(
            resource,
            "all namespaces".to_owned(),
            Arc::new(Mutex::new(vec![0.0])),
            0,
        )
    }

    fn new(resource: Resource, scope: String, contacts: Contacts, number: usize) -> Self {
        let now = Instant::now();
        Self {
            resource,
            scope,
            inner: Mutex::new(Inner {
                stale_after: WatchLimits::DEFAULT.stale_after,
                objects: 0,
                synced: false,
                trouble: None,
                contact: now,
                tick: now,
                quarantine: BTreeMap::new(),
            }),
            contacts,
            number,
        }
    }

    /// Sets how long the loop may fail before its cache is stale.
    pub(super) fn stale_after(&self, limit: Duration) {
        self.lock().stale_after = limit;
    }

    /// The loop is alive.
    pub(super) fn tick(&self) {
        self.lock().tick = Instant::now();
    }

    /// A page or a frame came, or a watch was accepted, at the Unix time `unix`. Returns which contact
    /// of all loops of the kind is the oldest: what the whole cache is as fresh as.
    pub(super) fn contact(&self, objects: usize, unix: f64) -> f64 {
        let mut inner = self.lock();
        let now = Instant::now();
        (inner.objects, inner.contact, inner.tick) = (objects, now, now);
        inner.trouble = None;
        drop(inner);
        let mut contacts = self.contacts.lock().unwrap_or_else(PoisonError::into_inner);
        contacts[self.number] = unix;
        contacts.iter().copied().fold(unix, f64::min)
    }

    pub(super) fn synced(&self) {
        self.lock().synced = true;
    }

    /// A request failed. Returns whether that is news: the first failure after all was well, or
    /// another message than before.
    pub(super) fn failed(&self, error: &Error) -> bool {
        let message = error.to_string();
        let mut inner = self.lock();
        let news = inner
            .trouble
            .as_ref()
            .is_none_or(|trouble| trouble.message != message);
        let since = inner
            .trouble
            .as_ref()
            .map_or_else(Instant::now, |trouble| trouble.since);
        inner.trouble = Some(Trouble {
            since,
            forbidden: matches!(error, Error::Forbidden { .. }),
            message,
        });
        news
    }

    /// Notes an undecodable object. Returns whether it is news: not the same reason as before.
    pub(super) fn quarantine(&self, key: ObjectKey, reason: &str) -> bool {
        let known = self.lock().quarantine.insert(key, reason.to_owned());
        known.as_deref() != Some(reason)
    }

    /// The object is decodable again, or gone. Returns whether it was quarantined.
    pub(super) fn heal(&self, key: &ObjectKey) -> bool {
        self.lock().quarantine.remove(key).is_some()
    }

    /// Forgets quarantined objects that `keep` does not hold.
    pub(super) fn retain_quarantined(&self, keep: impl Fn(&ObjectKey) -> bool) {
        self.lock().quarantine.retain(|key, _| keep(key));
    }

    pub(super) fn quarantined(&self) -> usize {
        self.lock().quarantine.len()
    }

    /// Ready: synced and fresh.
    pub(super) fn readiness(&self) -> Result<String, String> {
        let inner = self.lock();
        let now = Instant::now();
        let age = now.saturating_duration_since(inner.contact);
        if let Some(trouble) = &inner.trouble {
            let failing = now.saturating_duration_since(trouble.since);
            if !inner.synced || trouble.forbidden || failing > inner.stale_after {
                let state = if inner.synced { "stale" } else { "not synced" };
                return Err(format!(
                    "{} in {}: {state}, last contact {age:.0?} ago: {}",
                    self.resource.plural, self.scope, trouble.message
                ));
            }
        }
        if !inner.synced {
            return Err(format!(
                "{} in {}: not synced yet",
                self.resource.plural, self.scope
            ));
        }
        let mut detail = format!(
            "{} objects in {}, last contact {age:.0?} ago",
            inner.objects, self.scope
        );
        if let Some((key, reason)) = inner.quarantine.iter().next() {
            let count = inner.quarantine.len();
            // Writing to a String can't fail.
            let _ = write!(detail, ", {count} undecodable, such as {key}: {reason}");
        }
        Ok(detail)
    }

    /// How it does, for people.
    pub(super) fn debug(&self) -> Value {
        let inner = self.lock();
        let now = Instant::now();
        let since = |at: Instant| now.saturating_duration_since(at).as_secs_f64();
        let trouble = inner.trouble.as_ref();
        let quarantine = inner.quarantine.iter().take(NAMED);
        let quarantine: Vec<_> = quarantine
            .map(|(key, reason)| json!({"key": key.to_string(), "reason": reason}))
            .collect();
        json!({
            "scope": self.scope,
            "synced": inner.synced,
            "objects": inner.objects,
            "lastContactSeconds": since(inner.contact),
            "lastActivitySeconds": since(inner.tick),
            "failingSeconds": trouble.map(|trouble| since(trouble.since)),
            "error": trouble.map(|trouble| &trouble.message),
            "undecodable": inner.quarantine.len(),
            "undecodableSuchAs": quarantine,
        })
    }

    /// Alive: the loop does something, be it in vain.
    pub(super) fn liveness(&self) -> Result<String, String> {
        let idle = Instant::now().saturating_duration_since(self.lock().tick);
        if idle > STUCK_AFTER {
            Err(format!("the loop has done nothing for {idle:.0?}"))
        } else {
            Ok(format!("active {idle:.0?} ago"))
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The verdict on all loops of a kind: those that are not well, or how each is.
pub(super) fn all(
    verdicts: impl IntoIterator<Item = Result<String, String>>,
) -> Result<String, String> {
    let (mut well, mut ill) = (Vec::new(), Vec::new());
    for verdict in verdicts {
        match verdict {
            Ok(detail) => well.push(detail),
            Err(why) => ill.push(why),
        }
    }
    if ill.is_empty() {
        Ok(well.join("; "))
    } else {
        Err(ill.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::POD;

    #[tokio::test(start_paused = true)]
    async fn cr_1653_a_missing_permission_is_named_at_once() {
        let status = Status::alone(POD);
        assert!(status.readiness().unwrap_err().contains("not synced"));
        status.contact(3, 0.0);
        status.synced();
        assert!(status.readiness().unwrap().starts_with("3 objects"));
        let forbidden = Error::Forbidden {
            verb: "watch",
            resource: "pods".to_owned(),
            namespace: None,
            message: "RBAC".to_owned(),
        };
        assert!(status.failed(&forbidden) && !status.failed(&forbidden));
        let why = status.readiness().unwrap_err();
        assert!(
            why.contains("not allowed to watch pods in all namespaces"),
            "{why}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn k8s_128233_a_cut_watch_is_stale_after_a_while_and_the_loop_still_alive() {
        let status = Status::alone(POD);
        status.contact(3, 0.0);
        status.synced();
        let error = Error::Gone {
            what: "x".to_owned(),
        };
        status.failed(&error);
        assert!(status.readiness().is_ok(), "one failure is nothing");
        tokio::time::advance(Duration::from_secs(61)).await;
        status.failed(&error);
        let why = status.readiness().unwrap_err();
        assert!(
            why.starts_with("pods in all namespaces: stale, last contact 61s ago"),
            "{why}"
        );
        assert!(status.liveness().is_ok());
        status.contact(3, 0.0);
        assert!(status.readiness().is_ok());
        tokio::time::advance(Duration::from_mins(11)).await;
        assert!(status.liveness().is_err());
    }
}
