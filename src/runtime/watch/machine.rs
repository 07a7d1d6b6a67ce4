//! What a list-watch loop does next, given how the last step ended. Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::WatchLimits;
use super::source::{PageRequest, WatchRequest};
use super::words::{Action, End, Failure, Step};
use crate::client::Jitter;
use crate::runtime::backoff::Backoff;

/// A collection so large (or so busy) that its list expires before it can be watched is read in
/// pages larger by this factor, up to everything at once.
const PAGE_GROWTH: u32 = 4;
const PAGE_LIMIT_MAX: u32 = 32_000;

/// client-go's reflector: 800 ms to 30 s, reset after two minutes without a failure.
const BACKOFF_INITIAL: Duration = Duration::from_millis(800);
const BACKOFF_CAP: Duration = Duration::from_secs(30);
const HEALTHY_AFTER: Duration = Duration::from_mins(2);
/// Delays are spread over ± this part.
const JITTER: f64 = 0.5;

/// Once the server is back the loops do not wait for the end of their delays, but for a time up to
/// this, each its own.
const BACK_SPREAD: Duration = Duration::from_secs(1);

/// So that watches do not all end at once: ± 20 %.
const WATCH_TIMEOUT_SPREAD: f64 = 0.2;
/// A watch that its server should have ended so long ago, and that gave no frame meanwhile, is dead.
const SILENCE_SLACK: Duration = Duration::from_secs(30);

/// So many watches in a row that broke off before all objects had come: this time they are listed.
const BROKEN_LIMIT: u8 = 3;

/// A watch shorter than this did not really work.
const BRIEF: Duration = Duration::from_secs(1);
/// So many brief watches in a row without a frame: what they resume from is no good.
const BARREN_LIMIT: u8 = 3;

#[derive(Debug)]
pub(super) struct Machine {
    position: Position,
    wait: Duration,
    backoff: Backoff,
    jitter: Jitter,
    /// Since when all goes well.
    healthy_since: Option<Instant>,
    /// No frame came since the last list.
    fresh: bool,
    /// Brief watches in a row without a frame.
    barren: u8,
    page_limit: Option<u32>,
    limits: WatchLimits,
    /// Whether the server is asked for watches that begin with all objects.
    streams: bool,
    /// Of those, how many broke off in a row.
    broken: u8,
}

#[derive(Debug)]
enum Position {
    /// A watch that begins with all objects; they are not complete yet.
    Stream {
        begin: Option<&'static str>,
    },
    List {
        begin: Option<&'static str>,
        continue_token: Option<String>,
        /// Version of the first page: the list is at least that new.
        version: Option<String>,
    },
    Watch {
        version: String,
    },
}

impl Position {
    fn list(reason: &'static str) -> Self {
        Self::List {
            begin: Some(reason),
            continue_token: None,
            version: None,
        }
    }
}

impl Machine {
    pub(super) fn new(jitter: Jitter) -> Self {
        Self {
            position: Position::Stream {
                begin: Some("initial"),
            },
            streams: true,
            ..Self::paging(jitter)
        }
    }

    /// A loop that only lists by pages.
    pub(super) fn paging(jitter: Jitter) -> Self {
        Self {
            position: Position::list("initial"),
            streams: false,
            broken: 0,
            wait: Duration::ZERO,
            backoff: Backoff::new(BACKOFF_INITIAL, BACKOFF_CAP),
            jitter,
            healthy_since: None,
            fresh: true,
            barren: 0,
            page_limit: Some(WatchLimits::DEFAULT.page_size),
            limits: WatchLimits::DEFAULT,
        }
    }

    /// The same within other limits.
    pub(super) fn with_limits(self, limits: WatchLimits) -> Self {
        Self {
            page_limit: Some(limits.page_size.max(1)),
            limits,
            ..self
        }
    }

    /// The next step.
    pub(super) fn step(&mut self) -> Step {
        let action = match &mut self.position {
            Position::List {
                begin,
                continue_token,
                ..
            } => Action::List {
                begin: begin.take(),
                request: PageRequest {
                    continue_token: continue_token.clone(),
                    limit: self.page_limit,
                },
            },
            Position::Stream { begin } => {
                let begin = begin.take();
                self.watch(begin, None)
            }
            Position::Watch { version } => {
                let version = version.clone();
                self.watch(None, Some(version))
            }
        };
        Step {
            wait: std::mem::take(&mut self.wait),
            action,
        }
    }

    fn watch(&mut self, begin: Option<&'static str>, resource_version: Option<String>) -> Action {
        let request = WatchRequest {
            resource_version,
            timeout: self
                .jitter
                .around(self.limits.timeout, WATCH_TIMEOUT_SPREAD),
        };
        Action::Watch { begin, request }
    }

    /// The server was away and is back: what it was away for says nothing any more. Returns when the
    /// next step is due instead.
    pub(super) fn back(&mut self) -> Duration {
        self.backoff.reset();
        self.jitter.full(BACK_SPREAD)
    }

    /// A page came. Returns the list's version if it was the last one: what the list did not hold is
    /// gone now.
    pub(super) fn page(
        &mut self,
        now: Instant,
        page_version: String,
        continue_token: Option<String>,
    ) -> Option<String> {
        self.healthy_since.get_or_insert(now);
        let Position::List { version, .. } = &mut self.position else {
            return None;
        };
        let version = version.take().unwrap_or(page_version);
        if let Some(token) = continue_token.filter(|token| !token.is_empty()) {
            self.position = Position::List {
                begin: None,
                continue_token: Some(token),
                version: Some(version),
            };
            return None;
        }
        self.complete(&version);
        Some(version)
    }

