//! Events, of both groups.

use serde_json::{Value, json};

use super::{Printed, str_of};

pub(super) fn event(it: Printed<'_>) -> Vec<Value> {
    // What the core group calls so, events.k8s.io calls otherwise.
    let either = |core: &'static str, events: &'static str| {
        if it.at(core).is_null() { events } else { core }
    };
    let first = either("/firstTimestamp", "/deprecatedFirstTimestamp");
    let first = match it.at(first) {
        Value::Null => it.since("/eventTime"),
        _ => it.since(first),
    };
    let last = either("/lastTimestamp", "/deprecatedLastTimestamp");
    let last = match it.at(last) {
        Value::Null => first.clone(),
        _ => it.since(last),
    };
    let count = it.integer(either("/count", "/deprecatedCount"));
    let (last, count) = if it.at("/series").is_object() {
        (
            it.since("/series/lastObservedTime"),
            it.integer("/series/count"),
        )
    } else {
        (last, count.max(1))
    };
    let object = it.at(either("/involvedObject", "/regarding"));
    let target = match (
        str_of(object, "kind").to_lowercase(),
        str_of(object, "name"),
    ) {
        (kind, "") => kind,
        (kind, name) => format!("{kind}/{name}"),
    };
    let source = it.at(either("/source", "/deprecatedSource"));
    let first_of = |own: &'static str, reporting: &'static str, old: &'static str| {
        [str_of(source, own), it.str(reporting), it.str(old)]
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    };
    let component = first_of("component", "/reportingComponent", "/reportingController");
    let instance = first_of("host", "/reportingInstance", "/reportingInstance");
    let source = if instance.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {instance}")
    };
    let message = it.str(either("/message", "/note")).trim();
    vec![
        json!(last),
        it.text("/type"),
        it.text("/reason"),
        json!(target),
        json!(str_of(object, "fieldPath")),
        json!(source),
        json!(message),
        json!(first),
        json!(count),
        it.name(),
    ]
}
