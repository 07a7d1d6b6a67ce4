//! The only place that knows `serde_yaml` (deprecated upstream, so it must be easy to replace).

use serde::de::DeserializeOwned;

/// Reads one YAML document; an empty one gives `None`.
///
/// # Errors
/// The parser's words with key path, line and column, and without the offending value, which may be
/// a secret.
pub(crate) fn from_str<T: DeserializeOwned>(text: &str) -> Result<Option<T>, String> {
    // What editors on Windows begin a file with; serde_yaml takes it for a document of its own.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_yaml::from_str(text).map_err(|error| without_value(&error.to_string()))
}

/// Cuts the value out of serde's `invalid type: string "VALUE", expected ...`.
fn without_value(message: &str) -> String {
    for kind in ["invalid type: ", "invalid value: "] {
        let Some(start) = message.find(kind).map(|at| at + kind.len()) else {
            continue;
        };
        let Some(end) = message.rfind(", expected ").filter(|end| *end >= start) else {
            continue;
        };
        let what = &message[start..end];
        let what = what.split(['"', '`']).next().unwrap_or_default().trim_end();
        return format!("{}{what}{}", &message[..start], &message[end..]);
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_error_names_key_and_place_but_not_the_value() {
        let error =
            from_str::<BTreeMap<String, Vec<String>>>("users:\n  hunter2 \"x\n").unwrap_err();
        assert!(
            error.contains("users: invalid type: string, expected a sequence"),
            "{error}"
        );
        assert!(error.contains("line 2"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn an_empty_document_is_nothing() {
        assert_eq!(
            from_str::<BTreeMap<String, String>>("# only a comment\n"),
            Ok(None)
        );
    }
}
