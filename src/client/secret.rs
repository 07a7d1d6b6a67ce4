//! A value that must not reach a log, an error message or a debug print.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A token, password or private key. It can't be printed: `Debug` shows a placeholder and there is
/// no `Display`; whoever sends it on the wire asks for it by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself: for a header, a TLS handshake or a file, never for a message.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

impl<'de> Deserialize<'de> for Secret {
    /// Accepts a string only, and never quotes what it found instead (serde's own errors do).
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SecretVisitor;
        impl Visitor<'_> for SecretVisitor {
            type Value = Secret;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Secret, E> {
                Ok(Secret::new(value))
            }
            fn visit_string<E: de::Error>(self, value: String) -> Result<Secret, E> {
                Ok(Secret(value))
            }
            fn visit_bool<E: de::Error>(self, _: bool) -> Result<Secret, E> {
                Err(E::custom("expected a string; put the value in quotes"))
            }
            fn visit_i64<E: de::Error>(self, _: i64) -> Result<Secret, E> {
                Err(E::custom("expected a string; put the value in quotes"))
            }
            fn visit_u64<E: de::Error>(self, _: u64) -> Result<Secret, E> {
                Err(E::custom("expected a string; put the value in quotes"))
            }
            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Secret, E> {
                Err(E::custom("expected a string; put the value in quotes"))
            }
        }
        deserializer.deserialize_any(SecretVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("hunter2");
        assert_eq!(
            format!("{secret:?} {:#?}", Some(&secret)).find("hunter2"),
            None
        );
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn an_unquoted_number_is_refused_without_being_quoted_back() {
        let error = serde_json::from_str::<Secret>("123456").unwrap_err();
        let error = error.to_string();
        assert!(error.contains("put the value in quotes"), "{error}");
        assert!(!error.contains("123456"), "{error}");
    }
}
