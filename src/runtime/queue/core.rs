//! The queue's rules, without a clock of its own, tasks or locks.

#[path = "debug.rs"]
mod debug;
#[path = "discard.rs"]
mod discard;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::entries::{Again, Entries, Hashes, Place};
use super::linked::{Id, List};
use super::ready::Ready;
use super::retry::{BACKOFF_CAP, BACKOFF_INITIAL, Retry, held};
use super::words::{Finish, Item, Pause, Priority};
use crate::client::Jitter;
use crate::runtime::ObjectKey;

/// Once an item stood longer than this among those of its priority, these go before higher ones, but
/// only once in [`AGED_TURN`] times, and of two such priorities that of the oldest item: so lower
/// items are not starved, and an old backlog does not starve the rest.
pub(super) const AGE_LIMIT: Duration = Duration::from_secs(5);
pub(super) const AGED_TURN: u8 = 4;

/// Retries at once after conflicts in a row; then a conflict backs off as any failure.
pub(super) const CONFLICT_RETRIES: u8 = 5;

/// Pause before the run that follows an interrupted one. What interrupts also pauses the queue; this
/// bounds the runs until it does.
pub(super) const INTERRUPTED: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Core {
    /// Every key that is ready, waiting, running or resting; nothing else is remembered.
    entries: Entries,
    /// In the order they are handed out.
    ready: Ready,
    /// By when they become ready.
    waiting: BTreeMap<(Instant, u64), Id>,
    /// Keys that nobody asks for but whose window is open, by its end.
    resting: BTreeMap<(Instant, u64), Id>,
    /// Keys that are on a worker.
    running: List,
    busy: usize,
    /// Number of the next place in `waiting` or `resting`.
    ticket: u64,
    /// Items handed out since an aged one went first.
    since_aged: u8,
    paused: [bool; 2],
    /// When the pause of a standby ended last: what was ready before has waited since then.
    took_over: Option<Instant>,
    draining: bool,
    jitter: Jitter,
    /// How long after the start of a key's run its next one for a change that is not urgent may start.
    window: Duration,
    backoff: (Duration, Duration),
    /// The latest time that was told. Callers read their clocks before they take turns, so that one
    /// may tell an earlier time than the one before it: none goes back.
    latest: Option<Instant>,
}

impl Core {
    pub(super) fn new(jitter: Jitter) -> Self {
        Self {
            entries: Entries::default(),
            ready: Ready::default(),
            waiting: BTreeMap::new(),
            resting: BTreeMap::new(),
            running: List::default(),
            busy: 0,
            ticket: 0,
            since_aged: 0,
            paused: [false; 2],
            took_over: None,
            draining: false,
            jitter,
            window: Duration::ZERO,
            backoff: (BACKOFF_INITIAL, BACKOFF_CAP),
            latest: None,
        }
    }

    pub(super) fn set_window(&mut self, window: Duration) {
        self.window = window;
    }

    pub(super) fn set_backoff(&mut self, backoff: (Duration, Duration)) {
        self.backoff = backoff;
    }

    fn clock(&mut self, now: Instant) -> Instant {
        let now = self.latest.map_or(now, |latest| latest.max(now));
        self.latest = Some(now);
        now
    }

    /// Asks for a run of `key` as soon as may be: at once, but unless the priority is High not before
    /// the window of its last run ends nor before a failed key's hold is over. No later change moves
    /// that time on. Returns whether the key became ready by this call.
    pub(super) fn add(
        &mut self,
        now: Instant,
        key: ObjectKey,
        hashes: Hashes,
        priority: Priority,
    ) -> bool {
        let now = self.clock(now);
        self.forget(now);
        let id = self.entry(key, hashes);
        let at = match self.entries[id].started {
            Some(started) if priority < Priority::High => now.max(started + self.window),
            _ => now,
        };
        self.ask(now, id, at, priority)
    }

