//! What texts must be like, and what to say where they are not. Pure.

use crate::runtime::LegacyLock;

/// Anything.
#[allow(clippy::unnecessary_wraps)] // as the other rules
pub(super) fn any(_: &str) -> Result<(), String> {
    Ok(())
}

/// A namespace's name.
pub(super) fn label(text: &str) -> Result<(), String> {
    if text.len() > 63 || text.contains('.') {
        return Err(format!(
            "{text:?} is no namespace's name: a-z, 0-9 and -, at most 63 of them"
        ));
    }
    subdomain(text)
}

/// An object's name.
pub(super) fn subdomain(text: &str) -> Result<(), String> {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let outer = |c: Option<&u8>| c.is_some_and(|c| inner(*c) && *c != b'-');
    let part =
        |part: &[u8]| outer(part.first()) && outer(part.last()) && part.iter().all(|c| inner(*c));
    if text.len() <= 253 && text.as_bytes().split(|c| *c == b'.').all(part) {
        Ok(())
    } else {
        Err(format!(
            "{text:?} is no name of an object: a-z, 0-9 and -, a letter or digit first and last"
        ))
    }
}

/// A lock that former versions used, or nothing.
pub(super) fn legacy_lock(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    text.parse::<LegacyLock>().map(drop)
}

/// A container image.
pub(super) fn image(text: &str) -> Result<(), String> {
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err(format!(
            "{text:?} is no image, such as docker.io/library/mainstay:dev"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_kubernetes_takes() {
        for good in ["a", "team-1", "2024-prod"] {
            assert_eq!((label(good), subdomain(good)), (Ok(()), Ok(())), "{good}");
        }
        assert!(label("a.b").is_err() && subdomain("a.b").is_ok());
        for bad in ["", "-a", "a-", "A", "a_b", "a..b", "ä", &"a".repeat(254)] {
            assert!(label(bad).is_err() && subdomain(bad).is_err(), "{bad}");
        }
        assert!(image("a b").is_err() && image("").is_err() && image("a/b:c@sha256:0").is_ok());
    }
}
