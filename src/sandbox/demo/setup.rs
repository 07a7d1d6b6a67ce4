//! What `kubectl apply` would bring into a new cluster: the definition, the namespace of the Lease,
//! the sample.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::DemoError;
use crate::api::{MYSQL_CLUSTER, crd};
use crate::client::{self, CUSTOM_RESOURCE_DEFINITION, Client, Patch, Resource};
use crate::runtime::ObjectKey;

/// The sample that is shown, `manifests/samples/mysqlcluster.yaml`.
const SAMPLE: &str = include_str!("../../../manifests/samples/mysqlcluster.yaml");
/// Where it is applied.
const NAMESPACE: &str = "default";
/// Between two looks whether the definition is served.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    status: Conditions,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Conditions {
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// Applies the definition and waits until it is served, and makes the namespace of the Lease.
pub(super) async fn install(client: &Client, lease_namespace: &str) -> Result<(), DemoError> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lease_namespace},
    });
    apply(client, client::NAMESPACE, None, lease_namespace, &namespace).await?;
    let definition = crd::definition();
    let name = format!("{}.{}", MYSQL_CLUSTER.plural, MYSQL_CLUSTER.group);
    apply(client, CUSTOM_RESOURCE_DEFINITION, None, &name, &definition).await?;
    loop {
        let found: Status = client.get(CUSTOM_RESOURCE_DEFINITION, None, &name).await?;
        let mut conditions = found.status.conditions.iter();
        if conditions.any(|it| it.kind == "Established" && it.status == "True") {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Applies the sample.
pub(super) async fn sample(client: &Client) -> Result<(), DemoError> {
    let (key, body) = read_sample();
    apply(client, MYSQL_CLUSTER, Some(NAMESPACE), &key.name, &body).await
}

/// The key of the sample.
pub(super) fn sample_key() -> ObjectKey {
    read_sample().0
}

fn read_sample() -> (ObjectKey, Value) {
    let body: Value = serde_yaml::from_str(SAMPLE).expect("a test reads it");
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    (ObjectKey::new(NAMESPACE, name), body)
}

async fn apply(
    client: &Client,
    resource: Resource,
    namespace: Option<&str>,
    name: &str,
    body: &Value,
) -> Result<(), DemoError> {
    let patch = Patch::Apply { body, force: true };
    let _: Value = client.patch(resource, namespace, name, None, patch).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_a_name() {
        assert_eq!(sample_key(), ObjectKey::new("default", "demo"));
    }
}
