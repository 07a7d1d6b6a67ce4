//! Which Events are repeats, when their count is written, and which are one too many. Pure.
//!
//! Only a new Event takes a token of its object's [`Limit`]. A repeat takes none, other than client-go's:
//! a series that goes on for hours is neither silenced nor uses up what a new Event needs. What a series
//! may write is limited by the interval, and how many series an object has by its tokens.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::limit::Limit;
use super::{EventLimits, Published};

/// Series remembered; beyond, the one that was quiet longest is forgotten.
const SERIES_LIMIT: usize = 2000;

/// What to write: the Event if it is the first of its kind, else the new count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Act {
    pub(super) event: Published,
    pub(super) name: String,
    pub(super) count: u32,
}

/// Its object has had too many new Events. Nothing of it is remembered: the same Event is tried as a new
/// one next time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

#[derive(Debug)]
pub(super) struct Series {
    known: HashMap<Published, Known>,
    /// Of new Events.
    limit: Limit,
    /// A repeat within this time counts as one of the same series.
    window: Duration,
    /// A series' count is written at most this often.
    interval: Duration,
}

#[derive(Debug)]
struct Known {
    name: String,
    count: u32,
    /// The last repeat.
    last: Instant,
    written: Instant,
    /// The count was not written since it grew.
    held: bool,
}

impl Series {
    /// None known yet.
    pub(super) fn new(limits: &EventLimits) -> Self {
        Self {
            known: HashMap::new(),
            limit: Limit::new(limits),
            window: limits.window,
            interval: limits.interval,
        }
    }

    /// An Event was published. Returns what to write now; a repeat soon after the last write is held
    /// back, see [`take_due`](Self::take_due). `name` is for a new Event.
    pub(super) fn publish(
        &mut self,
        now: Instant,
        event: Published,
        name: String,
    ) -> Result<Option<Act>, TooMany> {
        if let Some(known) = self.known.get_mut(&event)
            && now - known.last < self.window
        {
            known.count += 1;
            known.last = now;
            known.held = true;
            if now - known.written < self.interval {
                return Ok(None);
            }
            return Ok(Some(known.act(&event, now)));
        }
        if !self.limit.take(now, &event) {
            return Err(TooMany);
        }
        self.make_room(now);
        let known = Known {
            name: name.clone(),
            count: 1,
            last: now,
            written: now,
            held: false,
        };
        self.known.insert(event.clone(), known);
        Ok(Some(Act {
            event,
            name,
            count: 1,
        }))
    }

    /// When the next count that was held back is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let held = self.known.values().filter(|known| known.held);
        held.map(|known| known.written + self.interval).min()
    }

    /// A count that was held back and is due at `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Act> {
        let interval = self.interval;
        let due = |known: &Known| known.held && known.written + interval <= now;
        let (event, known) = first(self.known.iter_mut().filter(|(_, known)| due(known)))?;
        Some(known.act(event, now))
    }

    /// A count that was held back, due or not.
    pub(super) fn take_held(&mut self) -> Option<Act> {
        let (event, known) = first(self.known.iter_mut().filter(|(_, known)| known.held))?;
        let written = known.written;
        Some(known.act(event, written))
    }

    fn make_room(&mut self, now: Instant) {
        if self.known.len() < SERIES_LIMIT {
            return;
        }
        self.known.retain(|_, known| now - known.last < self.window);
        if self.known.len() < SERIES_LIMIT {
            return;
        }
        let quietest = self
            .known
            .iter()
            .min_by_key(|(_, known)| (known.last, &known.name));
        if let Some(event) = quietest.map(|(event, _)| event.clone()) {
            self.known.remove(&event);
        }
    }
}

/// The one that was written longest ago.
fn first<'a>(
    known: impl Iterator<Item = (&'a Published, &'a mut Known)>,
) -> Option<(&'a Published, &'a mut Known)> {
    known.min_by(|(_, a), (_, b)| (a.written, &a.name).cmp(&(b.written, &b.name)))
}

