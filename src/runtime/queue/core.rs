//! The queue's rules, without a clock of its own, tasks or locks.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::ready::Ready;
use super::retry::Retry;
use super::words::{Finish, Item, Left, Pause, Priority};
use crate::client::Jitter;
use crate::runtime::ObjectKey;
use crate::runtime::hash::Map;

/// An item that waited longer than this goes before higher ones, but only once in
/// [`AGED_TURN`] times: so lower items are not starved, and an old backlog does not starve the rest.
pub(super) const AGE_LIMIT: Duration = Duration::from_secs(5);
const AGED_TURN: u8 = 4;

/// Retries at once after conflicts in a row; then a conflict backs off as any failure.
pub(super) const CONFLICT_RETRIES: u8 = 5;

/// Pause before the run that follows an interrupted one. What interrupts also pauses the queue; this
/// bounds the runs until it does.
pub(super) const INTERRUPTED: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Core {
    /// Every key that is ready, waiting or running; nothing else is remembered.
    entries: Map<ObjectKey, Entry>,
    /// In the order they are handed out.
    ready: Ready,
    /// By the time they become ready.
    waiting: BTreeMap<(Instant, u64), ObjectKey>,
    /// Keys that are on a worker.
    running: usize,
    /// Number of the next place in `ready` or `waiting`.
    ticket: u64,
    /// Items handed out since an aged one went first.
    since_aged: u8,
    /// By [`Pause`].
    paused: [bool; 2],
    draining: bool,
    jitter: Jitter,
}

#[derive(Debug)]
struct Entry {
    place: Place,
    /// The highest priority asked for since the key was handed out last.
    priority: Priority,
    /// Present after a failed run, until one succeeds.
    retry: Option<Box<Retry>>,
    /// Conflicts in a row.
    conflicts: u8,
}

#[derive(Debug)]
enum Place {
    Ready {
        ticket: u64,
        since: Instant,
    },
    Waiting {
        at: Instant,
        ticket: u64,
    },
    Running {
        since: Instant,
        again: Option<Again>,
    },
}

/// What was asked for while the key runs.
#[derive(Clone, Copy, Debug)]
struct Again {
    at: Instant,
    priority: Priority,
}

impl Again {
    fn merge(earlier: Option<Self>, at: Instant, priority: Priority) -> Self {
        earlier.map_or(Self { at, priority }, |earlier| Self {
            at: earlier.at.min(at),
            priority: earlier.priority.max(priority),
        })
    }
}

/// When a key that is asked for at `at` may run: one that failed is held, unless it is urgent.
fn held(retry: Option<&Retry>, at: Instant, priority: Priority) -> Instant {
    match retry {
        Some(retry) if priority < Priority::High => at.max(retry.hold()),
        _ => at,
    }
}

/// Whether a ready key is still in the place that it got this ticket for.
fn holds(entries: &Map<ObjectKey, Entry>, ticket: u64, key: &ObjectKey) -> bool {
    entries.get(key).is_some_and(
        |entry| matches!(entry.place, Place::Ready { ticket: now, .. } if now == ticket),
    )
}

impl Core {
    pub(super) fn new(jitter: Jitter) -> Self {
        Self {
            entries: Map::default(),
            ready: Ready::default(),
            waiting: BTreeMap::new(),
            running: 0,
            ticket: 0,
            since_aged: 0,
            paused: [false; 2],
            draining: false,
            jitter,
        }
    }

    /// Asks for a run of `key` as soon as may be: at once, but not before a failed key's hold is
    /// over unless the priority is High. Returns whether the key became ready by this call.
    pub(super) fn add(&mut self, now: Instant, key: ObjectKey, priority: Priority) -> bool {
        self.ask(now, key, now, priority)
    }

    /// Asks for a run of `key` in `delay`. The earliest time asked for wins.
    pub(super) fn add_after(&mut self, now: Instant, key: ObjectKey, delay: Duration) -> bool {
        self.ask(now, key, now + delay, Priority::Normal)
    }

    fn ask(&mut self, now: Instant, key: ObjectKey, at: Instant, priority: Priority) -> bool {
        let Some(entry) = self.entries.get_mut(&key) else {
            return self.place(now, key, at, priority, None, 0);
        };
        match &mut entry.place {
            Place::Running { again, .. } => {
                *again = Some(Again::merge(*again, at, priority));
                false
            }
            Place::Ready { ticket, .. } => {
                if at <= now && priority > entry.priority {
                    // Goes to the end of the level it rises to.
                    *ticket = self.ticket;
                    self.ticket += 1;
                    let before = std::mem::replace(&mut entry.priority, priority);
                    self.ready.push(priority, self.ticket - 1, key);
                    let entries = &self.entries;
                    self.ready
                        .leave(before, |ticket, key| holds(entries, ticket, key));
                }
                false
            }
            Place::Waiting {
                at: planned,
                ticket,
            } => {
                let at = held(entry.retry.as_deref(), at, priority).min(*planned);
                self.waiting.remove(&(*planned, *ticket));
                let priority = priority.max(entry.priority);
                let (retry, conflicts) = (entry.retry.take(), entry.conflicts);
                self.place(now, key, at, priority, retry, conflicts)
            }
        }
    }

    /// Puts a key that is nowhere (any more) where `at` says. Returns whether it is ready.
    fn place(
        &mut self,
        now: Instant,
        key: ObjectKey,
        at: Instant,
        priority: Priority,
        retry: Option<Box<Retry>>,
        conflicts: u8,
    ) -> bool {
        let ticket = self.ticket;
        self.ticket += 1;
        let ready = at <= now;
        let place = if ready {
            self.ready.push(priority, ticket, key.clone());
            Place::Ready { ticket, since: now }
        } else {
            self.waiting.insert((at, ticket), key.clone());
            Place::Waiting { at, ticket }
        };
        let entry = Entry {
            place,
            priority,
            retry,
            conflicts,
        };
        self.entries.insert(key, entry);
        ready
    }

