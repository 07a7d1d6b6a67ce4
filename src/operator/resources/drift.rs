//! Whether a child lacks anything of what it should be.

use serde_json::{Map, Value};

use crate::api::Quantity;
use crate::runtime::{Meta, Pairs};

/// Whether `live` (its metadata, and its body without metadata and status) lacks anything of
/// `desired`, the body of an apply.
///
/// Every field of `desired` must be in `live`. Lists of named things are matched by name or port,
/// quantities by value; selectors must be equal, since one more term selects less. What `live` has
/// beside (defaults of the API server, other people's labels) is no difference.
#[must_use]
pub fn differs(desired: &Value, live_meta: &Meta, live_body: &Map<String, Value>) -> bool {
    let Some(desired) = desired.as_object() else {
        return false;
    };
    desired.iter().any(|(field, wanted)| match field.as_str() {
        // Items of a list carry neither.
        "apiVersion" | "kind" => false,
        "metadata" => metadata_differs(wanted, live_meta),
        _ => !holds(wanted, live_body.get(field), field),
    })
}

fn metadata_differs(wanted: &Value, live: &Meta) -> bool {
    let lacks = |field: &str, live: &Pairs| {
        let wanted = wanted[field].as_object();
        wanted
            .into_iter()
            .flatten()
            .any(|(key, value)| live.get(key) != value.as_str())
    };
    let unowned = wanted["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|owner| {
            !live.owner_references.iter().any(|reference| {
                owner["uid"] == reference.uid.as_str()
                    && owner["kind"] == reference.kind.as_str()
                    && owner["name"] == reference.name.as_str()
                    && owner["controller"].as_bool().unwrap_or(false) == reference.controller
            })
        });
    lacks("labels", &live.labels) || lacks("annotations", &live.annotations) || unowned
}

/// Whether `live` has all of `wanted`, a value of the field `field`.
fn holds(wanted: &Value, live: Option<&Value>, field: &str) -> bool {
    let Some(live) = live else {
        return is_empty(wanted);
    };
    if field == "selector" {
        return wanted == live;
    }
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => wanted.iter().all(|(name, value)| {
            let live = live.get(name);
            match (field, live) {
                ("requests" | "limits", Some(live)) => same_amount(value, live),
                _ => holds(value, live, name),
            }
        }),
        (Value::Array(wanted), Value::Array(live)) => match key_of(wanted) {
            Some(key) => wanted.iter().all(|item| {
                let live = live.iter().find(|live| live[key] == item[key]);
                holds(item, live, "")
            }),
            None => {
                wanted.len() == live.len()
                    && wanted
                        .iter()
                        .zip(live)
                        .all(|(wanted, live)| holds(wanted, Some(live), ""))
            }
        },
        (Value::Number(wanted), Value::Number(live)) => wanted.as_f64() == live.as_f64(),
        _ => wanted == live || (is_empty(wanted) && is_empty(live)),
    }
}

/// What tells the items of a list apart; `None` where only their order does.
fn key_of(items: &[Value]) -> Option<&'static str> {
    ["name", "port"]
        .into_iter()
        .find(|key| !items.is_empty() && items.iter().all(|item| item.get(key).is_some()))
}