impl Known {
    fn act(&mut self, event: &Published, now: Instant) -> Act {
        self.held = false;
        self.written = now;
        Act {
            event: event.clone(),
            name: self.name.clone(),
            count: self.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EventType, ObjectRef};
    use super::*;
    use crate::client::POD;

    const LIMITS: EventLimits = EventLimits::DEFAULT;

    fn event(note: &str) -> Published {
        Published {
            about: ObjectRef {
                resource: POD,
                namespace: "ns".to_owned(),
                name: "a".to_owned(),
                uid: "u".to_owned(),
            },
            kind: EventType::Normal,
            reason: "Reason".to_owned(),
            action: "Act".to_owned(),
            note: note.to_owned(),
        }
    }

    fn publish(series: &mut Series, now: Instant, note: &str) -> Option<u32> {
        let step = series.publish(now, event(note), String::new());
        step.unwrap().map(|act| act.count)
    }

    #[test]
    fn repeats_are_counted_and_the_count_is_written_now_and_then() {
        let mut series = Series::new(&LIMITS);
        let start = Instant::now();
        assert_eq!(publish(&mut series, start, "x"), Some(1));
        assert_eq!(
            publish(&mut series, start, "y"),
            Some(1),
            "another note is another Event"
        );
        for i in 1..=5 {
            assert_eq!(
                publish(&mut series, start + Duration::from_secs(i), "x"),
                None
            );
        }
        let due = series.next_due().unwrap();
        assert_eq!(due, start + LIMITS.interval);
        assert_eq!(series.take_due(due - Duration::from_secs(1)), None);
        assert_eq!(series.take_due(due).map(|act| act.count), Some(6));
        assert_eq!((series.take_due(due), series.next_due()), (None, None));
        assert_eq!(publish(&mut series, due + LIMITS.interval, "x"), Some(7));
        assert_eq!(publish(&mut series, due + LIMITS.interval, "x"), None);
        assert_eq!(series.take_held().map(|act| act.count), Some(8));
        let later = due + LIMITS.interval + LIMITS.window;
        assert_eq!(publish(&mut series, later, "x"), Some(1), "a new series");
    }

    #[test]
    fn window_and_interval_are_those_that_are_asked_for() {
        let second = Duration::from_secs(1);
        let limits = EventLimits {
            interval: second,
            window: 5 * second,
            ..LIMITS
        };
        let (mut series, start) = (Series::new(&limits), Instant::now());
        assert_eq!(publish(&mut series, start, "x"), Some(1));
        assert_eq!(publish(&mut series, start + second / 2, "x"), None);
        assert_eq!(publish(&mut series, start + second, "x"), Some(3));
        assert_eq!(publish(&mut series, start + 6 * second, "x"), Some(1));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut series = Series::new(&EventLimits {
            refill: Duration::ZERO,
            ..LIMITS
        });
        let now = Instant::now();
        for i in 0..SERIES_LIMIT + 50 {
            publish(&mut series, now, &i.to_string());
        }
        assert_eq!(series.known.len(), SERIES_LIMIT);
        publish(&mut series, now + LIMITS.window, "later");
        assert_eq!(series.known.len(), 1);
    }

    #[test]
    fn a_series_goes_on_when_new_events_are_too_many_and_uses_up_nothing_of_theirs() {
        let limits = EventLimits { burst: 2, ..LIMITS };
        let (mut series, start) = (Series::new(&limits), Instant::now());
        let mut now = start;
        for count in 1..=20 {
            assert_eq!(publish(&mut series, now, "goes on"), Some(count));
            now += LIMITS.interval;
        }
        assert_eq!(publish(&mut series, now, "new"), Some(1));
        for _ in 0..2 {
            let dropped = series.publish(now, event("too many"), String::new());
            assert_eq!(dropped, Err(TooMany), "and not held, whatever comes of it");
        }
        assert_eq!(publish(&mut series, now, "goes on"), Some(21));
        assert_eq!(series.next_due(), None);
        let later = start + LIMITS.refill;
        assert_eq!(publish(&mut series, later, "too many"), Some(1));
    }
}
