//! The pod of an instance. It carries only what needs a new pod when it changes.

use serde_json::{Value, json};

use super::child::{Child, Context, Ownership, child};
use super::names::{
    CLUSTER_LABEL, TEMPLATE_HASH_ANNOTATION, config_map, headless_domain, headless_service,
    instance_name, internal_secret, root_secret, tls_secret, volume_claim_name,
};
use super::plain::{MYSQL_PORT, config_hash};
use super::template;
use super::validate::{InvalidSpec, validate};
use crate::api::MySQLClusterSpec;
use crate::client::POD;
use crate::instance;

/// User and group of mysqld: `mysql` in the official images. Numbers, so that `runAsNonRoot` can be
/// checked, and any image with mysqld works.
const USER: u32 = 999;
/// Where the binary of the instance manager is copied to.
const BIN: &str = "/opt/mainstay/bin";
/// Read by user and group only; the volume's group is [`USER`].
const SECRET_MODE: u32 = 0o440;

/// The pod of one instance, with [`TEMPLATE_HASH_ANNOTATION`] and without a role.
pub fn pod(context: &Context<'_>, ordinal: u32) -> Result<Child, InvalidSpec> {
    validate(context.cluster)?;
    let config_hash = config_hash(context.cluster)?;
    let instance = instance_name(context.name(), ordinal);
    let mut pod = child(
        context,
        POD,
        &instance,
        Ownership::Owned,
        json!({ "spec": spec(context, &instance, ordinal) }),
    )
    .of_instance(&instance);
    pod.body["metadata"]["annotations"] =
        json!({ "kubectl.kubernetes.io/default-container": "mysql" });
    let hash = template::hash(&pod.body, &config_hash);
    pod.body["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION] = hash.into();
    Ok(pod)
}

fn spec(context: &Context<'_>, instance: &str, ordinal: u32) -> Value {
    let scheduling = &context.cluster.spec.scheduling;
    let mut spec = json!({
        "hostname": instance,
        "subdomain": headless_service(context.name()),
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 120,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            // A volume of a million files is not walked at each start.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{
                    "weight": 100,
                    "podAffinityTerm": {
                        "topologyKey": scheduling.topology_key,
                        "labelSelector": { "matchLabels": { CLUSTER_LABEL: context.name() } },
                    },
                }],
            },
        },
        "initContainers": [install_container(context.operator_image)],
        "containers": [mysql_container(context, ordinal)],
        "volumes": volumes(context, instance),
    });
    if !scheduling.node_selector.is_empty() {
        spec["nodeSelector"] = json!(scheduling.node_selector);
    }
    if !scheduling.tolerations.is_empty() {
        spec["tolerations"] = json!(scheduling.tolerations);
    }
    if let Some(class) = &scheduling.priority_class_name {
        spec["priorityClassName"] = class.as_str().into();
    }
    spec
}

/// Copies the instance manager out of the operator's image, so that any image with mysqld works.
fn install_container(operator_image: &str) -> Value {
    json!({
        "name": "install",
        "image": operator_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/mainstay", "instance", "install", BIN],
        "securityContext": container_security(),
        "resources": {
            "requests": { "cpu": "10m", "memory": "32Mi" },
            "limits": { "memory": "128Mi" },
        },
        "volumeMounts": [{ "name": "bin", "mountPath": BIN }],
    })
}