    /// Asks for a run of `key` in `delay`. The earliest time asked for wins.
    pub(super) fn add_after(
        &mut self,
        now: Instant,
        key: ObjectKey,
        hashes: Hashes,
        delay: Duration,
    ) -> bool {
        let now = self.clock(now);
        let id = self.entry(key, hashes);
        self.ask(now, id, now + delay, Priority::Normal)
    }

    /// The entry of a key, idle if it is new.
    fn entry(&mut self, key: ObjectKey, hashes: Hashes) -> Id {
        let ready = &mut self.ready;
        self.entries.of(key, hashes, |key| ready.join(key, hashes))
    }

    fn ask(&mut self, now: Instant, id: Id, at: Instant, priority: Priority) -> bool {
        let entry = &mut self.entries[id];
        match &mut entry.place {
            Place::Idle => {
                entry.priority = priority;
                self.place(now, id, at)
            }
            Place::Resting { until, ticket } => {
                self.resting.remove(&(*until, *ticket));
                entry.priority = priority;
                self.place(now, id, at)
            }
            Place::Running { again } => {
                *again = Some(Again::merge(*again, at, priority));
                false
            }
            Place::Ready { .. } => {
                if at <= now && priority > entry.priority {
                    // Goes to the end of the level it rises to.
                    self.ready.remove(&mut self.entries, id);
                    self.entries[id].priority = priority;
                    self.ready.push(&mut self.entries, id);
                }
                false
            }
            Place::Waiting {
                at: planned,
                ticket,
            } => {
                let at = held(entry.retry.as_deref(), at, priority).min(*planned);
                self.waiting.remove(&(*planned, *ticket));
                entry.priority = priority.max(entry.priority);
                self.place(now, id, at)
            }
        }
    }

    /// Puts a key that is nowhere (any more) where `at` says. Returns whether it is ready.
    fn place(&mut self, now: Instant, id: Id, at: Instant) -> bool {
        if at <= now {
            self.entries[id].place = Place::Ready { since: now };
            self.ready.push(&mut self.entries, id);
            return true;
        }
        let ticket = self.next_ticket();
        self.waiting.insert((at, ticket), id);
        self.entries[id].place = Place::Waiting { at, ticket };
        false
    }

    fn next_ticket(&mut self) -> u64 {
        self.ticket += 1;
        self.ticket
    }

    /// Forgets keys whose window is over. No timer runs for it: what is left of the last keys goes
    /// with the next change or look.
    fn forget(&mut self, now: Instant) {
        while let Some(first) = self.resting.first_entry() {
            if first.key().0 > now {
                break;
            }
            let id = first.remove();
            self.drop_entry(id);
        }
    }

    fn drop_entry(&mut self, id: Id) {
        self.ready.quit(self.entries[id].lane);
        self.entries.remove(id);
    }

    /// Makes ready what is due. Returns how many keys became ready.
    pub(super) fn promote(&mut self, now: Instant) -> usize {
        let now = self.clock(now);
        self.forget(now);
        let mut promoted = 0;
        while let Some(first) = self.waiting.first_entry() {
            let (at, _) = *first.key();
            if at > now {
                break;
            }
            let id = first.remove();
            self.entries[id].place = Place::Ready { since: at };
            self.ready.push(&mut self.entries, id);
            promoted += 1;
        }
        promoted
    }

    /// Whether keys are handed out now, if any are ready.
    pub(super) fn is_open(&self) -> bool {
        !(self.draining || self.paused.contains(&true))
    }

    /// Hands out the next key, which is then on a worker until [`done`](Self::done). `None` when
    /// nothing is ready, and while paused or draining. Call [`promote`](Self::promote) first.
    pub(super) fn take(&mut self, now: Instant) -> Option<Item> {
        if !self.is_open() {
            return None;
        }
        let now = self.clock(now);
        let priority = self.next_priority(now)?;
        let id = self.ready.pop(&mut self.entries, priority)?;
        let entry = &mut self.entries[id];
        let waited = match entry.place {
            Place::Ready { since } => {
                now.saturating_duration_since(self.took_over.map_or(since, |at| at.max(since)))
            }
            _ => Duration::ZERO,
        };
        entry.place = Place::Running { again: None };
        entry.started = Some(now);
        let key = entry.key.clone();
        self.running
            .push(&mut self.entries.slab, id, |entry| &mut entry.age);
        self.busy += 1;
        Some(Item { key, waited })
    }

