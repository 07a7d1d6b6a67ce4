//! The volume claim of an instance, and what may be done when it is not as it should be.

use serde_json::{Map, Value, json};

use super::child::{Child, Context, Ownership, child};
use super::drift::differs;
use super::names::{instance_name, volume_claim_name};
use crate::api::Quantity;
use crate::client::PERSISTENT_VOLUME_CLAIM;
use crate::operator::kinds::{VolumeClaim, Whole};
use crate::runtime::Kind;

/// Annotation of a claim: the class that was asked for, to tell it from the cluster's default, which
/// the API server writes into the same field.
const ASKED_CLASS_ANNOTATION: &str = "mysql.mainstay.dev/asked-storage-class";

/// The claim of one instance. It has no owner: it survives its cluster.
#[must_use]
pub fn volume_claim(context: &Context<'_>, ordinal: u32) -> Child {
    let storage = &context.cluster.spec.storage;
    let instance = instance_name(context.name(), ordinal);
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": storage.size } },
    });
    if let Some(class) = &storage.storage_class_name {
        spec["storageClassName"] = class.as_str().into();
    }
    let mut claim = child(
        context,
        PERSISTENT_VOLUME_CLAIM,
        &volume_claim_name(&instance),
        Ownership::Survives,
        json!({ "spec": spec }),
    )
    .of_instance(&instance);
    if let Some(class) = &storage.storage_class_name {
        claim.body["metadata"]["annotations"] = json!({ ASKED_CLASS_ANNOTATION: class.as_str() });
    }
    claim
}

/// What a claim that exists needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimChange {
    /// Nothing: it is as it should be, or larger.
    None,
    /// To be applied: labels are missing, or it grows.
    Apply,
    /// No volume is bound to it yet and it asks for what can't be changed (its class) or not in
    /// place (a smaller size): to be deleted, together with its pod, and made anew. No data is lost.
    Replace,
    /// It holds data and can't become what is asked for; the text says why. It is used as it is.
    Refused(String),
}

/// What the claim `live` needs to become `desired`.
#[must_use]
pub fn claim_change(desired: &Child, live: &VolumeClaim) -> ClaimChange {
    let body = live.body();
    let text = |body: &Map<String, Value>, field: &str| {
        let value = body.get("spec").and_then(|spec| spec.get(field));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let Some(wanted) = desired.body.as_object() else {
        return ClaimChange::None;
    };
    let bound = !text(body, "volumeName").is_empty();
    let class = text(body, "storageClassName");
    let wanted_class = desired.body["spec"]["storageClassName"].as_str();
    if wanted_class.is_some_and(|wanted| wanted != class) {
        return if bound {
            ClaimChange::Refused(format!(
                "{} has storage class {class:?}, which can't change to {:?}",
                desired.name,
                wanted_class.unwrap_or_default()
            ))
        } else {
            ClaimChange::Replace
        };
    }
    let was_asked = live.meta().annotations.contains_key(ASKED_CLASS_ANNOTATION);
    if !bound && wanted_class.is_none() && was_asked {
        return ClaimChange::Replace; // the default is asked for now
    }
    let mut asked = desired.body.clone();
    match (size(wanted), size(body)) {
        (Some(wanted), Some(live)) if wanted < live => {
            if !bound {
                return ClaimChange::Replace;
            }
            // Larger than asked for is fine, and a smaller request would be refused.
            asked["spec"]["resources"]["requests"]["storage"] =
                body["spec"]["resources"]["requests"]["storage"].clone();
        }
        _ => {}
    }
    if differs(&asked, live.meta(), body) {
        ClaimChange::Apply
    } else {
        ClaimChange::None
    }
}

fn size(claim: &Map<String, Value>) -> Option<Quantity> {
    let requests = claim.get("spec")?.get("resources")?.get("requests")?;
    requests.get("storage")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{cluster, context};
    use super::*;

    fn desired(storage: &Value) -> Child {
        volume_claim(&context(&cluster(&json!({ "storage": storage }))), 1)
    }

    fn live(of: &Child, bound: bool) -> VolumeClaim {
        let mut body = of.body.clone();
        if bound {
            body["spec"]["volumeName"] = "pv-1".into();
        }
        body["spec"]["volumeMode"] = "Filesystem".into();
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn a_claim_survives_its_cluster_and_names_a_class_only_when_asked_to() {
        let claim = desired(&json!({ "size": "5Gi" }));
        assert_eq!(claim.name, "data-demo-1");
        assert_eq!(claim.body["metadata"].get("ownerReferences"), None);
        assert_eq!(
            claim.body["metadata"]["labels"]["mysql.mainstay.dev/instance"],
            "demo-1"
        );
        assert_eq!(claim.body["spec"].get("storageClassName"), None);
        assert_eq!(
            claim.body["spec"]["resources"]["requests"]["storage"],
            "5Gi"
        );
        let classed = desired(&json!({ "storageClassName": "fast" }));
        assert_eq!(classed.body["spec"]["storageClassName"], "fast");
    }

    #[test]
    fn a_claim_grows_and_never_shrinks() {
        let small = desired(&json!({ "size": "1Gi" }));
        let large = desired(&json!({ "size": "2Gi" }));
        assert_eq!(claim_change(&small, &live(&small, true)), ClaimChange::None);
        assert_eq!(
            claim_change(&large, &live(&small, true)),
            ClaimChange::Apply
        );
        assert_eq!(claim_change(&small, &live(&large, true)), ClaimChange::None);
        assert_eq!(
            claim_change(&small, &live(&large, false)),
            ClaimChange::Replace
        );
    }

    #[test]
    fn a_class_that_does_not_exist_is_healed_while_there_is_no_data() {
        let typo = desired(&json!({ "storageClassName": "fats" }));
        let fixed = desired(&json!({ "storageClassName": "fast" }));
        assert_eq!(
            claim_change(&fixed, &live(&typo, false)),
            ClaimChange::Replace
        );
        assert!(matches!(
            claim_change(&fixed, &live(&typo, true)),
            ClaimChange::Refused(why) if why.contains("\"fats\"")
        ));
        let default = desired(&json!({}));
        assert_eq!(
            claim_change(&default, &live(&typo, false)),
            ClaimChange::Replace,
            "the default instead"
        );
        assert_eq!(claim_change(&typo, &live(&typo, false)), ClaimChange::None);
        // No class asked for: the one that the API server filled in is right.
        let any = desired(&json!({}));
        let mut filled = any.clone();
        filled.body["spec"]["storageClassName"] = "standard".into();
        for bound in [true, false] {
            assert_eq!(claim_change(&any, &live(&filled, bound)), ClaimChange::None);
        }
    }

    #[test]
    fn a_lost_label_is_put_back() {
        let claim = desired(&json!({}));
        let mut bare = live(&claim, true);
        bare.metadata.labels.clear();
        assert_eq!(claim_change(&claim, &bare), ClaimChange::Apply);
    }
}
