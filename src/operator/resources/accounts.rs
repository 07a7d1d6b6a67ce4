//! Passwords of accounts, and what is derived from them.

use std::fmt::Write as _;

use crate::client::Environment;

/// Characters of a random password: 24 of 62 letters and digits are 142 bits.
const LENGTH: usize = 24;
/// Longest password that MySQL takes for replication (error 3056 beyond).
pub(super) const MAX_REPLICATION_PASSWORD: usize = 32;

const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Letters and digits, `count` of them: nothing that a shell, a URI or an option file changes.
pub(super) fn random(count: usize, environment: &Environment) -> String {
    let mut text = String::with_capacity(count);
    let mut bytes = [0_u8; 64];
    while text.len() < count {
        environment.fill(&mut bytes);
        // 248 is the last multiple of 62: each character is as likely as another.
        let fair = bytes.iter().filter(|byte| **byte < 248);
        text.extend(
            fair.map(|byte| char::from(ALPHABET[usize::from(byte % 62)]))
                .take(count - text.len()),
        );
    }
    text
}

/// A random password.
pub(super) fn password(environment: &Environment) -> String {
    random(LENGTH, environment)
}

/// `mysql://USER:PASSWORD@HOST:PORT/DATABASE`.
pub(super) fn uri(username: &str, password: &str, host: &str, port: u16, database: &str) -> String {
    format!(
        "mysql://{}:{}@{host}:{port}/{}",
        escaped(username),
        escaped(password),
        escaped(database)
    )
}

/// Percent-encoded but for what RFC 3986 leaves as it is.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a String can't fail");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_random_and_plain() {
        let environment = Environment::system();
        let (a, b) = (password(&environment), password(&environment));
        assert_ne!(a, b);
        assert_eq!(a.len(), LENGTH);
        assert!(a.len() <= MAX_REPLICATION_PASSWORD);
        assert!(a.bytes().all(|byte| ALPHABET.contains(&byte)));
        assert_eq!(random(1000, &environment).len(), 1000);
    }

    #[test]
    fn a_uri_survives_any_password() {
        assert_eq!(
            uri("app", "a:b@c/é", "h", 3306, "d b"),
            "mysql://app:a%3Ab%40c%2F%C3%A9@h:3306/d%20b"
        );
    }
}
