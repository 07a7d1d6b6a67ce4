//! Deployments and their kin, disruption budgets, leases.

use serde_json::{Value, json};

use super::{immutable, not_negative, pod, text};
use crate::apiserver::Cause;

pub(super) fn workload(storage: &str, new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    let labels = &spec["template"]["metadata"]["labels"];
    let selector = &spec["selector"];
    if selector.is_null() {
        causes.push(Cause::required("spec.selector", ""));
    }
    let pairs = selector["matchLabels"].as_object();
    let selected = pairs.is_some_and(|pairs| pairs.iter().all(|(key, value)| labels.get(key) == Some(value)))
        || pairs.is_none() && !selector["matchExpressions"].is_null();
    if !selected {
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", labels, why));
    }
    not_negative(spec, "replicas", "spec", causes);
    if storage == "deployments.apps" && !matches!(text(&spec["strategy"], "type"), "Recreate" | "RollingUpdate") {
        // Go names the fields of its own type here.
        let told = json!({"Type": spec["strategy"]["type"], "RollingUpdate": null});
        causes.push(Cause::not_supported("spec.strategy", &told, &["Recreate", "RollingUpdate"]));
    }
    pod::spec(&spec["template"]["spec"], "spec.template.spec", causes);
    let Some(old) = old else {
        return;
    };
    if storage == "statefulsets.apps" {
        if stateful(spec) != stateful(&old["spec"]) {
            causes.push(Cause::forbidden(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                 'minReadySeconds' are forbidden",
            ));
        }
    } else {
        immutable(spec, &old["spec"], &["selector"], "spec.", causes);
    }
}

/// What of a StatefulSet's spec stays as it is.
fn stateful(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(spec) = spec.as_object_mut() {
        for field in [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ] {
            spec.remove(field);
        }
    }
    spec
}

pub(super) fn job(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    for field in ["parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"] {
        not_negative(spec, field, "spec", causes);
    }
    let template = &spec["template"]["spec"];
    pod::spec(template, "spec.template.spec", causes);
    if text(template, "restartPolicy") == "Always" {
        let why = "valid values: \"OnFailure\", \"Never\"";
        causes.push(Cause::required("spec.template.spec.restartPolicy", why));
    }
    if let Some(old) = old {
        let fixed = ["completions", "selector", "template", "completionMode"];
        immutable(spec, &old["spec"], &fixed, "spec.", causes);
    }
}

pub(super) fn budget(new: &Value, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    let (least, most) = (&spec["minAvailable"], &spec["maxUnavailable"]);
    if !least.is_null() && !most.is_null() {
        // Go names the fields of its own type here.
        let told = format!(
            r#"{{"MinAvailable":{least},"Selector":{},"MaxUnavailable":{most},"UnhealthyPodEvictionPolicy":{}}}"#,
            spec["selector"], spec["unhealthyPodEvictionPolicy"]
        );
        causes.push(Cause {
            reason: "FieldValueInvalid",
            field: "spec".to_owned(),
            message: format!("Invalid value: {told}: minAvailable and maxUnavailable cannot be both set"),
        });
    }
    for field in ["minAvailable", "maxUnavailable"] {
        not_negative(spec, field, "spec", causes);
        let percent = |text: &str| {
            text.strip_suffix('%').is_some_and(|number| {
                !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
            })
        };
        if spec[field].as_str().is_some_and(|text| !percent(text)) {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  \
                or '93%', regex used for validation is '[0-9]+%')";
            causes.push(Cause::invalid(format!("spec.{field}"), &spec[field], why));
        }
    }
}

pub(super) fn lease(new: &Value, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|seconds| seconds <= 0) {
        let value = &spec["leaseDurationSeconds"];
        causes.push(Cause::invalid("spec.leaseDurationSeconds", value, "must be greater than 0"));
    }
    not_negative(spec, "leaseTransitions", "spec", causes);
}
