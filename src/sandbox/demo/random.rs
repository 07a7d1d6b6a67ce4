//! Names and secrets that nobody guesses.

use std::fmt::Write as _;

/// `N` random bytes.
pub(super) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

/// `N` random bytes, in hexadecimal.
pub(super) fn hex<const N: usize>() -> String {
    bytes::<N>().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
