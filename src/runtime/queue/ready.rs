//! The keys that are ready, in the order they are handed out: by priority, then first come.

use std::collections::VecDeque;

use super::Priority;
use crate::runtime::ObjectKey;

/// Of the places of a level this many may be left behind before it is tidied.
const LEFT_BEHIND: usize = 64;

/// A queue for each priority. A key that leaves its place other than by being handed out (it rises)
/// leaves a place behind that no entry knows of: whoever reads a place asks whether it still holds.
#[derive(Debug, Default)]
pub(super) struct Ready {
    levels: [Level; 3],
}

#[derive(Debug, Default)]
struct Level {
    places: VecDeque<(u64, ObjectKey)>,
    /// Places that hold.
    live: usize,
}

impl Ready {
    /// Keys that are ready.
    pub(super) fn len(&self) -> usize {
        self.levels.iter().map(|level| level.live).sum()
    }

    /// Puts a key at the end of its priority. Tickets rise.
    pub(super) fn push(&mut self, priority: Priority, ticket: u64, key: ObjectKey) {
        let level = &mut self.levels[priority as usize];
        level.places.push_back((ticket, key));
        level.live += 1;
    }

    /// A place of this priority does not hold any more.
    pub(super) fn leave(&mut self, priority: Priority, holds: impl Fn(u64, &ObjectKey) -> bool) {
        let level = &mut self.levels[priority as usize];
        level.live -= 1;
        if level.places.len() > 2 * level.live + LEFT_BEHIND {
            level.places.retain(|(ticket, key)| holds(*ticket, key));
        }
    }

    /// The first key of this priority.
    pub(super) fn first(
        &mut self,
        priority: Priority,
        holds: impl Fn(u64, &ObjectKey) -> bool,
    ) -> Option<&ObjectKey> {
        let level = &mut self.levels[priority as usize];
        while let Some((ticket, key)) = level.places.front() {
            if holds(*ticket, key) {
                break;
            }
            level.places.pop_front();
        }
        level.places.front().map(|(_, key)| key)
    }

    /// Takes out the key that [`first`](Self::first) of this priority gives.
    pub(super) fn pop(&mut self, priority: Priority) -> Option<ObjectKey> {
        let level = &mut self.levels[priority as usize];
        let (_, key) = level.places.pop_front()?;
        level.live -= 1;
        Some(key)
    }

    /// The highest priority that a key is ready at.
    pub(super) fn highest(&self) -> Option<Priority> {
        [Priority::High, Priority::Normal, Priority::Low]
            .into_iter()
            .find(|priority| self.levels[*priority as usize].live > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn keys_that_rise_leave_no_heap_of_places_behind() {
        let mut ready = Ready::default();
        let mut tickets = HashMap::new();
        for ticket in (0..10_000).step_by(2) {
            let key = ObjectKey::new("ns", "busy");
            ready.push(Priority::Low, ticket, key.clone());
            ready.push(Priority::High, ticket + 1, key.clone());
            tickets.insert(key, ticket + 1);
            let holds = |ticket, key: &ObjectKey| tickets.get(key) == Some(&ticket);
            ready.leave(Priority::Low, holds);
            assert_eq!(ready.len(), 1);
            assert!(ready.first(Priority::Low, holds).is_none());
            assert_eq!(ready.highest(), Some(Priority::High));
            assert!(ready.first(Priority::High, holds).is_some());
            assert!(ready.pop(Priority::High).is_some());
        }
        // The same when nobody looks at the lower level.
        for ticket in (0..10_000).step_by(2) {
            let key = ObjectKey::new("ns", "busy");
            ready.push(Priority::Low, ticket, key);
            ready.leave(Priority::Low, |_, _| false);
            assert!(ready.levels[0].places.len() <= LEFT_BEHIND + 1);
        }
        assert_eq!(ready.len(), 0);
    }
}
