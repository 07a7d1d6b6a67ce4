//! The operator with the node: whole clusters.

use std::collections::BTreeSet;

use super::*;
use crate::api::{MYSQL_CLUSTER, crd};
use crate::apiserver::{Fault, Rule};
use crate::client::{CUSTOM_RESOURCE_DEFINITION, Patch};
use crate::operator::instances::Access;
use crate::operator::{Operator, Options};
use crate::runtime::{ElectionOptions, Health};

impl World {
    /// Runs an operator, and asks for a cluster of three.
    async fn create_cluster(&self) {
        let definition: Value = serde_yaml::from_str(&crd::yaml()).unwrap();
        let _: Value = self
            .client
            .create(CUSTOM_RESOURCE_DEFINITION, None, &definition)
            .await
            .unwrap();
        let options = Options {
            namespaces: BTreeSet::new(),
            workers: 4,
            election: ElectionOptions::new(NS, "mainstay", "operator-0"),
            shutdown_grace: Duration::from_secs(5),
            instance_access: Access::Direct,
            operator_image: "mainstay".to_owned(),
            tuning: crate::operator::Tuning::default(),
        };
        let client = client(&self.api, &self.clock, 2);
        let operator = Operator::new(client, options, &Health::new()).unwrap();
        let operator = operator.with_instance_dial(Arc::new(self.node.clone()));
        tokio::spawn(operator.run(self.stop.clone()));
        let cluster = json!({
            "apiVersion": "mysql.mainstay.dev/v1",
            "kind": "MySQLCluster",
            "metadata": { "name": "demo" },
            "spec": { "instances": 3, "storage": { "size": "1Gi" } },
        });
        let apply = || Patch::Apply {
            body: &cluster,
            force: true,
        };
        self.until("the definition is served", async || {
            let applied =
                self.client
                    .patch::<Value>(MYSQL_CLUSTER, NAMESPACED, "demo", None, apply());
            applied.await.ok()
        })
        .await;
    }

    /// The primary on record, and whether the cluster is ready.
    async fn primary(&self) -> Option<(String, bool)> {
        let cluster = self.get(MYSQL_CLUSTER, "demo").await?;
        let primary = cluster["status"]["currentPrimary"].as_str()?.to_owned();
        Some((primary, is_ready(&cluster)))
    }

    async fn ready_primary(&self) -> String {
        self.until("the cluster is ready", async || {
            let (primary, ready) = self.primary().await?;
            ready.then_some(primary)
        })
        .await
    }

    /// The pod that the Service for writes leads to.
    fn writes_lead_to(&self) -> Option<String> {
        let slices = self.api.objects("endpointslices.discovery.k8s.io");
        let of_writes = |slice: &&Value| slice["metadata"]["name"] == "demo-rw-ipv4";
        let slice = slices.iter().find(of_writes)?;
        let all = slice["endpoints"].as_array()?.iter();
        let ready: Vec<_> = all.filter(|e| e["conditions"]["ready"] == true).collect();
        let [one] = ready[..] else { return None };
        one["targetRef"]["name"].as_str().map(str::to_owned)
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_cluster_comes_up_fails_over_and_its_services_lead_to_it() {
    let world = World::new(3);
    world.create_cluster().await;
    let first = world.ready_primary().await;
    let nodes: BTreeSet<_> = world.node.pods().into_iter().map(|pod| pod.node).collect();
    assert_eq!(nodes.len(), 3, "spread");
    world
        .until("writes lead to it", async || {
            (world.writes_lead_to()? == first).then_some(())
        })
        .await;

    world.node.cut(NS, &first);
    let second = world
        .until("another primary", async || {
            let (now, _) = world.primary().await?;
            (now != first && world.writes_lead_to()? == now).then_some(now)
        })
        .await;
    world.node.heal(NS, &first);
    assert_eq!(world.ready_primary().await, second);
    assert_eq!(world.mysqls.writable().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_reconciles_go_on_failing_says_so_and_heals() {
    let world = World::new(3);
    let refused = Fault::Status {
        code: 500,
        retry_after: None,
    };
    let refused = Rule::always(refused).on("patch").of("services");
    let rule = world.api.faults().add(refused);
    world.create_cluster().await;
    let stalled = async || {
        let cluster = world.get(MYSQL_CLUSTER, "demo").await?;
        let conditions = cluster["status"]["conditions"].as_array()?.clone();
        conditions.into_iter().find(|c| c["type"] == "Stalled")
    };
    sleep(Duration::from_mins(9)).await;
    let early = stalled().await;
    assert!(early.is_none_or(|c| c["status"] == "False"), "too early");
    let said = world
        .until_within(Duration::from_mins(30), "it says so", async || {
            stalled().await.filter(|c| c["status"] == "True")
        })
        .await;
    assert_eq!(said["reason"], "ReconcileFails");
    let message = said["message"].as_str().unwrap();
    assert!(
        message.contains("no reconcile has succeeded for 1") && message.contains("services"),
        "{message}"
    );
    world
        .until("there is an Event of it", async || {
            let events = world.api.objects("events");
            let told = events.iter().any(|event| event["reason"] == "Stalled");
            told.then_some(())
        })
        .await;

    world.api.faults().remove(rule);
    // Whoever changes something need not wait for the backoff.
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    let _: Value = world
        .client
        .patch(
            MYSQL_CLUSTER,
            NAMESPACED,
            "demo",
            None,
            Patch::Merge(&touched),
        )
        .await
        .unwrap();
    world.ready_primary().await;
    assert_eq!(stalled().await.unwrap()["status"], "False");
}

/// A cluster comes up, its primary is killed, a node fails and is back: what was asked of the API
/// server meanwhile.
async fn history() -> Vec<String> {
    let world = World::new(3);
    world.create_cluster().await;
    let first = world.ready_primary().await;
    assert!(world.node.kill_container(NS, &first));
    sleep(Duration::from_secs(30)).await;
    let second = world.ready_primary().await;
    let on = |pod: &PodFacts| pod.name == second;
    let node = world.node.pods().into_iter().find(on).unwrap().node;
    world.node.fail_node(&node);
    sleep(Duration::from_mins(1)).await;
    world.node.restore_node(&node);
    world.ready_primary().await;
    sleep(Duration::from_mins(1)).await;
    let events = world.api.audit(0).into_iter();
    events.map(|event| format!("{event:?}")).collect()
}

#[test]
fn the_same_seed_does_the_same() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(history())
    };
    let (one, other) = (run(), run());
    assert!(one.len() > 200, "{}", one.len());
    for (number, (one, other)) in one.iter().zip(&other).enumerate() {
        assert_eq!(one, other, "request {number}");
    }
    assert_eq!(one.len(), other.len());
}
