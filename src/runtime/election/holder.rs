//! Whether the holder of a lease has ended, as its pod shows. Pure.

use serde_json::Value;

/// Name and UID of the pod that an identity `NAME_UID` names. A longer one is of a process beside the
/// pod's first, whose end the pod does not show.
pub(super) fn pod(identity: &str) -> Option<(&str, &str)> {
    let (name, uid) = identity.split_once('_')?;
    (!name.is_empty() && !uid.is_empty() && !uid.contains('_')).then_some((name, uid))
}

/// Whether no process of the pod runs. Only what its kubelet saw is believed: that each container
/// has terminated. A phase is set by others, too (for the pods of a node that is gone), and a pod that
/// does not exist may have been removed by force while it runs.
pub(super) fn has_ended(pod: &Value, uid: &str) -> bool {
    let containers = pod["status"]["containerStatuses"].as_array();
    let ended = |container: &Value| {
        let (state, last) = (&container["state"], &container["lastState"]);
        state["terminated"].is_object()
            || state["waiting"].is_object() && last["terminated"].is_object()
    };
    pod["metadata"]["uid"] == uid
        && containers.is_some_and(|all| !all.is_empty() && all.iter().all(ended))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_identities_of_pods_name_one() {
        assert_eq!(pod("mainstay-x_1-2"), Some(("mainstay-x", "1-2")));
        for other in [
            "",
            "mainstay-x",
            "_1",
            "x_",
            "mainstay-x_1-2_77_1700000000000",
        ] {
            assert_eq!(pod(other), None, "{other}");
        }
    }

    #[test]
    fn a_pod_has_ended_when_its_kubelet_saw_every_container_terminate() {
        let terminated = json!({"terminated": {"exitCode": 137}});
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let pod = |phase: &str, containers: &[(&Value, &Value)]| {
            let containers: Vec<_> = containers
                .iter()
                .map(|(state, last)| json!({"name": "c", "state": state, "lastState": last}))
                .collect();
            json!({"metadata": {"uid": "u"}, "status": {"phase": phase, "containerStatuses": containers}})
        };
        let never = json!({});
        for (ended, pod) in [
            (true, pod("Failed", &[(&terminated, &never)])),
            (true, pod("Running", &[(&waiting, &terminated)])),
            (false, pod("Running", &[(&running, &terminated)])),
            // Not yet begun is not ended.
            (false, pod("Pending", &[(&waiting, &never)])),
            (
                false,
                pod("Running", &[(&terminated, &never), (&running, &never)]),
            ),
            // As of a node that is gone.
            (false, pod("Failed", &[(&running, &never)])),
            (false, pod("Failed", &[])),
        ] {
            assert_eq!(has_ended(&pod, "u"), ended, "{pod}");
            assert!(!has_ended(&pod, "another"));
        }
    }
}