    /// The priority that is next.
    fn next_priority(&mut self, now: Instant) -> Option<Priority> {
        let highest = self.ready.highest()?;
        self.since_aged = self.since_aged.saturating_add(1);
        if self.since_aged >= AGED_TURN {
            let oldest = [Priority::Normal, Priority::Low]
                .into_iter()
                .filter_map(|level| Some((self.ready.oldest(&self.entries, level)?, level)))
                .min_by_key(|(since, _)| *since);
            if let Some((since, level)) = oldest
                && since + AGE_LIMIT <= now
            {
                if level != highest {
                    self.since_aged = 0;
                }
                return Some(level);
            }
        }
        Some(highest)
    }

    /// Takes a key back from its worker. Returns after how long it is ready again, if at all. Asks
    /// for the time only if it matters: most runs end with nothing more to do, and reading a clock
    /// costs as much as all else here.
    pub(super) fn done(
        &mut self,
        clock: impl FnOnce() -> Instant,
        key: &ObjectKey,
        hashes: Hashes,
        finish: Finish,
    ) -> Option<Duration> {
        let id = self.entries.find(key, hashes)?;
        let Place::Running { mut again } = self.entries[id].place else {
            return None;
        };
        self.running
            .remove(&mut self.entries.slab, id, |entry| &mut entry.age);
        self.busy -= 1;
        let over = matches!(finish, Finish::Success | Finish::Permanent);
        if over && again.is_none() && self.window.is_zero() {
            self.drop_entry(id);
            return None;
        }
        let now = self.clock(clock());
        let entry = &mut self.entries[id];
        let started = entry.started.unwrap_or(now);
        let mut retry = entry.retry.take();
        let conflicts = std::mem::take(&mut entry.conflicts);
        match finish {
            Finish::Success | Finish::Permanent => retry = None,
            Finish::SuccessAfter(delay) => {
                retry = None;
                again = Some(Again::merge(again, now + delay, Priority::Normal));
            }
            Finish::Conflict if conflicts < CONFLICT_RETRIES => {
                entry.conflicts = conflicts + 1;
                again = Some(Again::merge(again, now, entry.priority));
            }
            Finish::Interrupted => {
                entry.conflicts = conflicts;
                let asked = again.map(|asked| Again {
                    at: held(retry.as_deref(), asked.at, asked.priority),
                    ..asked
                });
                let at = held(retry.as_deref(), now + INTERRUPTED, entry.priority);
                again = Some(Again::merge(asked, at, entry.priority));
            }
            Finish::Failed | Finish::Conflict => {
                entry.conflicts = conflicts;
                let mut failed = retry.unwrap_or_else(|| Retry::new(self.backoff).into());
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
        entry.retry = retry;
        let Some(again) = again else {
            let until = started + self.window;
            if until > now {
                let ticket = self.next_ticket();
                self.resting.insert((until, ticket), id);
                self.entries[id].place = Place::Resting { until, ticket };
            } else {
                self.drop_entry(id);
            }
            return None;
        };
        self.entries[id].priority = again.priority;
        self.place(now, id, again.at);
        Some(again.at.saturating_duration_since(now))
    }

    pub(super) fn pause(&mut self, now: Instant, why: Pause, paused: bool) {
        let before = std::mem::replace(&mut self.paused[why as usize], paused);
        if why == Pause::Standby && before && !paused {
            self.took_over = Some(now);
        }
    }

    /// No key is handed out any more; what is added is still recorded, so that
    /// [`left`](Self::left) is exact.
    pub(super) fn drain(&mut self) {
        self.draining = true;
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining
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
        let running = self.running.iter(&self.entries.slab, |entry| &entry.age);
        running.filter_map(|entry| entry.started)
    }

    /// To look at.
    pub(super) fn parts(&self) -> (&Entries, &Ready) {
        (&self.entries, &self.ready)
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
