//! Builds the child objects of a cluster. Pure but for the random of passwords and keys: a cluster
//! in, bodies of server-side apply out.
//!
//! | child | owned | |
//! |---|---|---|
//! | Services `NAME-instances`, `NAME-rw`, `NAME-ro` | yes | [`plain_children`] |
//! | ConfigMap `NAME-config`, PodDisruptionBudget `NAME` | yes | [`plain_children`] |
//! | Secrets `NAME-ca`, `NAME-tls` | yes | [`secrets`] |
//! | Secrets `NAME-app`, `NAME-root`, `NAME-internal` | no: they survive with the volumes | [`secrets`] |
//! | PersistentVolumeClaim `data-NAME-N` | no | [`volume_claim`] |
//! | Pod `NAME-N` | yes | [`pod`] |

mod accounts;
mod certificates;
mod child;
mod drift;
mod names;
mod plain;
mod pod;
mod secrets;
mod template;
mod validate;
mod volume;

pub use child::{Child, Context};
pub use drift::differs;
pub use names::{
    CLUSTER_LABEL, INSTANCE_LABEL, MANAGED_SELECTOR, PRIMARY_ROLE, REPLICA_ROLE, ROLE_LABEL,
    TEMPLATE_HASH_ANNOTATION, app_secret, ca_secret, config_map, headless_service, host,
    instance_name, internal_secret, ordinal, pod_selector, read_only_service, read_write_service,
    root_secret, tls_secret, volume_claim_name,
};
pub use plain::{config_hash, plain_children};
pub use pod::pod;
pub use secrets::secrets;
pub use validate::{InvalidSpec, validate};
pub use volume::{ClaimChange, claim_change, volume_claim};

#[cfg(test)]
mod test_support {
    use serde_json::{Value, json};

    use super::Context;
    use crate::operator::kinds::Cluster;

    /// Cluster `demo` in namespace `shop`.
    pub(super) fn cluster(spec: &Value) -> Cluster {
        serde_json::from_value(json!({
            "metadata": { "name": "demo", "namespace": "shop", "uid": "u-1" },
            "spec": spec,
        }))
        .unwrap()
    }

    pub(super) fn context(cluster: &Cluster) -> Context<'_> {
        Context {
            cluster,
            operator_image: "mainstay:dev",
        }
    }
}