fn mysql_container(context: &Context<'_>, ordinal: u32) -> Value {
    let cluster = context.name();
    json!({
        "name": "mysql",
        "image": image(&context.cluster.spec),
        "imagePullPolicy": "IfNotPresent",
        "command": [format!("{BIN}/mainstay"), "instance", "run"],
        "env": [
            field_env("POD_NAME", "metadata.name"),
            field_env("POD_UID", "metadata.uid"),
            field_env("POD_NAMESPACE", "metadata.namespace"),
            { "name": "CLUSTER_NAME", "value": cluster },
            { "name": "ORDINAL", "value": ordinal.to_string() },
            { "name": "MEMORY_LIMIT", "valueFrom": {
                "resourceFieldRef": { "containerName": "mysql", "resource": "limits.memory", "divisor": "1" },
            } },
            { "name": "HEADLESS_DOMAIN", "value": headless_domain(cluster, context.namespace()) },
        ],
        "ports": [
            { "name": "mysql", "containerPort": MYSQL_PORT, "protocol": "TCP" },
            { "name": "manager", "containerPort": instance::PORT, "protocol": "TCP" },
        ],
        // An hour: crash recovery and clones are long, and a probe must not end them.
        "startupProbe": probe("/startupz", 1, 5, 3600),
        "readinessProbe": probe("/readyz", 2, 2, 2),
        "livenessProbe": probe("/livez", 10, 5, 6),
        "securityContext": container_security(),
        "resources": resources(&context.cluster.spec),
        "volumeMounts": [
            mount("data", "/var/lib/mysql"),
            mount("run", "/run/mainstay"),
            mount("tmp", "/tmp"),
            read_only_mount("bin", BIN),
            read_only_mount("config", "/etc/mainstay/config"),
            read_only_mount("tls", "/etc/mainstay/tls"),
            read_only_mount("internal", "/etc/mainstay/internal"),
            read_only_mount("root", "/etc/mainstay/root"),
        ],
    })
}

/// The image of the mysql container.
fn image(spec: &MySQLClusterSpec) -> String {
    spec.image
        .clone()
        .unwrap_or_else(|| format!("docker.io/library/mysql:{}", spec.version))
}

/// What the user asks for; where that is nothing at all, enough for a small MySQL.
fn resources(spec: &MySQLClusterSpec) -> Value {
    let asked = &spec.resources;
    if asked.limits.is_none() && asked.requests.is_none() {
        return json!({
            "requests": { "cpu": "250m", "memory": "768Mi" },
            "limits": { "memory": "1Gi" },
        });
    }
    json!(asked)
}

fn volumes(context: &Context<'_>, instance: &str) -> Value {
    let cluster = context.name();
    let secret = |name: &str, secret: String, keys: &[&str]| {
        let items: Vec<_> = keys
            .iter()
            .map(|key| json!({ "key": key, "path": key }))
            .collect();
        json!({ "name": name, "secret": {
            "secretName": secret,
            "defaultMode": SECRET_MODE,
            "items": items,
        } })
    };
    json!([
        { "name": "data", "persistentVolumeClaim": { "claimName": volume_claim_name(instance) } },
        { "name": "run", "emptyDir": { "sizeLimit": "64Mi" } },
        // Unbounded: large sorts and online DDL spill here.
        { "name": "tmp", "emptyDir": {} },
        { "name": "bin", "emptyDir": { "sizeLimit": "256Mi" } },
        { "name": "config", "configMap": { "name": config_map(cluster), "defaultMode": 0o444 } },
        secret("tls", tls_secret(cluster), &["ca.crt", "tls.crt", "tls.key"]),
        secret("internal", internal_secret(cluster), &["token", "admin", "replication", "clone"]),
        secret("root", root_secret(cluster), &["password"]),
    ])
}

fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    })
}

fn probe(path: &str, period: u32, timeout: u32, failures: u32) -> Value {
    json!({
        "httpGet": { "scheme": "HTTPS", "port": "manager", "path": path },
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    })
}

fn field_env(name: &str, path: &str) -> Value {
    json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } })
}

fn mount(name: &str, path: &str) -> Value {
    json!({ "name": name, "mountPath": path })
}

