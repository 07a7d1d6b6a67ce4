//! What may only be after, or instead of, something else: one replica writes at a time, a role is on
//! record before it is given, and the service never leads elsewhere than writes are taken.

use mainstay::client::Fence;
use mainstay::operator::resources;
use serde_json::Value;
use tokio::time::Instant;

use super::{CLUSTER, NAMESPACE, Shared};
use crate::network::{Departing, Party};

impl Shared {
    /// Never two replicas that may write at one instant.
    pub(super) fn check_fences(&self) {
        let now = Instant::now();
        let permits = |fence: &Fence| fence.permits(now);
        let replicas = self.replicas.lock().unwrap();
        let writing: Vec<&Party> = replicas
            .iter()
            .filter(|(party, replica)| permits(&replica.fence) && !self.network.is_dead(party))
            .map(|(party, _)| party)
            .collect();
        if writing.len() > 1 {
            self.history
                .violation(format!("two replicas may write: {writing:?}"));
        }
    }

    /// The label that the service selects by goes before writes stop, and comes before they begin.
    pub(super) fn check_roles(&self) {
        let labelled = self.labelled("primary");
        if labelled.len() > 1 {
            self.history.violation(format!(
                "two pods are labelled as the primary: {labelled:?}"
            ));
        }
        for host in self.mysqls.writable() {
            let leads_to = |pod: &String| resources::host(CLUSTER, NAMESPACE, pod);
            if let Some(pod) = labelled.iter().find(|pod| leads_to(pod) != host) {
                self.history.violation(format!(
                    "{host} can acknowledge writes while {pod} is labelled as the primary"
                ));
            }
        }
    }

    /// Who is promoted or opened is on record as that before it is told.
    pub(super) fn check_record(&self, request: &Departing) {
        let command: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let (Some("promote" | "open"), Some(cluster)) = (command["do"].as_str(), self.cluster())
        else {
            return;
        };
        let status = &cluster["status"];
        let on_record = |field: &str| {
            status[field]
                .as_str()
                .is_some_and(|pod| is_for(request, pod))
        };
        if !on_record("targetPrimary") && !on_record("currentPrimary") {
            self.history.violation(format!(
                "{} tells an instance what is not on record: {} {}, primary {}, target {}",
                request.from,
                request.path,
                command["do"],
                status["currentPrimary"],
                status["targetPrimary"]
            ));
        }
    }
}

/// Whether a command is to `pod`, directly or through the API server.
fn is_for(request: &Departing, pod: &str) -> bool {
    *request.to == *pod || request.path.contains(&format!("/pods/https:{pod}:"))
}
