//! Labels and annotations, packed.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Pairs of text, each key once, ordered by key: an object's labels or annotations.
///
/// A cache holds them for each object, so they are one allocation of little more than their text; a
/// `BTreeMap` takes 544 bytes for its first pair, and an allocation for each key and value. They are
/// looked through from the start, which for the few that an object has is as fast as a search.
/// To change them costs as much as to make them anew.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Of each pair: the lengths of key and value (see [`push_length`]), the key, the value.
    packed: Box<str>,
}

impl Pairs {
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| *k == key).map(|(_, v)| v)
    }

    /// Whether there is a value of `key`.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The pairs, ordered by key.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { rest: &self.packed }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Sets the value of `key`.
    pub fn insert(&mut self, key: &str, value: &str) {
        *self = self.iter().chain([(key, value)]).collect();
    }

    /// Removes `key` and its value.
    pub fn remove(&mut self, key: &str) {
        *self = self.iter().filter(|(k, _)| *k != key).collect();
    }

    /// Removes all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.packed.len()
    }

    /// Decodes those whose key `keeps` says to keep; of the others nothing is ever held.
    pub(super) fn some<'de, D: Deserializer<'de>>(
        from: D,
        keeps: fn(&str) -> bool,
    ) -> Result<Self, D::Error> {
        from.deserialize_any(Reader { keeps })
    }
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<'a> IntoIterator for &'a Pairs {
    type Item = (&'a str, &'a str);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Of several values of a key the last counts.
impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut packer = Packer::default();
        for (key, value) in pairs {
            packer.push(key.as_ref(), value.as_ref());
        }
        packer.finish()
    }
}

impl<K: AsRef<str>, V: AsRef<str>> Extend<(K, V)> for Pairs {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            self.insert(key.as_ref(), value.as_ref());
        }
    }
}

impl<K: AsRef<str>, V: AsRef<str>, const N: usize> From<[(K, V); N]> for Pairs {
    fn from(pairs: [(K, V); N]) -> Self {
        pairs.into_iter().collect()
    }
}

/// The pairs of [`Pairs`], ordered by key.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (key, value) = (self.length(), self.length());
        let (key, rest) = self.rest.split_at(key);
        let (value, rest) = rest.split_at(value);
        self.rest = rest;
        Some((key, value))
    }
}

impl Iter<'_> {
    /// Takes a length off.
    fn length(&mut self) -> usize {
        let (mut length, mut shift) = (0, 0);
        let mut chars = self.rest.chars();
        for digit in chars.by_ref() {
            let digit = digit as usize;
            length |= (digit % BASE) << shift;
            shift += BITS;
            if digit < BASE {
                break;
            }
        }
        self.rest = chars.as_str();
        length
    }
}

/// Bits of a digit of a length.
const BITS: u32 = 14;
const BASE: usize = 1 << BITS;

/// Writes a length as characters, so that text and lengths share one `str`: digits to the base 2^14,
/// the lowest first, all but the last one plus 2^14. Up to 127 that is one byte.
fn push_length(packed: &mut String, mut length: usize) {
    loop {
        let more = length >= BASE;
        let digit = length % BASE + if more { BASE } else { 0 };
        let digit = u32::try_from(digit).ok().and_then(char::from_u32);
        packed.push(digit.expect("2^15 is below the surrogates"));
        if !more {
            return;
        }
        length >>= BITS;
    }
}

/// Packs pairs, which mostly come in order: so servers write them.
#[derive(Default)]
struct Packer {
    packed: String,
    /// Where the last key is.
    last: std::ops::Range<usize>,
    disordered: bool,
}

/// Room for the usual few.
const USUAL: usize = 160;

impl Packer {
    fn push(&mut self, key: &str, value: &str) {
        if self.packed.is_empty() {
            self.packed.reserve(USUAL);
        } else {
            self.disordered |= key <= &self.packed[self.last.clone()];
        }
        push_length(&mut self.packed, key.len());
        push_length(&mut self.packed, value.len());
        self.last = self.packed.len()..self.packed.len() + key.len();
        self.packed.push_str(key);
        self.packed.push_str(value);
    }

    fn finish(self) -> Pairs {
        let packed = self.packed.into_boxed_str();
        if !self.disordered {
            return Pairs { packed };
        }
        let loose = Pairs { packed };
        // A map keeps the last of several.
        let pairs: std::collections::BTreeMap<_, _> = loose.iter().collect();
        pairs.into_iter().collect()
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::some(from, |_| true)
    }
}

struct Reader {
    keeps: fn(&str) -> bool,
}

impl<'de> Visitor<'de> for Reader {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_unit<E>(self) -> Result<Pairs, E> {
        Ok(Pairs::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut packer = Packer::default();
        while let Some(Text(key)) = map.next_key()? {
            if (self.keeps)(&key) {
                let Text(value) = map.next_value()?;
                packer.push(&key, &value);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(packer.finish())
    }
}

/// A string where it stands in the input, if it stands there as it is.
struct Text<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn they_are_read_and_changed_as_a_map() {
        let mut labels = Pairs::from([("b", "2"), ("a", "1"), ("b", "3")]);
        assert_eq!(format!("{labels:?}"), r#"{"a": "1", "b": "3"}"#);
        assert_eq!((labels.get("b"), labels.get("c")), (Some("3"), None));
        labels.insert("aa", "");
        labels.remove("b");
        assert!(labels.contains_key("aa") && labels.len() == 2);
        labels.clear();
        assert!(labels.is_empty() && labels == Pairs::default());
    }

    #[test]
    fn none_may_be_null_and_what_is_no_text_is_refused() {
        let read = |json: &str| serde_json::from_str::<Pairs>(json);
        assert!(read("null").unwrap().is_empty());
        assert_eq!(read(r#"{"a\n":"\u0000"}"#).unwrap().get("a\n"), Some("\0"));
        assert!(read(r#"{"a":1}"#).is_err());
        assert!(read(r#"["a"]"#).is_err());
    }

    #[test]
    fn a_long_value_is_held_whole() {
        // More than an API server takes for all annotations together.
        for length in [127, 128, 16_383, 16_384, 262_144, 1_000_000] {
            let value = "ä".repeat(length / 2);
            let pairs = Pairs::from([("a", value.as_str()), ("b", "c")]);
            assert_eq!(pairs.get("a"), Some(value.as_str()));
            assert_eq!(pairs.get("b"), Some("c"));
        }
    }

    proptest! {
        #[test]
        fn they_are_what_a_map_would_be(pairs in proptest::collection::vec((".{0,3}", ".{0,200}"), 0..12)) {
            let map: BTreeMap<_, _> = pairs.iter().cloned().collect();
            let packed: Pairs = pairs.iter().map(|(k, v)| (k, v)).collect();
            prop_assert!(packed.iter().eq(map.iter().map(|(k, v)| (&**k, &**v))));
            let json = serde_json::to_string(&map).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Pairs>(&json).unwrap(), &packed);
            let even = |key: &str| key.len().is_multiple_of(2);
            let some = Pairs::some(&mut serde_json::Deserializer::from_str(&json), even).unwrap();
            let kept = map.iter().filter(|(k, _)| even(k)).map(|(k, v)| (&**k, &**v));
            prop_assert!(some.iter().eq(kept));
        }
    }
}