    /// Whether the open watch has not given all objects yet, with which it begins.
    pub(super) fn awaits_objects(&self) -> bool {
        matches!(self.position, Position::Stream { .. })
    }

    /// How long a watch that its server ends after `timeout` may give no frame before it is taken for
    /// dead.
    pub(super) fn silence(&self, timeout: Duration) -> Duration {
        if self.awaits_objects() {
            self.limits.patience
        } else {
            timeout + SILENCE_SLACK
        }
    }

    /// A watch that began with all objects has given the last of them, at `version`: what it did not
    /// give is gone now, and it goes on with events.
    pub(super) fn streamed(&mut self, now: Instant, version: &str) {
        self.healthy_since.get_or_insert(now);
        self.broken = 0;
        self.complete(version);
    }

    fn complete(&mut self, version: &str) {
        let version = version.to_owned();
        self.position = Position::Watch { version };
        self.fresh = true;
        self.barren = 0;
    }

    /// A page could not be had.
    pub(super) fn list_failed(&mut self, now: Instant, failure: Failure) {
        let within = matches!(
            &self.position,
            Position::List {
                continue_token: Some(_),
                ..
            }
        );
        match failure {
            // The continue token is lost: a fresh list, in larger pages so that the token lasts.
            Failure::Expired | Failure::Refused if within => {
                self.grow_pages();
                self.position = Position::list("expired");
            }
            Failure::Expired | Failure::Refused => self.position = Position::list("retry"),
            // The same page again: the token may well be good still.
            Failure::Throttled(_) | Failure::Other => {}
        }
        self.back_off(now, failure);
    }

    /// A frame came, after which the object's collection is at `version`.
    pub(super) fn frame(&mut self, now: Instant, version: &str) {
        self.healthy_since.get_or_insert(now);
        self.fresh = false;
        self.barren = 0;
        if let Position::Watch { version: resume } = &mut self.position
            && !version.is_empty()
        {
            version.clone_into(resume);
        }
    }

    /// A watch ended `lasted` after it was asked for, having given `frames` frames. `opened` is
    /// whether the server accepted it.
    pub(super) fn watch_ended(
        &mut self,
        now: Instant,
        lasted: Duration,
        frames: u64,
        opened: bool,
        end: End,
    ) {
        if self.awaits_objects() {
            self.stream_ended(now, end);
            return;
        }
        let brief = lasted < BRIEF;
        match end {
            End::Failed(Failure::Expired | Failure::Refused) => {
                self.position = self.anew("expired");
                if self.fresh {
                    // The list was too old when it was complete: not the same again at once.
                    self.grow_pages();
                    self.back_off(now, Failure::Expired);
                }
                return;
            }
            End::Failed(failure) => self.back_off(now, failure),
            End::Silent => self.back_off(now, Failure::Other),
            // A server that closes watches as they open must not be asked in a tight loop.
            End::Closed if brief => self.back_off(now, Failure::Other),
            End::Closed => {}
        }
        if !brief || frames > 0 {
            self.barren = 0;
        } else if opened {
            self.barren += 1;
            if self.barren >= BARREN_LIMIT {
                self.barren = 0;
                self.position = self.anew("barren");
            }
        }
    }

    /// A watch ended before it had given all objects.
    fn stream_ended(&mut self, now: Instant, end: End) {
        self.position = match end {
            // It will not be otherwise next time.
            End::Failed(Failure::Refused) => {
                self.streams = false;
                Position::list("refused")
            }
            End::Silent | End::Closed => {
                self.streams = false;
                Position::list("stalled")
            }
            End::Failed(failure) => {
                self.back_off(now, failure);
                self.broken += 1;
                // Servers let in fewer of these watches at once than of lists.
                if matches!(failure, Failure::Throttled(_)) || self.broken >= BROKEN_LIMIT {
                    self.broken = 0;
                    Position::list("broken")
                } else {
                    self.anew("retry")
                }
            }
        };
    }

    /// Where all objects are read again, for this reason.
    fn anew(&self, reason: &'static str) -> Position {
        if self.streams {
            let begin = Some(reason);
            return Position::Stream { begin };
        }
        Position::list(reason)
    }

    fn grow_pages(&mut self) {
        self.page_limit = self
            .page_limit
            .map(|limit| limit * PAGE_GROWTH)
            .filter(|limit| *limit <= PAGE_LIMIT_MAX);
    }

    fn back_off(&mut self, now: Instant, failure: Failure) {
        if self
            .healthy_since
            .is_some_and(|since| now - since >= HEALTHY_AFTER)
        {
            self.backoff.reset();
        }
        self.healthy_since = None;
        let own = self.jitter.around(self.backoff.step(), JITTER);
        let asked = match failure {
            Failure::Throttled(Some(after)) => self
                .jitter
                .around(after, JITTER / 2.0)
                .max(after)
                .min(BACKOFF_CAP),
            _ => Duration::ZERO,
        };
        self.wait = own.max(asked).min(BACKOFF_CAP);
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
