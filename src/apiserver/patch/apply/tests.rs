//! Laws of server-side apply, on objects made by chance.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::apiserver::patch::{MergeSchema, Writer};

const NOW: &str = "2026-01-01T00:00:00Z";

fn writer(manager: &str) -> Writer<'_> {
    Writer {
        manager,
        subresource: "",
        api_version: "v1",
        time: NOW,
    }
}

fn pod_schema() -> std::sync::Arc<MergeSchema> {
    MergeSchema::builtin("", "Pod")
}

fn applied(
    live: Option<&Value>,
    body: &Value,
    manager: &str,
    force: bool,
) -> Result<Value, ApiError> {
    apply(live, body, writer(manager), force, &pod_schema())
}

/// What a manager owns.
fn owned(object: &Value, manager: &str) -> Set {
    managed::decode(managed::of(object))
        .expect("reads")
        .iter()
        .filter(|(other, _)| other.name == manager)
        .fold(Set::default(), |all, (_, entry)| all.union(&entry.fields))
}

/// A configuration of a pod: some labels, containers with an image and ports, some tolerations.
/// Names begin with `prefix`.
fn bodies(prefix: &'static str) -> impl Strategy<Value = Value> {
    let labels = prop::collection::btree_map("[a-c]", "[0-2]", 0..3);
    let ports = prop::collection::btree_set(1..4u16, 0..3);
    let container = (prop::option::of("[0-2]"), ports);
    let containers = prop::collection::btree_map("[a-c]", container, 0..3);
    let selector = prop::option::of(prop::collection::btree_map("[a-b]", "[0-2]", 1..2));
    (labels, containers, selector).prop_map(move |(labels, containers, selector)| {
        let labels: Map<String, Value> = labels
            .into_iter()
            .map(|(key, value)| (format!("{prefix}{key}"), value.into()))
            .collect();
        let containers: Vec<Value> = containers
            .into_iter()
            .map(|(name, (image, ports))| {
                let mut container = json!({"name": format!("{prefix}{name}")});
                if let Some(image) = image {
                    container["image"] = image.into();
                }
                if !ports.is_empty() {
                    let port = |port| json!({"containerPort": port});
                    container["ports"] = ports.into_iter().map(port).collect();
                }
                container
            })
            .collect();
        let mut body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}});
        if !labels.is_empty() {
            body["metadata"]["labels"] = Value::Object(labels);
        }
        if !containers.is_empty() {
            body["spec"]["containers"] = Value::Array(containers);
        }
        if let Some(selector) = selector.filter(|_| prefix.is_empty()) {
            body["spec"]["nodeSelector"] = json!(selector);
        }
        body
    })
}

