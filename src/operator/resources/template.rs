//! The hash that says whether a pod must be replaced.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::api::Quantity;

/// Hash of a pod's template and the configuration it is started with: 16 hexadecimal digits.
///
/// It depends on what is said, not on how: fields in order of their names, amounts by value. Images
/// of init containers are left out: they are the operator's, and its upgrade changes no pod.
pub(super) fn hash(pod: &Value, config_hash: &str) -> String {
    let mut template = pod.clone();
    for container in template["spec"]["initContainers"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        if let Some(container) = container.as_object_mut() {
            container.remove("image");
        }
    }
    if let Some(metadata) = template["metadata"].as_object_mut() {
        // Another incarnation of the cluster is no reason to replace a pod that it adopts.
        metadata.remove("ownerReferences");
    }
    let mut text = String::new();
    canonical(&template, "", &mut text);
    text.push_str(config_hash);
    Sha256::digest(text.as_bytes())
        .iter()
        .take(8)
        .fold(String::new(), |mut hash, byte| {
            write!(hash, "{byte:02x}").expect("writing to a String can't fail");
            hash
        })
}

/// Writes a value so that equal meaning gives equal text.
fn canonical(value: &Value, field: &str, out: &mut String) {
    match value {
        Value::Object(fields) => {
            // Sorted here: whether a JSON map is depends on features of a crate.
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (name, value) in sorted {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                match (field, value.as_str().map(str::parse::<Quantity>)) {
                    ("limits" | "requests", Some(Ok(amount))) => {
                        out.push_str(&amount.nanos().to_string());
                    }
                    _ => canonical(value, name, out),
                }
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, "", out);
                out.push(',');
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hash_is_of_the_meaning() {
        let of = |cpu: &str| {
            hash(
                &json!({ "spec": { "a": 1, "containers": [{ "resources": { "limits": { "cpu": cpu } } }] } }),
                "c",
            )
        };
        assert_eq!(of("0.5"), of("500m"));
        assert_ne!(of("0.5"), of("0.6"));
        assert_ne!(hash(&json!({}), "a"), hash(&json!({}), "b"));
    }
}
