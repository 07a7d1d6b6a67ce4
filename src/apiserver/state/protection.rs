//! Claims and volumes stay while they are used: the controllers that take their finalizers off.

use std::sync::Arc;

use serde_json::Value;

use super::gc::Place;
use super::kinds::{PV_PROTECTION, PVC_PROTECTION};
use super::object::texts;
use super::{Context, Entry, State};

impl State {
    /// Lets go of a claim or a volume that is to be deleted, once nobody uses it. Says whether it was
    /// one.
    pub(super) fn release(
        &mut self,
        storage: &Arc<str>,
        entry: &Arc<Entry>,
        object: &Value,
        context: Context<'_>,
    ) -> bool {
        let finalizer = match storage.as_ref() {
            "persistentvolumeclaims" => PVC_PROTECTION,
            "persistentvolumes" => PV_PROTECTION,
            _ => return false,
        };
        if !entry.deleting || !texts(object, "finalizers").iter().any(|name| name == finalizer) {
            return false;
        }
        let used = match finalizer {
            PVC_PROTECTION => self.claim_is_used(entry),
            _ => object["status"]["phase"] == "Bound",
        };
        let place: Place = (Arc::clone(storage), Arc::clone(&entry.key));
        if used {
            self.protected.insert(place);
        } else {
            self.protected.remove(&place);
            self.drop_finalizer(storage, entry, finalizer, context);
        }
        true
    }

    /// Whether a pod that was scheduled and has not ended has a claim.
    fn claim_is_used(&self, claim: &Entry) -> bool {
        let (namespace, name) = claim.names();
        let pods = self.storages.get("pods").expect("it is built in");
        pods.objects(Some(namespace)).map(|pod| pod.value()).any(|pod| {
            let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            let scheduled = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
            let volumes = pod["spec"]["volumes"].as_array();
            scheduled
                && !ended
                && volumes.into_iter().flatten().any(|volume| volume["persistentVolumeClaim"]["claimName"] == name)
        })
    }

    /// Looks again at claims that wait, after a pod has changed.
    pub(super) fn recheck_claims(&mut self, pod: &Entry) {
        let (namespace, _) = pod.names();
        let waiting = self.protected.iter().filter(|(_, key)| super::object::split(key).0 == namespace);
        self.pending.extend(waiting.cloned());
    }
}