fn same_amount(a: &Value, b: &Value) -> bool {
    let parse = |value: &Value| match value {
        Value::String(text) => text.parse::<Quantity>().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    a == b || parse(a).is_some_and(|amount| parse(b) == Some(amount))
}

/// What an API server leaves out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_support::{cluster, context};
    use super::super::{plain_children, read_write_service};
    use super::*;
    use crate::operator::kinds::{Ours, Service, Whole};
    use crate::runtime::{Annotations as _, Kind};

    fn desired() -> Value {
        let cluster = cluster(&json!({}));
        let children = plain_children(&context(&cluster)).unwrap();
        children
            .into_iter()
            .find(|child| child.name == read_write_service("demo"))
            .unwrap()
            .body
    }

    /// As the API server returns it, with its defaults, changed by `edit`.
    fn live(edit: impl FnOnce(&mut Value)) -> Service {
        let mut body = desired();
        body["metadata"]["resourceVersion"] = "7".into();
        body["metadata"]["labels"]["someone"] = "else".into();
        body["spec"]["clusterIP"] = "10.0.0.7".into();
        body["spec"]["sessionAffinity"] = "None".into();
        body["spec"]["ports"][0]["nodePort"] = 30000.into();
        edit(&mut body);
        body.as_object_mut().unwrap().remove("kind");
        serde_json::from_value(body).unwrap()
    }

    fn drifted(edit: impl FnOnce(&mut Value)) -> bool {
        let live = live(edit);
        differs(&desired(), live.meta(), live.body())
    }

    #[test]
    fn what_the_api_server_adds_is_no_difference() {
        assert!(!drifted(|_| {}));
        assert!(!drifted(
            |body| body["status"] = json!({ "loadBalancer": {} })
        ));
    }

    #[test]
    fn what_someone_changed_is() {
        assert!(drifted(
            |body| body["spec"]["ports"][0]["port"] = 3307.into()
        ));
        assert!(drifted(|body| body["spec"]["ports"] = json!([])));
        assert!(drifted(|body| body["spec"]["type"] = "NodePort".into()));
        assert!(drifted(|body| {
            body["metadata"]["labels"]["app.kubernetes.io/name"] = "x".into();
        }));
        assert!(drifted(
            |body| body["metadata"]["ownerReferences"] = json!([])
        ));
        assert!(drifted(|body| {
            body["metadata"]["ownerReferences"][0]["uid"] = "u-0".into();
        }));
    }

    #[test]
    fn each_annotation_that_is_wanted_is_one_that_the_cache_holds() {
        let cluster = cluster(&json!({}));
        for child in plain_children(&context(&cluster)).unwrap() {
            let wanted = child.body["metadata"]["annotations"].as_object();
            for (key, _) in wanted.into_iter().flatten() {
                assert!(
                    Ours::keeps(key),
                    "{}: {key} would be put back for ever",
                    child.name
                );
            }
        }
    }

    #[test]
    fn a_selector_that_selects_less_is_a_difference() {
        assert!(drifted(|body| body["spec"]["selector"]["x"] = "y".into()));
    }

    #[test]
    fn quantities_are_compared_by_value() {
        let meta = Meta::default();
        let body = |cpu: &str, storage: Value| json!({ "spec": { "resources": { "requests": { "cpu": cpu, "storage": storage } } } });
        let same = |a: &Value, b: &Value| !differs(a, &meta, b.as_object().unwrap());
        assert!(same(
            &body("0.5", json!("1Gi")),
            &body("500m", json!("1024Mi"))
        ));
        assert!(same(&body("1", json!(1024)), &body("1", json!("1Ki"))));
        assert!(!same(
            &body("0.5", json!("1Gi")),
            &body("500m", json!("1G"))
        ));
    }

    #[test]
    fn lists_match_by_key_or_by_order() {
        let meta = Meta::default();
        let same = |a: Value, b: Value| {
            !differs(
                &json!({ "x": a }),
                &meta,
                json!({ "x": b }).as_object().unwrap(),
            )
        };
        assert!(same(
            json!([{ "name": "a", "v": 1 }]),
            json!([{ "name": "b" }, { "name": "a", "v": 1.0 }])
        ));
        assert!(!same(json!([{ "name": "a" }]), json!([{ "name": "b" }])));
        assert!(same(json!(["a", "b"]), json!(["a", "b"])));
        assert!(!same(json!(["a", "b"]), json!(["b", "a"])));
        assert!(!same(json!(["a"]), json!(["a", "b"])));
        assert!(same(json!([]), Value::Null));
    }
}
