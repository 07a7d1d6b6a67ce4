//! Secrets, and the references of RBAC bindings.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{items, set};

pub(super) fn default_secret(secret: &mut Value) {
    set(secret, "type", "Opaque");
    let Some(texts) = secret
        .as_object_mut()
        .and_then(|secret| secret.remove("stringData"))
    else {
        return;
    };
    for (key, text) in texts.as_object().into_iter().flatten() {
        let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
        secret["data"][key] = encoded.into();
    }
}

pub(super) fn default_binding(binding: &mut Value) {
    const RBAC: &str = "rbac.authorization.k8s.io";
    set(&mut binding["roleRef"], "apiGroup", RBAC);
    for subject in items(binding, "subjects") {
        if subject["kind"] != "ServiceAccount" {
            set(subject, "apiGroup", RBAC);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_become_data() {
        let mut secret = json!({"stringData": {"a": "b"}, "data": {"a": "eA==", "c": "eA=="}});
        default_secret(&mut secret);
        assert_eq!(
            secret,
            json!({"type": "Opaque", "data": {"a": "Yg==", "c": "eA=="}})
        );
    }
}
