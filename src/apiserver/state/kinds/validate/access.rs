//! Roles and bindings.

use serde_json::{Value, json};

use super::list;
use crate::apiserver::Cause;

pub(super) fn rules(role: &Value, namespaced: bool, causes: &mut Vec<Cause>) {
    let empty = |rule: &Value, field: &str| rule[field].as_array().is_none_or(Vec::is_empty);
    for (index, rule) in list(role, "rules") {
        let path = format!("rules[{index}]");
        if empty(rule, "verbs") {
            causes.push(Cause::required(format!("{path}.verbs"), ""));
        }
        if !empty(rule, "nonResourceURLs") {
            if namespaced {
                causes.push(Cause::invalid(
                    format!("{path}.nonResourceURLs"),
                    &rule["nonResourceURLs"],
                    "namespaced rules cannot apply to non-resource URLs",
                ));
            }
            continue;
        }
        if empty(rule, "apiGroups") {
            let why = "resource rules must supply at least one api group";
            causes.push(Cause::required(format!("{path}.apiGroups"), why));
        }
        if empty(rule, "resources") {
            let why = "resource rules must supply at least one resource";
            causes.push(Cause::required(format!("{path}.resources"), why));
        }
    }
}

pub(super) fn binding(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    if old.is_some_and(|old| old["roleRef"] != new["roleRef"]) {
        let role = &new["roleRef"];
        // Go names the fields of its own type here.
        let told = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
        causes.push(Cause::invalid("roleRef", &told, "field is immutable"));
    }
}
