//! Chance from a seed.

/// SplitMix64: small, fast, and the same everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

/// Letters of generated names: no vowels, nothing that is mistaken for something else.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A UID (a version 4 UUID).
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 48) & 0x3fff,
            low & 0xffff_ffff_ffff
        )
    }

    /// Five letters behind a `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        (0..5)
            .map(|_| {
                let index = self.next() % NAME_LETTERS.len() as u64;
                char::from(NAME_LETTERS[usize::try_from(index).expect("below 27")])
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_again() {
        let (mut a, mut b) = (Dice::new(7), Dice::new(7));
        assert_eq!(a.uid(), b.uid());
        assert_eq!(a.suffix(), b.suffix());
        assert_ne!(a.uid(), a.uid());
        let uid = a.uid();
        assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
    }
}
