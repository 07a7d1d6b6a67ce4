//! Events, whose new form (`events.k8s.io`) is held to more rules, and does not change but for its series.

use serde_json::Value;

use super::text;
use crate::apiserver::Cause;
use crate::apiserver::state::names;

pub(super) fn event(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let grouped = new["apiVersion"] == "events.k8s.io/v1";
    let involved = &new[if grouped { "regarding" } else { "involvedObject" }];
    let namespace = text(&new["metadata"], "namespace");
    let (own, default) = (text(involved, "namespace"), namespace == "default");
    if own != namespace && !(own.is_empty() && default) {
        causes.push(Cause::invalid(
            "involvedObject.namespace",
            &own.into(),
            "does not match event.namespace",
        ));
    }
    if !grouped {
        return;
    }
    if new["eventTime"].is_null() {
        causes.push(Cause::required("eventTime", ""));
        return;
    }
    for field in ["action", "reason"] {
        if text(new, field).is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    let controller = text(new, "reportingController");
    if controller.is_empty() {
        causes.push(Cause::required("reportingController", ""));
    }
    for problem in names::qualified(controller) {
        causes.push(Cause::invalid("reportingController", &controller.into(), &problem));
    }
    if text(new, "reportingInstance").is_empty() {
        causes.push(Cause::required("reportingInstance", ""));
    }
    if !matches!(text(new, "type"), "Normal" | "Warning") {
        causes.push(Cause::invalid("type", &text(new, "type").into(), ""));
    }
    let Some(old) = old else {
        return;
    };
    // The names are those of the stored form.
    for (field, told) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("type", "type"),
    ] {
        if new[field] != old[field] {
            causes.push(Cause::invalid(told, &new[field], "field is immutable"));
        }
    }
}
