//! Things held under small numbers, and lists that link them by number: what leaves the middle of a
//! list costs no more than what leaves its end, and nothing is allocated per place.

use std::ops::{Index, IndexMut};

/// The number of a thing in a [`Slab`]; given to another once the thing is taken out.
pub(super) type Id = u32;

const NONE: Id = Id::MAX;

/// A slab that empties gives its memory back if it had grown beyond so many places: what a burst of
/// keys took is not held for ever, and a usual load allocates nothing.
pub(super) const KEPT: usize = 16 * 1024;

/// Things by number.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Place<T>>,
    /// The first vacant place; each names the next.
    vacant: Id,
    len: usize,
}

#[derive(Debug)]
enum Place<T> {
    Held(T),
    Vacant(Id),
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            vacant: NONE,
            len: 0,
        }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, thing: T) -> Id {
        self.len += 1;
        if let Some(place) = self.places.get_mut(self.vacant as usize) {
            let id = self.vacant;
            if let Place::Vacant(next) = *place {
                self.vacant = next;
            }
            *place = Place::Held(thing);
            return id;
        }
        let id = Id::try_from(self.places.len()).expect("memory ends before the numbers do");
        self.places.push(Place::Held(thing));
        id
    }

    /// Drops a thing.
    pub(super) fn remove(&mut self, id: Id) {
        self.places[id as usize] = Place::Vacant(self.vacant);
        self.vacant = id;
        self.len -= 1;
        if self.len == 0 && self.places.len() > KEPT {
            *self = Self::default();
        }
    }

    /// Things held.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl<T> Index<Id> for Slab<T> {
    type Output = T;

    fn index(&self, id: Id) -> &T {
        match &self.places[id as usize] {
            Place::Held(thing) => thing,
            Place::Vacant(_) => unreachable!("nothing is held as {id}"),
        }
    }
}

impl<T> IndexMut<Id> for Slab<T> {
    fn index_mut(&mut self, id: Id) -> &mut T {
        match &mut self.places[id as usize] {
            Place::Held(thing) => thing,
            Place::Vacant(_) => unreachable!("nothing is held as {id}"),
        }
    }
}

/// A thing's place in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    before: Id,
    after: Id,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            before: NONE,
            after: NONE,
        }
    }
}

/// A list of things of one slab. `links` says which of a thing's links are this list's.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: Id,
    last: Id,
}

impl Default for List {
    fn default() -> Self {
        Self {
            first: NONE,
            last: NONE,
        }
    }
}

impl List {
    pub(super) fn first(&self) -> Option<Id> {
        (self.first != NONE).then_some(self.first)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Puts a thing at the end.
    pub(super) fn push<T>(
        &mut self,
        slab: &mut Slab<T>,
        id: Id,
        links: impl Fn(&mut T) -> &mut Links,
    ) {
        *links(&mut slab[id]) = Links {
            before: self.last,
            after: NONE,
        };
        match self.last {
            NONE => self.first = id,
            last => links(&mut slab[last]).after = id,
        }
        self.last = id;
    }

    /// Takes a thing out, wherever it stands.
    pub(super) fn remove<T>(
        &mut self,
        slab: &mut Slab<T>,
        id: Id,
        links: impl Fn(&mut T) -> &mut Links,
    ) {
        let Links { before, after } = *links(&mut slab[id]);
        match before {
            NONE => self.first = after,
            before => links(&mut slab[before]).after = after,
        }
        match after {
            NONE => self.last = before,
            after => links(&mut slab[after]).before = before,
        }
    }

    /// Puts the first thing last.
    pub(super) fn rotate<T>(&mut self, slab: &mut Slab<T>, links: impl Fn(&mut T) -> &mut Links) {
        if self.first != self.last {
            let first = self.first;
            self.remove(slab, first, &links);
            self.push(slab, first, links);
        }
    }

    /// The things, first to last.
    pub(super) fn iter<'a, T>(
        &self,
        slab: &'a Slab<T>,
        links: impl Fn(&T) -> &Links + 'a,
    ) -> impl Iterator<Item = &'a T> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            if next == NONE {
                return None;
            }
            let thing = &slab[next];
            next = links(thing).after;
            Some(thing)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_what_was_pushed_less_what_was_removed() {
        let mut slab = Slab::default();
        let mut list = List::default();
        let mut order = Vec::new();
        let mut held = Vec::new();
        for round in 0..200_u32 {
            if round % 3 < 2 {
                let id = slab.insert((round, Links::default()));
                list.push(&mut slab, id, |thing| &mut thing.1);
                held.push((id, round));
                order.push(round);
            } else {
                let (id, number) = held.remove(round as usize * 7 % held.len());
                list.remove(&mut slab, id, |thing| &mut thing.1);
                assert_eq!(slab[id].0, number);
                slab.remove(id);
                order.retain(|other| *other != number);
            }
            let listed = list.iter(&slab, |thing| &thing.1).map(|thing| thing.0);
            assert_eq!(listed.collect::<Vec<_>>(), order);
            assert_eq!(
                (slab.len(), list.is_empty()),
                (order.len(), order.is_empty())
            );
        }
        assert!(slab.places.len() <= 80, "places are used again");
    }

    #[test]
    fn a_burst_is_not_held_for_ever() {
        let mut slab = Slab::default();
        let ids: Vec<_> = (0..=KEPT).map(|n| slab.insert(n)).collect();
        for id in ids {
            slab.remove(id);
        }
        assert_eq!(slab.places.capacity(), 0);
    }
}
