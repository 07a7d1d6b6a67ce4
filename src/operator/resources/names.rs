//! Names, labels and addresses that are made of a cluster's name.

/// Role of a pod: [`PRIMARY_ROLE`] or [`REPLICA_ROLE`]; a pod without it is in no Service.
pub const ROLE_LABEL: &str = "mysql.mainstay.dev/role";
/// Value of [`ROLE_LABEL`] of the pod that `NAME-rw` leads to.
pub const PRIMARY_ROLE: &str = "primary";
/// Value of [`ROLE_LABEL`] of the pods that `NAME-ro` leads to.
pub const REPLICA_ROLE: &str = "replica";
/// Name of the cluster, on all children.
pub const CLUSTER_LABEL: &str = "mysql.mainstay.dev/cluster";
/// Name of the instance, on pods and volume claims.
pub const INSTANCE_LABEL: &str = "mysql.mainstay.dev/instance";
/// Selects everything that Mainstay made: the label selector of the child caches.
pub const MANAGED_SELECTOR: &str = "app.kubernetes.io/managed-by=mainstay";
/// Annotation of a pod: hash of all that needs a new pod when it changes (its template but for the
/// operator's image, and the rendered my.cnf).
pub const TEMPLATE_HASH_ANNOTATION: &str = "mysql.mainstay.dev/template-hash";

/// Name of an instance and its pod: `demo-0`.
#[must_use]
pub fn instance_name(cluster: &str, ordinal: u32) -> String {
    format!("{cluster}-{ordinal}")
}

/// Ordinal of an instance of that cluster: 2 for `demo-2`; `None` for any other name.
#[must_use]
pub fn ordinal(cluster: &str, instance: &str) -> Option<u32> {
    let ordinal = instance.strip_prefix(cluster)?.strip_prefix('-')?;
    let number: u32 = ordinal.parse().ok()?;
    // Only the name that we give: not `demo-02` or `demo-+2`.
    (number.to_string() == ordinal).then_some(number)
}

/// DNS name of an instance: `demo-0.demo-instances.NAMESPACE.svc`.
#[must_use]
pub fn host(cluster: &str, namespace: &str, instance: &str) -> String {
    format!("{instance}.{}", headless_domain(cluster, namespace))
}

/// DNS domain of the instances: `demo-instances.NAMESPACE.svc`.
pub(super) fn headless_domain(cluster: &str, namespace: &str) -> String {
    service_host(&headless_service(cluster), namespace)
}

/// DNS name of a Service, without the cluster's domain, which we do not know.
pub(super) fn service_host(service: &str, namespace: &str) -> String {
    format!("{service}.{namespace}.svc")
}

/// Name of an instance's volume claim: `data-demo-0`.
#[must_use]
pub fn volume_claim_name(instance: &str) -> String {
    format!("data-{instance}")
}

/// Label selector of the pods of a cluster.
#[must_use]
pub fn pod_selector(cluster: &str) -> String {
    format!("{CLUSTER_LABEL}={cluster}")
}

/// Service that gives each instance its DNS name.
#[must_use]
pub fn headless_service(cluster: &str) -> String {
    format!("{cluster}-instances")
}

/// Service that leads to the primary.
#[must_use]
pub fn read_write_service(cluster: &str) -> String {
    format!("{cluster}-rw")
}

/// Service that leads to the replicas.
#[must_use]
pub fn read_only_service(cluster: &str) -> String {
    format!("{cluster}-ro")
}

/// ConfigMap with the rendered my.cnf.
#[must_use]
pub fn config_map(cluster: &str) -> String {
    format!("{cluster}-config")
}

/// Secret of the application's account.
#[must_use]
pub fn app_secret(cluster: &str) -> String {
    format!("{cluster}-app")
}

/// Secret of the root account.
#[must_use]
pub fn root_secret(cluster: &str) -> String {
    format!("{cluster}-root")
}

/// Secret of the managers' token and the internal accounts' passwords.
#[must_use]
pub fn internal_secret(cluster: &str) -> String {
    format!("{cluster}-internal")
}

/// Secret of the certificate authority; no pod mounts it.
#[must_use]
pub fn ca_secret(cluster: &str) -> String {
    format!("{cluster}-ca")
}

/// Secret of the instances' certificate.
#[must_use]
pub fn tls_secret(cluster: &str) -> String {
    format!("{cluster}-tls")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_give_have_an_ordinal() {
        assert_eq!(ordinal("demo", &instance_name("demo", 12)), Some(12));
        for other in [
            "demo", "demo-", "demo-02", "demo-+2", "demo-a", "demo-b-1", "demos-1",
        ] {
            assert_eq!(ordinal("demo", other), None, "{other}");
        }
        assert_eq!(ordinal("demo-b", "demo-b-1"), Some(1));
    }

    #[test]
    fn the_longest_names_are_dns_labels() {
        let cluster = "x".repeat(crate::api::crd::MAX_NAME_LENGTH);
        assert!(headless_service(&cluster).len() <= 63);
        assert!(volume_claim_name(&instance_name(&cluster, u32::MAX)).len() <= 63);
        assert_eq!(
            host("demo", "shop", "demo-0"),
            "demo-0.demo-instances.shop.svc"
        );
    }
}