    /// Makes ready what is due. Returns how many keys became ready.
    pub(super) fn promote(&mut self, now: Instant) -> usize {
        let mut promoted = 0;
        while let Some(first) = self.waiting.first_entry() {
            let (at, ticket) = *first.key();
            if at > now {
                break;
            }
            let key = first.remove();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.place = Place::Ready { ticket, since: at };
                self.ready.push(entry.priority, ticket, key);
                promoted += 1;
            }
        }
        promoted
    }

    /// Hands out the next key, which is then on a worker until [`done`](Self::done). `None` when
    /// nothing is ready, and while paused or draining. Call [`promote`](Self::promote) first.
    pub(super) fn take(&mut self, now: Instant) -> Option<Item> {
        if self.paused.contains(&true) || self.draining {
            return None;
        }
        let priority = self.next_priority(now)?;
        let key = self.ready.pop(priority)?;
        let entry = self.entries.get_mut(&key)?;
        let running = Place::Running {
            since: now,
            again: None,
        };
        let waited = match std::mem::replace(&mut entry.place, running) {
            Place::Ready { since, .. } => now.saturating_duration_since(since),
            Place::Waiting { .. } | Place::Running { .. } => Duration::ZERO,
        };
        self.running += 1;
        Some(Item { key, waited })
    }

    /// The priority whose first key is next.
    fn next_priority(&mut self, now: Instant) -> Option<Priority> {
        let highest = self.ready.highest()?;
        let entries = &self.entries;
        let valid = |ticket, key: &ObjectKey| holds(entries, ticket, key);
        self.since_aged = self.since_aged.saturating_add(1);
        if self.since_aged >= AGED_TURN {
            for priority in [Priority::Low, Priority::Normal] {
                let first = self.ready.first(priority, valid);
                let aged = first.and_then(|key| match entries.get(key)?.place {
                    Place::Ready { since, .. } => Some(since + AGE_LIMIT <= now),
                    _ => None,
                });
                if aged == Some(true) {
                    if priority != highest {
                        self.since_aged = 0;
                    }
                    return Some(priority);
                }
            }
        }
        self.ready.first(highest, valid)?;
        Some(highest)
    }

    /// Takes a key back from its worker. Returns after how long it is ready again, if at all.
    pub(super) fn done(
        &mut self,
        now: Instant,
        key: &ObjectKey,
        finish: Finish,
    ) -> Option<Duration> {
        let Place::Running { .. } = self.entries.get(key)?.place else {
            return None;
        };
        let entry = self.entries.remove(key)?;
        let Place::Running {
            since: started,
            mut again,
        } = entry.place
        else {
            return None;
        };
        self.running -= 1;
        let mut retry = entry.retry;
        let mut conflicts = 0;
        match finish {
            Finish::Success | Finish::Permanent => retry = None,
            Finish::SuccessAfter(delay) => {
                retry = None;
                again = Some(Again::merge(again, now + delay, Priority::Normal));
            }
            Finish::Conflict if entry.conflicts < CONFLICT_RETRIES => {
                conflicts = entry.conflicts + 1;
                again = Some(Again::merge(again, now, entry.priority));
            }
            Finish::Interrupted => {
                conflicts = entry.conflicts;
                let asked = again.map(|asked| Again {
                    at: held(retry.as_deref(), asked.at, asked.priority),
                    ..asked
                });
                let at = held(retry.as_deref(), now + INTERRUPTED, entry.priority);
                again = Some(Again::merge(asked, at, entry.priority));
            }
            Finish::Failed | Finish::Conflict => {
                conflicts = entry.conflicts;
                let mut failed = retry.unwrap_or_default();
                failed.failed(started, now, &mut self.jitter);
                let mut at = failed.until();
                let mut priority = entry.priority;
                if let Some(asked) = again {
                    at = at.min(held(Some(&failed), asked.at, asked.priority));
                    priority = priority.max(asked.priority);
                }
                again = Some(Again { at, priority });
                retry = Some(failed);
            }
        }
        let again = again?;
        self.place(now, key.clone(), again.at, again.priority, retry, conflicts);
        Some(again.at.saturating_duration_since(now))
    }

    pub(super) fn pause(&mut self, why: Pause, paused: bool) {
        self.paused[why as usize] = paused;
    }

    /// No key is handed out any more; what is added is still recorded, so that
    /// [`left`](Self::left) is exact.
    pub(super) fn drain(&mut self) {
        self.draining = true;
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining
    }

    pub(super) fn left(&self) -> Left {
        Left {
            running: self.running,
            queued: self.ready.len(),
        }
    }

    /// Keys that are ready.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// When the next waiting key becomes ready.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// When each running key was handed out.
    pub(super) fn running_since(&self) -> impl Iterator<Item = Instant> {
        self.entries.values().filter_map(|entry| match entry.place {
            Place::Running { since, .. } => Some(since),
            _ => None,
        })
    }

    /// End of a failed key's backoff.
    #[cfg(test)]
    pub(super) fn until(&self, key: &ObjectKey) -> Option<Instant> {
        self.entries
            .get(key)?
            .retry
            .as_ref()
            .map(|retry| retry.until())
    }

    /// Failed runs of a key that count: those after an elapsed backoff.
    #[cfg(test)]
    pub(super) fn failures(&self, key: &ObjectKey) -> u32 {
        let retry = self.entries.get(key).and_then(|entry| entry.retry.as_ref());
        retry.map_or(0, |retry| retry.failures())
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