fn read_only_mount(name: &str, path: &str) -> Value {
    json!({ "name": name, "mountPath": path, "readOnly": true })
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{cluster, context};
    use super::*;
    use crate::operator::kinds::Cluster;

    fn of(spec: &Value) -> Value {
        pod(&context(&cluster(spec)), 1).unwrap().body
    }

    fn hash_of(cluster: &Cluster, operator_image: &str) -> String {
        let context = Context {
            cluster,
            operator_image,
        };
        let pod = pod(&context, 1).unwrap().body;
        pod["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION]
            .as_str()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn every_container_passes_the_restricted_standard() {
        let spec = &of(&json!({}))["spec"];
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
        assert_eq!(
            spec["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        assert_eq!(spec["automountServiceAccountToken"], false);
        for container in [&spec["initContainers"][0], &spec["containers"][0]] {
            let security = &container["securityContext"];
            assert_eq!(security["allowPrivilegeEscalation"], false);
            assert_eq!(security["readOnlyRootFilesystem"], true);
            assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
            assert!(container["resources"]["requests"]["memory"].is_string());
            assert!(container["resources"]["limits"]["memory"].is_string());
        }
    }

    #[test]
    fn a_pod_has_its_dns_name_its_volume_and_no_role() {
        let pod = of(&json!({}));
        assert_eq!(pod["metadata"]["name"], "demo-1");
        assert_eq!(
            pod["metadata"]["labels"].get(super::super::ROLE_LABEL),
            None
        );
        assert_eq!(pod["spec"]["hostname"], "demo-1");
        assert_eq!(pod["spec"]["subdomain"], "demo-instances");
        assert_eq!(
            pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
            "data-demo-1"
        );
        assert!(!pod.to_string().contains("demo-ca"));
    }

    #[test]
    fn mounts_and_volumes_match() {
        let spec = &of(&json!({}))["spec"];
        let names = |list: &Value| {
            let mut names: Vec<_> = list
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["name"].to_string())
                .collect();
            names.sort();
            names
        };
        assert_eq!(
            names(&spec["volumes"]),
            names(&spec["containers"][0]["volumeMounts"])
        );
    }

    #[test]
    fn the_user_chooses_image_resources_and_place() {
        let spec = &of(&json!({
            "version": "8.4",
            "resources": { "limits": { "cpu": 2 } },
            "scheduling": {
                "nodeSelector": { "disk": "nvme" },
                "tolerations": [{ "key": "db", "operator": "Exists" }],
                "priorityClassName": "high",
                "topologyKey": "topology.kubernetes.io/zone",
            },
        }))["spec"];
        let mysql = &spec["containers"][0];
        assert_eq!(mysql["image"], "docker.io/library/mysql:8.4");
        assert_eq!(mysql["resources"], json!({ "limits": { "cpu": "2" } }));
        assert_eq!(spec["nodeSelector"]["disk"], "nvme");
        assert_eq!(
            spec["tolerations"],
            json!([{ "key": "db", "operator": "Exists" }])
        );
        assert_eq!(spec["priorityClassName"], "high");
        let term = &spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
            [0];
        assert_eq!(
            term["podAffinityTerm"]["topologyKey"],
            "topology.kubernetes.io/zone"
        );
        let named = of(&json!({ "image": "example.com/mysql:x" }));
        assert_eq!(
            named["spec"]["containers"][0]["image"],
            "example.com/mysql:x"
        );
    }

    #[test]
    fn an_upgrade_of_the_operator_changes_no_pod() {
        let demo = cluster(&json!({}));
        assert_eq!(hash_of(&demo, "mainstay:1"), hash_of(&demo, "mainstay:2"));
        // If this fails, the change replaces every pod of every cluster once the operator is
        // upgraded. Is that meant?
        assert_eq!(hash_of(&demo, "mainstay:1"), "9bc8902fcf5d7876");
    }

    #[test]
    fn what_needs_a_new_pod_changes_the_hash_and_nothing_else_does() {
        let base = hash_of(&cluster(&json!({})), "m");
        for changes in [
            json!({ "version": "9.8" }),
            json!({ "config": { "max_connections": 7 } }),
            json!({ "resources": { "limits": { "memory": "2Gi" } } }),
        ] {
            assert_ne!(hash_of(&cluster(&changes), "m"), base, "{changes}");
        }
        for same in [
            json!({ "instances": 5 }),
            json!({ "storage": { "size": "20Gi" } }),
            json!({ "resources": { "requests": { "cpu": "0.25", "memory": "768Mi" }, "limits": { "memory": "1024Mi" } } }),
        ] {
            assert_eq!(hash_of(&cluster(&same), "m"), base, "{same}");
        }
        let mut reborn = cluster(&json!({}));
        reborn.metadata.uid = "u-2".into();
        assert_eq!(hash_of(&reborn, "m"), base);
    }
}
