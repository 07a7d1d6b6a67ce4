//! ConfigMaps and Secrets.

use serde_json::Value;

use super::text;
use crate::apiserver::Cause;

/// Most bytes in the data of a ConfigMap or a Secret.
const DATA_LIMIT: usize = 1 << 20;

pub(super) fn config_map(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let size = keys(&new["data"], "data", causes) + keys(&new["binaryData"], "binaryData", causes) / 4 * 3;
    for key in new["binaryData"].as_object().into_iter().flat_map(|map| map.keys()) {
        if new["data"].get(key).is_some() {
            causes.push(Cause::invalid(
                format!("data[{key}]"),
                &key.as_str().into(),
                "duplicate of key present in binaryData",
            ));
        }
    }
    limit(size, "[]", causes);
    frozen(new, old, &["data", "binaryData"], causes);
}

pub(super) fn secret(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let size = keys(&new["data"], "data", causes) / 4 * 3;
    limit(size, "data", causes);
    let has = |key: &str| new["data"].get(key).is_some();
    let mut need = |keys: &[&str]| {
        for key in keys.iter().filter(|key| !has(key)) {
            causes.push(Cause::required(format!("data[{key}]"), ""));
        }
    };
    match text(new, "type") {
        "kubernetes.io/tls" => need(&["tls.crt", "tls.key"]),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            need(&["username", "password"]);
        }
        "kubernetes.io/dockerconfigjson" => need(&[".dockerconfigjson"]),
        "kubernetes.io/ssh-auth" => need(&["ssh-privatekey"]),
        _ => {}
    }
    if let Some(old) = old {
        super::immutable(new, old, &["type"], "", causes);
    }
    frozen(new, old, &["data"], causes);
}

/// Checks the keys of a map; gives the bytes of its values.
fn keys(map: &Value, field: &str, causes: &mut Vec<Cause>) -> usize {
    let mut size = 0;
    for (key, value) in map.as_object().into_iter().flatten() {
        size += value.as_str().map_or(0, str::len);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let known = !key.is_empty() && key.len() <= 253 && key.chars().all(plain);
        if !known || matches!(key.as_str(), "." | "..") {
            causes.push(Cause::invalid(
                format!("{field}[{key}]"),
                &key.as_str().into(),
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
                 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            ));
        }
    }
    size
}

fn limit(size: usize, field: &str, causes: &mut Vec<Cause>) {
    if size > DATA_LIMIT {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: field.to_owned(),
            message: format!("Too long: may not be more than {DATA_LIMIT} bytes"),
        });
    }
}

fn frozen(new: &Value, old: Option<&Value>, fields: &[&str], causes: &mut Vec<Cause>) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else {
        return;
    };
    let why = "field is immutable when `immutable` is set";
    if new["immutable"] != true {
        causes.push(Cause::forbidden("immutable", why));
    }
    for field in fields.iter().filter(|field| new[**field] != old[**field]) {
        causes.push(Cause::forbidden(*field, why));
    }
}
