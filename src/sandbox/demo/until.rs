//! When an action is over: what must be seen before "all is well" means the world after it.

use super::snapshot::Snapshot;

/// What an action is waited for by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// `mysqld` of this pod was started anew, or another is the primary, or the pod was replaced.
    Restarted {
        /// The pod.
        pod: String,
        /// Its UID before.
        uid: String,
        /// How often `mysqld` had been started before.
        starts: u64,
    },
    /// There is no pod of this UID any more.
    PodGone(String),
    /// Another replica of the operator leads.
    AnotherLeader {
        /// Identity of the one before.
        than: String,
    },
    /// Another instance is the primary, and no other move is under way.
    AnotherPrimary {
        /// The one before.
        than: String,
    },
    /// The operator has worked on this generation of the spec.
    Observed(i64),
    /// No fault holds any more.
    Healed,
}

impl Until {
    /// What is still waited for; `None` once it has come.
    pub(super) fn pending(&self, snapshot: &Snapshot) -> Option<String> {
        let cluster = &snapshot.cluster;
        let (come, what) = match self {
            Self::Restarted { pod, uid, starts } => {
                let new = |instance: &super::snapshot::InstanceView| {
                    instance.uid != *uid || instance.starts.is_some_and(|now| now > *starts)
                };
                let come = cluster.primary != *pod || snapshot.instance(pod).is_some_and(new);
                (come, format!("mysqld of {pod} to be missed"))
            }
            Self::PodGone(uid) => {
                let come = snapshot
                    .instances
                    .iter()
                    .all(|instance| instance.uid != *uid);
                (come, "the old pod to be gone".to_owned())
            }
            Self::AnotherLeader { than } => {
                let come = snapshot
                    .leader()
                    .is_some_and(|leader| leader.identity != *than);
                (come, "another replica to lead".to_owned())
            }
            Self::AnotherPrimary { than } => {
                let come = cluster.primary != *than && cluster.target.is_empty();
                (come, "another primary".to_owned())
            }
            Self::Observed(generation) => {
                let come = cluster.observed_generation >= *generation;
                (come, "the operator to see the spec".to_owned())
            }
            Self::Healed => (snapshot.faults.is_empty(), "the faults to end".to_owned()),
        };
        (!come).then_some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::{ClusterView, InstanceView, ReplicaView};
    use super::*;

    fn snapshot() -> Snapshot {
        Snapshot {
            cluster: ClusterView {
                primary: "demo-0".into(),
                observed_generation: 2,
                ..ClusterView::default()
            },
            instances: vec![InstanceView {
                pod: "demo-0".into(),
                uid: "u".into(),
                starts: Some(1),
                ..InstanceView::default()
            }],
            replicas: vec![ReplicaView {
                identity: "a".into(),
                leads: true,
                ..ReplicaView::default()
            }],
            faults: vec!["slow".into()],
            ..Snapshot::default()
        }
    }

    fn is_over(until: &Until, change: impl FnOnce(&mut Snapshot)) -> bool {
        let mut snapshot = snapshot();
        assert!(
            until.pending(&snapshot).is_some(),
            "{until:?} was over before"
        );
        change(&mut snapshot);
        until.pending(&snapshot).is_none()
    }

    #[test]
    fn the_state_before_an_action_is_not_taken_for_the_one_after() {
        let restarted = Until::Restarted {
            pod: "demo-0".into(),
            uid: "u".into(),
            starts: 1,
        };
        assert!(is_over(&restarted, |s| s.instances[0].starts = Some(2)));
        assert!(is_over(&restarted, |s| s.instances[0].uid = "v".into()));
        assert!(is_over(&restarted, |s| s.cluster.primary = "demo-1".into()));
        assert!(!is_over(&restarted, |s| s.instances[0].starts = None));
        let gone = Until::PodGone("u".into());
        assert!(is_over(&gone, |s| s.instances[0].uid = "v".into()));
        let leader = Until::AnotherLeader { than: "a".into() };
        assert!(is_over(&leader, |s| s.replicas[0].identity = "b".into()));
        assert!(!is_over(&leader, |s| s.replicas[0].leads = false));
        let primary = Until::AnotherPrimary {
            than: "demo-0".into(),
        };
        assert!(is_over(&primary, |s| s.cluster.primary = "demo-1".into()));
        assert!(!is_over(&primary, |s| {
            s.cluster.primary = "demo-1".into();
            s.cluster.target = "demo-2".into();
        }));
        assert!(is_over(&Until::Observed(3), |s| s
            .cluster
            .observed_generation =
            3));
        assert!(is_over(&Until::Healed, |s| s.faults.clear()));
    }
}
