//! What no schema can refuse, or an older one let pass.

use std::fmt::Display;

use crate::api::{Quantity, crd};
use crate::mysql::config::InvalidVariable;
use crate::operator::kinds::Cluster;

/// A spec that can't be carried out. Permanent until the spec changes.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidSpec {
    /// A variable that is not the user's to set, or is no variable.
    #[error("spec.config.{variable}: {why}")]
    Config {
        /// The variable, as written.
        variable: String,
        /// Why, in words that follow its name.
        why: String,
    },
    /// Any other field.
    #[error("{field}: {why}")]
    Field {
        /// Path of the field, from the object's root.
        field: &'static str,
        /// Why, in words that follow it.
        why: String,
    },
}

impl From<InvalidVariable> for InvalidSpec {
    fn from(InvalidVariable { variable, why }: InvalidVariable) -> Self {
        Self::Config { variable, why }
    }
}

/// Checks what a cluster's children are made of, but for `spec.config` (rendering checks that).
pub fn validate(cluster: &Cluster) -> Result<(), InvalidSpec> {
    let name = &cluster.metadata.name;
    let spec = &cluster.spec;
    let label = name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !label || name.len() > crd::MAX_NAME_LENGTH {
        return Err(field(
            "metadata.name",
            format!(
                "must be a DNS label of at most {} characters that begins with a letter",
                crd::MAX_NAME_LENGTH
            ),
        ));
    }
    if !(1..=9).contains(&spec.instances) {
        return Err(field("spec.instances", "must be 1 to 9"));
    }
    if spec.image.is_none() && !is_version(&spec.version) {
        return Err(field(
            "spec.version",
            "must be a version such as 9.7 or 9.7.4",
        ));
    }
    if let Some(image) = &spec.image
        && (image.is_empty() || image.contains(char::is_whitespace))
    {
        return Err(field("spec.image", "must be the name of an image"));
    }
    quantity("spec.storage.size", &spec.storage.size)?;
    for (path, amounts) in [
        ("spec.resources.limits", &spec.resources.limits),
        ("spec.resources.requests", &spec.resources.requests),
    ] {
        for amount in amounts.iter().flat_map(|amounts| amounts.values()) {
            quantity(path, &amount.0)?;
        }
    }
    Ok(())
}

fn quantity(path: &'static str, text: &str) -> Result<(), InvalidSpec> {
    let quantity: Quantity = text.parse().map_err(|error| field(path, error))?;
    if quantity.nanos() < 0 {
        return Err(field(path, format!("{text} is negative")));
    }
    Ok(())
}

fn is_version(text: &str) -> bool {
    let mut parts = 0;
    text.split('.').all(|part| {
        parts += 1;
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
    }) && (2..=4).contains(&parts)
}

fn field(field: &'static str, why: impl Display) -> InvalidSpec {
    InvalidSpec::Field {
        field,
        why: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::test_support::cluster;
    use super::*;

    fn why(spec: &Value) -> String {
        validate(&cluster(spec)).unwrap_err().to_string()
    }

    #[test]
    fn the_message_names_the_field() {
        assert_eq!(
            why(&json!({ "instances": 0 })),
            "spec.instances: must be 1 to 9"
        );
        assert!(why(&json!({ "version": "latest" })).starts_with("spec.version: "));
        assert!(why(&json!({ "image": "a b" })).starts_with("spec.image: "));
        assert_eq!(
            why(&json!({ "storage": { "size": "big" } })),
            "spec.storage.size: \"big\" is not a quantity such as 10Gi or 500m"
        );
        assert!(
            why(&json!({ "resources": { "limits": { "cpu": "-1" } } }))
                .starts_with("spec.resources.limits: ")
        );
        let mut long = cluster(&json!({}));
        long.metadata.name = "x".repeat(41).into();
        assert!(
            validate(&long)
                .unwrap_err()
                .to_string()
                .starts_with("metadata.name: ")
        );
    }

    #[test]
    fn versions_of_two_to_four_parts_are_versions() {
        for version in ["9.7", "8.4.6", "9.7.4.1", "26.7.0"] {
            assert_eq!(validate(&cluster(&json!({ "version": version }))), Ok(()));
        }
        for version in ["9", "9.", "9.7-lts", "1.2.3.4.5", ""] {
            assert!(!is_version(version), "{version}");
        }
    }
}
