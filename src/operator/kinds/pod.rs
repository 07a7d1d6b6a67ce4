//! A pod, as far as it is read: there are more of them than of all else.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Ours;
use crate::client::{self, Resource};
use crate::runtime::{Kind, Meta, Text, heap_bytes};

/// A pod of a cluster.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pod {
    /// Metadata.
    #[serde(deserialize_with = "Meta::with_annotations::<Ours, _>")]
    pub metadata: Meta,
    /// Where it runs.
    #[serde(default)]
    pub spec: PodSpec,
    /// How it does.
    #[serde(default)]
    pub status: PodStatus,
}

/// The slice of a pod's spec that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Node it was bound to; empty before.
    pub node_name: Text,
}

/// The slice of a pod's status that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: Text,
    /// Why the pod failed, such as Evicted.
    pub reason: Box<str>,
    /// Address; empty before it has one.
    #[serde(rename = "podIP")]
    pub pod_ip: Text,
    /// What its conditions say.
    pub conditions: PodConditions,
    /// Containers.
    pub container_statuses: Box<[ContainerStatus]>,
    /// Init containers.
    pub init_container_statuses: Box<[ContainerStatus]>,
}

/// What is read of a pod's conditions.
#[derive(Clone, Debug, Default)]
pub struct PodConditions {
    /// Whether `Ready` is True.
    pub ready: bool,
    /// Why it can't be scheduled: `PodScheduled` is False.
    pub unscheduled: Option<Box<StateReason>>,
}

impl<'de> Deserialize<'de> for PodConditions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Condition<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            status: Cow<'a, str>,
            reason: Box<str>,
            message: Box<str>,
        }
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = PodConditions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of conditions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<PodConditions, A::Error> {
                let mut read = PodConditions::default();
                while let Some(condition) = list.next_element::<Condition<'_>>()? {
                    match (&*condition.kind, &*condition.status) {
                        ("Ready", status) => read.ready = status == "True",
                        ("PodScheduled", "False") => {
                            read.unscheduled = Some(Box::new(StateReason {
                                reason: condition.reason,
                                message: condition.message,
                                exit_code: 0,
                            }));
                        }
                        _ => {}
                    }
                }
                Ok(read)
            }
        }
        from.deserialize_seq(Reader)
    }
}

/// One container's state.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerStatus {
    /// Container name.
    pub name: Text,
    /// `waiting`, `running` or `terminated` with its fields.
    pub state: ContainerState,
}

/// State of a container: one of the three is there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// Not running yet.
    pub waiting: Option<Box<StateReason>>,
    /// Running; since when is not read.
    pub running: Option<IgnoredAny>,
    /// Ended.
    pub terminated: Option<Box<StateReason>>,
}

/// Why a container waits or ended, or a pod has no node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StateReason {
    /// One word, such as ErrImagePull.
    pub reason: Box<str>,
    /// A sentence.
    pub message: Box<str>,
    /// Exit code where it ended.
    pub exit_code: i32,
}

impl StateReason {
    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.reason.len() + self.message.len()
    }
}

impl Kind for Pod {
    const RESOURCE: Resource = client::POD;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn held_bytes(&self) -> usize {
        let status = &self.status;
        let states = status
            .container_statuses
            .iter()
            .chain(&status.init_container_statuses);
        let containers = states.map(|container| {
            let reasons = [&container.state.waiting, &container.state.terminated];
            let reasons = reasons.into_iter().flatten().map(|why| why.held_bytes());
            size_of::<ContainerStatus>() + heap_bytes(&container.name) + reasons.sum::<usize>()
        });
        let unscheduled = status.conditions.unscheduled.iter();
        size_of::<Self>()
            + self.metadata.heap_bytes()
            + heap_bytes(&self.spec.node_name)
            + heap_bytes(&status.pod_ip)
            + status.reason.len()
            + containers.sum::<usize>()
            + unscheduled.map(|why| why.held_bytes()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_of_six_kilobytes_is_held_in_less_than_one() {
        // What the peers' benches hold, too: three labels, a foreign annotation, five conditions.
        let json = include_str!("../../../benches/peers/pod.json");
        let pod: Pod = serde_json::from_str(json).unwrap();
        assert!(pod.held_bytes() < 800, "{}", pod.held_bytes());
        assert!(pod.metadata.annotations.is_empty());
        assert!(pod.status.conditions.ready && pod.status.conditions.unscheduled.is_none());
        assert!(pod.status.container_statuses[0].state.running.is_some());
    }

    #[test]
    fn of_its_conditions_a_pod_keeps_whether_it_is_ready_and_why_it_has_no_node() {
        let read =
            |conditions: &str| -> PodConditions { serde_json::from_str(conditions).unwrap() };
        let none = read("[]");
        assert!(!none.ready && none.unscheduled.is_none());
        let waiting = read(
            r#"[{"type":"Ready","status":"False"},{"type":"PodScheduled","status":"False",
                "reason":"Unschedulable","message":"0/3 nodes are available"}]"#,
        );
        assert!(!waiting.ready);
        let why = waiting.unscheduled.unwrap();
        assert_eq!(
            (&*why.reason, &*why.message),
            ("Unschedulable", "0/3 nodes are available")
        );
        let ready = read(
            r#"[{"type":"PodScheduled","status":"True"},{"type":"Re\u0061dy","status":"True"}]"#,
        );
        assert!(ready.ready && ready.unscheduled.is_none());
        assert!(serde_json::from_str::<PodConditions>("{}").is_err());
    }
}
