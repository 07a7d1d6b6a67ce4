//! Services, ConfigMap, PodDisruptionBudget: everything that needs no look-up.

use serde_json::{Value, json};

use super::child::{Child, Context, Ownership, child};
use super::names::{
    CLUSTER_LABEL, PRIMARY_ROLE, REPLICA_ROLE, ROLE_LABEL, config_map, headless_service,
    read_only_service, read_write_service,
};
use super::validate::{InvalidSpec, validate};
use crate::client::{CONFIG_MAP, POD_DISRUPTION_BUDGET, SERVICE};
use crate::instance;
use crate::mysql::config;
use crate::operator::kinds::Cluster;

/// MySQL's port.
pub(super) const MYSQL_PORT: u16 = 3306;

/// Services, ConfigMap and PodDisruptionBudget of a cluster.
pub fn plain_children(context: &Context<'_>) -> Result<Vec<Child>, InvalidSpec> {
    validate(context.cluster)?;
    let name = context.name();
    Ok(vec![
        config_map_child(context)?,
        instances_service(context),
        role_service(context, &read_write_service(name), PRIMARY_ROLE),
        role_service(context, &read_only_service(name), REPLICA_ROLE),
        disruption_budget(context),
    ])
}

/// Hash of the my.cnf that the cluster's spec renders to: what an instance that runs with it reports.
pub fn config_hash(cluster: &Cluster) -> Result<String, InvalidSpec> {
    Ok(config::hash(&config::render(&cluster.spec.config)?))
}

fn config_map_child(context: &Context<'_>) -> Result<Child, InvalidSpec> {
    let rendered = config::render(&context.cluster.spec.config)?;
    Ok(child(
        context,
        CONFIG_MAP,
        &config_map(context.name()),
        Ownership::Owned,
        json!({ "data": { "my.cnf": rendered } }),
    ))
}

fn service(context: &Context<'_>, name: &str, spec: &Value) -> Child {
    child(
        context,
        SERVICE,
        name,
        Ownership::Owned,
        json!({ "spec": spec }),
    )
}

/// Gives each instance its DNS name, ready or not: instances find each other before they are ready.
fn instances_service(context: &Context<'_>) -> Child {
    service(
        context,
        &headless_service(context.name()),
        &json!({
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": { CLUSTER_LABEL: context.name() },
            "ports": [
                port("mysql", MYSQL_PORT),
                port("manager", instance::PORT),
            ],
        }),
    )
}

fn role_service(context: &Context<'_>, name: &str, role: &str) -> Child {
    service(
        context,
        name,
        &json!({
            "type": "ClusterIP",
            "selector": { CLUSTER_LABEL: context.name(), ROLE_LABEL: role },
            "ports": [port("mysql", MYSQL_PORT)],
        }),
    )
}

fn port(name: &str, number: u16) -> Value {
    json!({ "name": name, "port": number, "protocol": "TCP", "targetPort": name })
}

/// One voluntary disruption at a time. A pod that is not ready may always be evicted: its volume
/// stays, and a broken instance must not block the drain of its node.
fn disruption_budget(context: &Context<'_>) -> Child {
    child(
        context,
        POD_DISRUPTION_BUDGET,
        context.name(),
        Ownership::Owned,
        json!({
            "spec": {
                "maxUnavailable": 1,
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
                "selector": { "matchLabels": { CLUSTER_LABEL: context.name() } },
            },
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{cluster, context};
    use super::*;

    fn find<'a>(children: &'a [Child], name: &str) -> &'a Value {
        &children
            .iter()
            .find(|child| child.name == name)
            .unwrap()
            .body
    }

    #[test]
    fn services_lead_where_their_names_say() {
        let cluster = cluster(&json!({}));
        let children = plain_children(&context(&cluster)).unwrap();
        let writes = find(&children, "demo-rw");
        assert_eq!(
            writes["spec"]["selector"],
            json!({ CLUSTER_LABEL: "demo", ROLE_LABEL: "primary" })
        );
        assert_eq!(writes["spec"]["ports"][0]["port"], 3306);
        assert_eq!(
            find(&children, "demo-ro")["spec"]["selector"][ROLE_LABEL],
            "replica"
        );
        let instances = &find(&children, "demo-instances")["spec"];
        assert_eq!(instances["clusterIP"], "None");
        assert_eq!(instances["publishNotReadyAddresses"], true);
        assert_eq!(instances["ports"][1]["port"], instance::PORT);
    }

    #[test]
    fn all_plain_children_are_owned_and_labelled() {
        let cluster = cluster(&json!({}));
        for child in plain_children(&context(&cluster)).unwrap() {
            let metadata = &child.body["metadata"];
            assert_eq!(metadata["namespace"], "shop", "{}", child.name);
            assert_eq!(metadata["ownerReferences"][0]["uid"], "u-1");
            assert_eq!(
                metadata["ownerReferences"][0]["apiVersion"],
                "mysql.mainstay.dev/v1"
            );
            assert_eq!(
                metadata["labels"]["app.kubernetes.io/managed-by"],
                "mainstay"
            );
            assert_eq!(metadata["labels"][CLUSTER_LABEL], "demo");
            assert_eq!(child.body["kind"], child.resource.kind);
        }
    }

    #[test]
    fn the_config_map_holds_what_the_hash_speaks_of() {
        let cluster = cluster(&json!({ "config": { "max_connections": 321 } }));
        let children = plain_children(&context(&cluster)).unwrap();
        let text = find(&children, "demo-config")["data"]["my.cnf"]
            .as_str()
            .unwrap();
        assert!(text.contains("max_connections = 321"));
        assert_eq!(config_hash(&cluster).unwrap(), config::hash(text));
    }

    #[test]
    fn a_variable_of_ours_is_refused_by_its_name() {
        let cluster = cluster(&json!({ "config": { "gtid-mode": false } }));
        assert_eq!(
            plain_children(&context(&cluster)).unwrap_err().to_string(),
            "spec.config.gtid-mode: is decided by Mainstay: leave it out"
        );
    }
}
