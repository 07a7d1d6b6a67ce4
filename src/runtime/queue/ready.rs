//! The keys that are ready, in the order they are handed out: by priority, then the namespaces in
//! turn, then first come.

use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;
use tokio::time::Instant;

use super::Priority;
use super::entries::{Entries, Hashes, Place};
use super::linked::{Id, Links, List, Slab};
use crate::runtime::ObjectKey;

/// A level for each priority, and in it a line for each namespace. The namespaces with keys take
/// turns: one that comes new waits for one key of each other, however many those have.
#[derive(Debug, Default)]
pub(super) struct Ready {
    levels: [Level; 3],
    len: usize,
    lanes: Slab<Lane>,
    index: HashTable<Id>,
}

#[derive(Debug, Default)]
struct Level {
    /// Lanes with keys of this priority; the first has its turn.
    turns: List,
    /// All keys of this priority, in the order they became ready.
    ages: List,
}

/// A namespace of which an entry exists.
#[derive(Debug)]
struct Lane {
    namespace: Arc<str>,
    hash: u64,
    /// Its entries, ready or not: with the last the lane goes.
    entries: usize,
    lines: [Line; 3],
}

#[derive(Debug, Default)]
struct Line {
    keys: List,
    /// Place among the level's turns, while there are keys.
    turn: Links,
}

impl Ready {
    /// Keys that are ready.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The lane of a new entry's namespace.
    pub(super) fn join(&mut self, key: &ObjectKey, hashes: Hashes) -> Id {
        let (lanes, hash) = (&self.lanes, hashes.namespace);
        let same = |id: &Id| lanes[*id].namespace == key.namespace;
        let slot = match self.index.entry(hash, same, |id| lanes[*id].hash) {
            Slot::Occupied(slot) => {
                let id = *slot.get();
                self.lanes[id].entries += 1;
                return id;
            }
            Slot::Vacant(slot) => slot,
        };
        let id = self.lanes.insert(Lane {
            namespace: Arc::clone(&key.namespace),
            hash,
            entries: 1,
            lines: Default::default(),
        });
        slot.insert(id);
        id
    }

    /// An entry of the lane is gone.
    pub(super) fn quit(&mut self, id: Id) {
        let lane = &mut self.lanes[id];
        lane.entries -= 1;
        if lane.entries > 0 {
            return;
        }
        let hash = lane.hash;
        if let Ok(slot) = self.index.find_entry(hash, |other| *other == id) {
            slot.remove();
        }
        self.lanes.remove(id);
    }

    /// Puts a key at the end of the line of its namespace and priority.
    pub(super) fn push(&mut self, entries: &mut Entries, id: Id) {
        let entry = &entries[id];
        let (lane, at) = (entry.lane, entry.priority as usize);
        let level = &mut self.levels[at];
        if self.lanes[lane].lines[at].keys.is_empty() {
            level
                .turns
                .push(&mut self.lanes, lane, |lane| &mut lane.lines[at].turn);
        }
        let line = &mut self.lanes[lane].lines[at];
        line.keys
            .push(&mut entries.slab, id, |entry| &mut entry.turn);
        level
            .ages
            .push(&mut entries.slab, id, |entry| &mut entry.age);
        self.len += 1;
    }

    /// Takes a key out of its line: call before its priority changes.
    pub(super) fn remove(&mut self, entries: &mut Entries, id: Id) {
        let entry = &entries[id];
        let (lane, at) = (entry.lane, entry.priority as usize);
        let level = &mut self.levels[at];
        let line = &mut self.lanes[lane].lines[at];
        line.keys
            .remove(&mut entries.slab, id, |entry| &mut entry.turn);
        level
            .ages
            .remove(&mut entries.slab, id, |entry| &mut entry.age);
        if line.keys.is_empty() {
            level
                .turns
                .remove(&mut self.lanes, lane, |lane| &mut lane.lines[at].turn);
        }
        self.len -= 1;
    }

    /// Takes out the first key of the namespace whose turn it is.
    pub(super) fn pop(&mut self, entries: &mut Entries, priority: Priority) -> Option<Id> {
        let at = priority as usize;
        let lane = self.levels[at].turns.first()?;
        let id = self.lanes[lane].lines[at].keys.first()?;
        self.remove(entries, id);
        if !self.lanes[lane].lines[at].keys.is_empty() {
            let turns = &mut self.levels[at].turns;
            turns.rotate(&mut self.lanes, |lane| &mut lane.lines[at].turn);
        }
        Some(id)
    }

    /// Since when the key that waits longest at a priority has been ready.
    pub(super) fn oldest(&self, entries: &Entries, priority: Priority) -> Option<Instant> {
        let first = self.levels[priority as usize].ages.first()?;
        match entries[first].place {
            Place::Ready { since } => Some(since),
            _ => None,
        }
    }

    /// Since when the key that waits longest has been ready.
    pub(super) fn longest(&self, entries: &Entries) -> Option<Instant> {
        let levels = [Priority::High, Priority::Normal, Priority::Low];
        let oldest = levels.map(|level| self.oldest(entries, level));
        oldest.into_iter().flatten().min()
    }

    /// The highest priority that a key is ready at.
    pub(super) fn highest(&self) -> Option<Priority> {
        [Priority::High, Priority::Normal, Priority::Low]
            .into_iter()
            .find(|priority| !self.levels[*priority as usize].turns.is_empty())
    }

    /// Namespaces that something is remembered of.
    #[cfg(test)]
    pub(super) fn namespaces(&self) -> usize {
        self.lanes.len()
    }
}
