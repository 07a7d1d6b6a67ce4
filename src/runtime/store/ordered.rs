//! The objects of a namespace in the order of their names, such that a reader takes them all at once.
//!
//! They stand in chunks that readers and the writer share. A reader holds on to the list of chunks,
//! which costs it nothing; the writer then copies that list and the one chunk that it changes (of
//! pointers, no object). So neither waits for the other longer than that takes, however many objects
//! there are, and a read is as cheap for a hundred thousand objects as for ten.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::runtime::Kind;

/// Objects of a full chunk: to copy it takes a microsecond or two, and a namespace of 100 000 has a
/// list of 800 chunks.
const CHUNK: usize = 128;
/// Chunks that are emptier than this are joined with their neighbour, if both fit in three quarters.
const SPARSE: usize = CHUNK / 4;

type Chunk<K> = Arc<Vec<Arc<K>>>;

/// Never empty but at its very beginning; no chunk is.
pub(super) struct Ordered<K> {
    chunks: Arc<Vec<Chunk<K>>>,
    len: usize,
}

impl<K> Default for Ordered<K> {
    fn default() -> Self {
        Self {
            chunks: Arc::default(),
            len: 0,
        }
    }
}

impl<K: Kind> Ordered<K> {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Takes `object` in, instead of one of the same name.
    pub(super) fn insert(&mut self, object: Arc<K>) {
        let (at, within) = self.find(&object.meta().name);
        let chunks = Arc::make_mut(&mut self.chunks);
        match within {
            Ok(within) => Arc::make_mut(&mut chunks[at])[within] = object,
            Err(within) => {
                self.len += 1;
                add(chunks, at, within, object);
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        let (at, Ok(within)) = self.find(name) else {
            return;
        };
        self.len -= 1;
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(&mut chunks[at]);
        chunk.remove(within);
        if chunk.is_empty() {
            chunks.remove(at);
        } else if chunk.len() < SPARSE {
            join(chunks, at);
        }
    }

    /// All of them, as they are now.
    pub(super) fn snapshot(&self) -> Objects<K> {
        Objects {
            parts: vec![Arc::clone(&self.chunks)],
            len: self.len,
        }
    }

    /// The chunk that has the name, or should have it, and where in it.
    fn find(&self, name: &str) -> (usize, Result<usize, usize>) {
        let Some(last) = self.chunks.last() else {
            return (0, Err(0));
        };
        // What is listed comes in order.
        if last.last().is_some_and(|o| *o.meta().name < *name) {
            return (self.chunks.len() - 1, Err(last.len()));
        }
        let before = |chunk: &Chunk<K>| chunk.last().is_some_and(|o| *o.meta().name < *name);
        let at = self.chunks.partition_point(before);
        let within = self.chunks[at].binary_search_by(|o| (*o.meta().name).cmp(name));
        (at, within)
    }
}

/// Puts `object` into the chunk `at`, which is divided if it is full.
fn add<K>(chunks: &mut Vec<Chunk<K>>, at: usize, within: usize, object: Arc<K>) {
    if chunks.is_empty() {
        chunks.push(Arc::new(vec![object]));
        return;
    }
    if chunks[at].len() < CHUNK {
        Arc::make_mut(&mut chunks[at]).insert(within, object);
    } else if within == CHUNK && at + 1 == chunks.len() {
        // What comes in order leaves full chunks behind.
        chunks.push(Arc::new(vec![object]));
    } else {
        let first = Arc::make_mut(&mut chunks[at]);
        let mut second = first.split_off(CHUNK / 2);
        match within.cmp(&(CHUNK / 2)) {
            Ordering::Less | Ordering::Equal => first.insert(within, object),
            Ordering::Greater => second.insert(within - CHUNK / 2, object),
        }
        chunks.insert(at + 1, Arc::new(second));
    }
}

/// Joins the sparse chunk `at` with a neighbour, if one has room.
fn join<K>(chunks: &mut Vec<Chunk<K>>, at: usize) {
    for left in [at.wrapping_sub(1), at] {
        let (Some(a), Some(b)) = (chunks.get(left), chunks.get(left.wrapping_add(1))) else {
            continue;
        };
        if a.len() + b.len() <= CHUNK * 3 / 4 {
            let right = chunks.remove(left + 1);
            let joined = Arc::make_mut(&mut chunks[left]);
            joined.extend(right.iter().cloned());
            joined.shrink_to_fit();
            return;
        }
    }
}

/// Objects as they were at one moment, ordered by key. Cheap to make, to clone and to hold: it shares
/// what the store has, and only keeps the memory of what has since changed.
pub struct Objects<K> {
    /// One a namespace.
    parts: Vec<Arc<Vec<Chunk<K>>>>,
    len: usize,
}

impl<K> Objects<K> {
    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The objects, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.parts
            .iter()
            .flat_map(|part| part.iter())
            .flat_map(|chunk| chunk.iter())
    }

    /// Adds what comes after.
    pub(super) fn append(&mut self, other: Self) {
        self.parts.extend(other.parts);
        self.len += other.len;
    }
}

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            len: 0,
        }
    }
}

