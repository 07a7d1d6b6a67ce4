//! The circuit breaker's rules, as a state machine: every operation is told what time it is.

use std::time::Duration;

use tokio::time::Instant;

/// Seconds over which calls are judged.
const WINDOW: usize = 10;
/// Closed for this long it has recovered, and its next pause is the first one again.
const RECOVERED: Duration = Duration::from_secs(30);
/// Calls at a time in the last round of the ramp, after which it closes.
const RAMP_TOP: u32 = 32;

/// Half-open without a failure for this long it has recovered, too: who has little to send would need
/// minutes for the ramp.
const SETTLED: Duration = Duration::from_secs(10);

/// When a circuit breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerLimits {
    /// Fewer calls than this in ten seconds say nothing about a share of them: it does not open though
    /// half of them are bad.
    pub calls: u32,
    /// Connections that fail in a row and open it, however few calls there are.
    pub connections: u32,
    /// How long it stays open at first.
    pub pause: Duration,
    /// What that grows to, doubling while the server does not recover.
    pub pause_max: Duration,
}

impl BreakerLimits {
    /// Twenty calls, five connections, 1 s to 30 s.
    pub const DEFAULT: Self = Self {
        calls: 20,
        connections: 5,
        pause: Duration::from_secs(1),
        pause_max: Duration::from_secs(30),
    };
}

impl Default for BreakerLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What callers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// All calls go out.
    Closed,
    /// A few calls at a time try whether the server has recovered.
    HalfOpen,
    /// No call goes out.
    Open,
}

impl BreakerState {
    /// As metrics and logs name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
        }
    }
}

/// What a call says about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Verdict {
    /// It answered and has capacity; that it refused the request is no matter.
    Good,
    /// 429, 5xx or no answer in time.
    Bad,
    /// No connection, or one that broke.
    Unconnected,
    /// The call ended for reasons of ours.
    Unknown,
}

/// Whether a call may go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It may; its verdict is told with this epoch.
    Go(u64),
    /// The ramp is full: wait until a call has ended.
    Full,
    /// Not before this time.
    Refused(Instant),
}

#[derive(Debug)]
enum Phase {
    Closed {
        since: Instant,
        window: Window,
        unconnected: u32,
    },
    Open {
        until: Instant,
    },
    HalfOpen {
        /// Calls of this round of the ramp, and how many of them may go out yet.
        round: u32,
        left: u32,
        good: u32,
        /// When the first call of the ramp went well.
        proved: Option<Instant>,
    },
}

/// The breaker. Epochs tell calls of one phase from those of another: what went out before it opened
/// says nothing about a recovery.
#[derive(Debug)]
pub(super) struct Machine {
    phase: Phase,
    epoch: u64,
    /// The last pause, doubled by the next one unless it recovers.
    pause: Option<Duration>,
    limits: BreakerLimits,
}

impl Machine {
    /// Closed.
    pub(super) fn new(now: Instant, limits: BreakerLimits) -> Self {
        Self {
            limits,
            phase: Phase::closed(now),
            epoch: 0,
            pause: None,
        }
    }