proptest! {
    #[test]
    fn what_is_applied_twice_is_applied_once(first in bodies(""), second in bodies("")) {
        let live = applied(None, &first, "one", false).expect("creates");
        let once = applied(Some(&live), &second, "one", false).expect("owns all of it");
        let again = applied(Some(&once), &second, "one", false).expect("owns all of it");
        prop_assert_eq!(once, again);
    }

    #[test]
    fn managers_of_different_fields_never_conflict(
        a in bodies("x"), b in bodies("y"), c in bodies("x"),
    ) {
        let live = applied(None, &a, "one", false).expect("creates");
        let live = applied(Some(&live), &b, "two", false).expect("touches other fields");
        let live = applied(Some(&live), &c, "one", false).expect("touches its own fields");
        let alone = applied(None, &b, "two", false).expect("creates");
        prop_assert_eq!(owned(&live, "two"), owned(&alone, "two"));
    }

    #[test]
    fn the_order_of_managers_does_not_matter_to_who_owns_what(a in bodies("x"), b in bodies("y")) {
        let both = |first: (&Value, &str), second: (&Value, &str)| {
            let live = applied(None, first.0, first.1, false).expect("creates");
            applied(Some(&live), second.0, second.1, false).expect("touches other fields")
        };
        let (ab, ba) = (both((&a, "one"), (&b, "two")), both((&b, "two"), (&a, "one")));
        prop_assert_eq!(owned(&ab, "one"), owned(&ba, "one"));
        prop_assert_eq!(owned(&ab, "two"), owned(&ba, "two"));
    }

    #[test]
    fn force_makes_it_hold_and_the_other_lose(a in bodies(""), b in bodies("")) {
        let schema = pod_schema();
        let live = applied(None, &a, "one", false).expect("creates");
        let forced = applied(Some(&live), &b, "two", true).expect("is forced");
        // All of it holds: nothing changes if it is merged in again.
        let mut again = typed::merge(&schema.types, schema.root, &forced, &b);
        schema.complete(&mut again);
        prop_assert_eq!(&again, &forced);
        let conflicts = match applied(Some(&live), &b, "two", false) {
            Ok(calm) => {
                prop_assert_eq!(&calm, &forced);
                Vec::new()
            }
            Err(error) => {
                prop_assert_eq!(error.code, 409);
                error.details["causes"].as_array().cloned().unwrap_or_default()
            }
        };
        // What was in conflict, and only that, has changed hands.
        let lost = owned(&live, "one").difference(&owned(&forced, "one"));
        let said: Vec<String> = lost.paths().iter().map(|steps| element::path(steps)).collect();
        for cause in &conflicts {
            let field = cause["field"].as_str().unwrap_or_default();
            prop_assert!(said.iter().any(|path| path == field), "{field} is not in {said:?}");
        }
        prop_assert_eq!(said.len(), conflicts.len());
        prop_assert!(lost.difference(&owned(&forced, "two")).is_empty());
    }

    #[test]
    fn what_nobody_applies_any_more_is_gone(a in bodies(""), b in bodies("")) {
        let schema = pod_schema();
        let live = applied(None, &a, "one", false).expect("creates");
        let both = applied(Some(&live), &b, "two", true).expect("is forced");
        let nothing = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}});
        let one = applied(Some(&both), &nothing, "two", false).expect("lets go");
        let none = applied(Some(&one), &nothing, "one", false).expect("lets go");
        prop_assert!(owned(&none, "one").is_empty() && owned(&none, "two").is_empty());
        let mut empty = nothing;
        schema.complete(&mut empty);
        prop_assert_eq!(none, empty);
    }

    #[test]
    fn an_update_owns_what_it_changed_and_nobody_else_does(a in bodies(""), b in bodies("")) {
        let schema = pod_schema();
        let live = applied(None, &a, "one", false).expect("creates");
        // Without a record none is begun.
        prop_assume!(managed::of(&live).is_some());
        let mut new = b;
        schema.complete(&mut new);
        let plain = new.clone();
        track(Some(&live), &mut new, writer("editor"), &schema);
        prop_assert_eq!(bare(&new, &schema), plain);
        let (one, editor) = (owned(&new, "one"), owned(&new, "editor"));
        prop_assert!(one.intersection(&editor).is_empty());
        // Nothing that was not there before is nobody's; a list that goes leaves its null.
        let null: Set = [&["spec", "containers"][..]].into_iter().collect();
        let fields = |object: &Value| typed::fields(&schema.types, schema.root, &bare(object, &schema));
        let come = fields(&new).difference(&fields(&live));
        prop_assert!(come.difference(&editor).difference(&unowned()).difference(&null).is_empty());
    }
}

#[test]
fn an_object_without_a_record_stays_without_one() {
    let schema = MergeSchema::builtin("", "ConfigMap");
    let old = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it"}});
    let mut new = old.clone();
    new["data"] = json!({"a": "1"});
    let plain = new.clone();
    track(Some(&old), &mut new, writer("editor"), &schema);
    assert_eq!(new, plain);
}

#[test]
fn a_write_that_changes_nothing_leaves_the_times() {
    let schema = MergeSchema::builtin("", "ConfigMap");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it"}, "data": {"a": "1"}});
    let live = apply(None, &body, writer("one"), false, &schema).expect("creates");
    let later = Writer {
        time: "2026-01-01T00:01:00Z",
        ..writer("one")
    };
    let same = apply(Some(&live), &body, later, false, &schema).expect("owns it");
    assert_eq!(same, live);
    let mut put = live.clone();
    track(Some(&live), &mut put, later, &schema);
    assert_eq!(put, live);
}

#[test]
fn a_subresource_owns_what_is_its_own() {
    let whole = json!({
        "apiVersion": "e.com/v1",
        "kind": "Widget",
        "metadata": {"name": "it", "labels": {"a": "1"}},
        "spec": {"size": 1},
        "status": {"phase": "Ready"},
    });
    let confined = |subresource, has_status, custom| {
        let mut applied = whole.clone();
        confine(&mut applied, subresource, has_status, custom);
        let left = ["/spec", "/status", "/metadata/labels"]
            .into_iter()
            .filter(|path| applied.pointer(path).is_some());
        left.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(confined("", false, true), "/spec /status /metadata/labels");
    assert_eq!(confined("", true, true), "/spec /metadata/labels");
    assert_eq!(confined("status", true, true), "/status");
    assert_eq!(confined("status", true, false), "/status /metadata/labels");
    assert_eq!(
        confined("scale", true, false),
        "/spec /status /metadata/labels"
    );
}