impl<K> Clone for Objects<K> {
    fn clone(&self) -> Self {
        Self {
            parts: self.parts.clone(),
            len: self.len,
        }
    }
}

impl<K: std::fmt::Debug> std::fmt::Debug for Objects<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<K> IntoIterator for Objects<K> {
    type Item = Arc<K>;
    type IntoIter = IntoIter<K>;

    fn into_iter(self) -> IntoIter<K> {
        IntoIter {
            left: self.len,
            objects: self,
            part: 0,
            chunk: 0,
            at: 0,
        }
    }
}

/// The objects of [`Objects`], ordered by key.
pub struct IntoIter<K> {
    objects: Objects<K>,
    /// Where the next one is.
    part: usize,
    chunk: usize,
    at: usize,
    left: usize,
}

impl<K> Iterator for IntoIter<K> {
    type Item = Arc<K>;

    fn next(&mut self) -> Option<Arc<K>> {
        loop {
            let part = self.objects.parts.get(self.part)?;
            let Some(chunk) = part.get(self.chunk) else {
                (self.part, self.chunk) = (self.part + 1, 0);
                continue;
            };
            if let Some(object) = chunk.get(self.at) {
                self.at += 1;
                self.left -= 1;
                return Some(Arc::clone(object));
            }
            (self.chunk, self.at) = (self.chunk + 1, 0);
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K> ExactSizeIterator for IntoIter<K> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::testing::{Thing, thing};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn name(n: usize) -> String {
        format!("thing-{n:04}")
    }

    fn names(objects: &Objects<Thing>) -> Vec<String> {
        objects
            .iter()
            .map(|o| o.metadata.name.to_string())
            .collect()
    }

    fn filled(order: impl Iterator<Item = usize>) -> Ordered<Thing> {
        let mut ordered = Ordered::default();
        for n in order {
            ordered.insert(Arc::new(thing("ns", &name(n), "u", 1)));
        }
        ordered
    }

    #[test]
    fn what_comes_in_order_leaves_full_chunks() {
        let ordered = filled(0..4 * CHUNK);
        assert!(ordered.chunks.iter().all(|chunk| chunk.len() == CHUNK));
        let shuffled = filled((0..4 * CHUNK).map(|n| n * 101 % (4 * CHUNK)));
        assert_eq!(names(&shuffled.snapshot()), names(&ordered.snapshot()));
    }

    #[test]
    fn kk_130767_a_reader_that_holds_all_costs_the_writer_one_chunk() {
        let mut ordered = filled(0..10 * CHUNK);
        let before = ordered.snapshot();
        ordered.insert(Arc::new(thing("ns", &name(5), "u", 2)));
        let after = ordered.snapshot();
        let pairs = before.parts[0].iter().zip(after.parts[0].iter());
        let copied = pairs.filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
        assert_eq!(copied, 1);
        let value = |objects: &Objects<Thing>| objects.iter().nth(5).unwrap().value;
        assert_eq!((value(&before), value(&after)), (1, 2));
    }

    #[test]
    fn what_becomes_sparse_is_joined() {
        let mut ordered = filled(0..10 * CHUNK);
        for n in (0..10 * CHUNK).filter(|n| n % 16 != 0) {
            ordered.remove(&name(n));
        }
        assert_eq!(ordered.snapshot().len(), 80);
        assert!(ordered.chunks.len() <= 3, "{}", ordered.chunks.len());
        for n in 0..10 * CHUNK {
            ordered.remove(&name(n));
        }
        assert!(ordered.is_empty() && ordered.chunks.is_empty());
    }

    proptest! {
        #[test]
        fn they_are_what_a_sorted_map_holds(
            steps in proptest::collection::vec((any::<bool>(), 0..600_usize), 0..2000),
            begin in 0..600_usize,
        ) {
            let mut ordered = filled(0..begin);
            let mut map: BTreeMap<_, _> = (0..begin).map(|n| (name(n), 1)).collect();
            for (version, (add, n)) in (2..).zip(steps) {
                if add {
                    ordered.insert(Arc::new(thing("ns", &name(n), "u", version)));
                    map.insert(name(n), version);
                } else {
                    ordered.remove(&name(n));
                    map.remove(&name(n));
                }
            }
            let snapshot = ordered.snapshot();
            let held = |o: &Arc<Thing>| (o.metadata.name.to_string(), o.value);
            prop_assert_eq!(snapshot.len(), map.len());
            prop_assert!(snapshot.iter().map(held).eq(map.clone()));
            prop_assert!(snapshot.into_iter().map(|o| held(&o)).eq(map));
        }
    }
}