    /// What callers are told at `now`.
    pub(super) fn state(&self, now: Instant) -> BreakerState {
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { until } if now < until => BreakerState::Open,
            Phase::Open { .. } | Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Until when it refuses calls, while open.
    pub(super) fn open_until(&self, now: Instant) -> Option<Instant> {
        match self.phase {
            Phase::Open { until } if now < until => Some(until),
            _ => None,
        }
    }

    /// A call asks to go out.
    pub(super) fn admit(&mut self, now: Instant) -> Admission {
        if let Phase::Open { until } = self.phase {
            if now < until {
                return Admission::Refused(until);
            }
            self.enter(Phase::round(1, None));
        }
        if let Phase::HalfOpen { left, .. } = &mut self.phase {
            if *left == 0 {
                return Admission::Full;
            }
            *left -= 1;
        }
        Admission::Go(self.epoch)
    }

    /// A call that was admitted in `epoch` has ended. `stretch` lengthens a pause by chance, so that
    /// replicas don't probe in step.
    pub(super) fn ended(
        &mut self,
        now: Instant,
        epoch: u64,
        verdict: Verdict,
        stretch: impl FnOnce(Duration) -> Duration,
    ) {
        if epoch != self.epoch {
            return;
        }
        match &mut self.phase {
            Phase::Closed {
                window,
                unconnected,
                ..
            } => {
                *unconnected = match verdict {
                    Verdict::Unconnected => *unconnected + 1,
                    Verdict::Good => 0,
                    Verdict::Bad | Verdict::Unknown => *unconnected,
                };
                if verdict != Verdict::Unknown {
                    window.count(now, verdict != Verdict::Good);
                }
                if *unconnected >= self.limits.connections || window.is_bad(now, self.limits.calls)
                {
                    self.open(now, stretch);
                }
            }
            Phase::Open { .. } => {}
            Phase::HalfOpen {
                round,
                left,
                good,
                proved,
            } => match verdict {
                Verdict::Bad | Verdict::Unconnected => self.open(now, stretch),
                // It proved nothing: another may go out in its place.
                Verdict::Unknown => *left += 1,
                Verdict::Good => {
                    *good += 1;
                    let proved = *proved.get_or_insert(now);
                    if *good < *round {
                        return;
                    }
                    let next = *round * 2;
                    if next > RAMP_TOP {
                        self.enter(Phase::closed(now));
                    } else {
                        self.enter(Phase::round(next, Some(proved)));
                    }
                }
            },
        }
    }

    /// The election lane, which is not behind it, had an answer; `again`: the first one after silence.
    ///
    /// That ends a pause, for the server is back. It does not when the lane had answers all the time: a
    /// server that is overloaded is to be left alone for as long as the pause says.
    pub(super) fn heard(&mut self, now: Instant, again: bool) {
        match self.phase {
            Phase::Open { .. } if again => self.enter(Phase::round(1, None)),
            Phase::HalfOpen {
                proved: Some(proved),
                ..
            } if now.saturating_duration_since(proved) >= SETTLED => {
                self.enter(Phase::closed(now));
            }
            _ => {}
        }
    }

    /// A call had no answer in time; which epoch it was of is not known any more.
    pub(super) fn timed_out(&mut self, now: Instant, stretch: impl FnOnce(Duration) -> Duration) {
        self.ended(now, self.epoch, Verdict::Bad, stretch);
    }

    fn open(&mut self, now: Instant, stretch: impl FnOnce(Duration) -> Duration) {
        let recovered = match self.phase {
            Phase::Closed { since, .. } => now.saturating_duration_since(since) >= RECOVERED,
            _ => false,
        };
        let pause = match self.pause {
            Some(last) if !recovered => (last * 2).min(self.limits.pause_max),
            _ => self.limits.pause,
        };
        self.pause = Some(pause);
        let until = now + stretch(pause);
        self.enter(Phase::Open { until });
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.epoch += 1;
    }
}

impl Phase {
    fn closed(since: Instant) -> Self {
        Self::Closed {
            since,
            window: Window::new(since),
            unconnected: 0,
        }
    }

    fn round(round: u32, proved: Option<Instant>) -> Self {
        Self::HalfOpen {
            round,
            left: round,
            good: 0,
            proved,
        }
    }
}

/// Calls of the last seconds, counted by the second, so that its size does not depend on their number.
#[derive(Debug)]
struct Window {
    began: Instant,
    /// (calls, bad ones), by second modulo `WINDOW`.
    seconds: [(u32, u32); WINDOW],
    /// The newest second that is counted.
    newest: u64,
}

impl Window {
    fn new(began: Instant) -> Self {
        Self {
            began,
            seconds: [(0, 0); WINDOW],
            newest: 0,
        }
    }

    fn count(&mut self, now: Instant, bad: bool) {
        let slot = self.turn_to(now);
        let (calls, bads) = &mut self.seconds[slot];
        *calls = calls.saturating_add(1);
        *bads = bads.saturating_add(u32::from(bad));
    }

    fn is_bad(&mut self, now: Instant, enough: u32) -> bool {
        self.turn_to(now);
        let sum = |(calls, bads): (u64, u64), (c, b): &(u32, u32)| {
            (calls + u64::from(*c), bads + u64::from(*b))
        };
        let (calls, bads) = self.seconds.iter().fold((0, 0), sum);
        calls >= u64::from(enough) && 2 * bads >= calls
    }

    /// Forgets what is older than the window. The slot of `now`.
    fn turn_to(&mut self, now: Instant) -> usize {
        let second = now.saturating_duration_since(self.began).as_secs();
        let slot = |second: u64| usize::try_from(second % WINDOW as u64).unwrap_or(0);
        for old in self.newest + 1..=second.min(self.newest + WINDOW as u64) {
            self.seconds[slot(old)] = (0, 0);
        }
        self.newest = self.newest.max(second);
        slot(self.newest)
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
