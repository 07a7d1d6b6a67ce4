//! Configuration, from objects that are simply there.

use super::*;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

#[derive(Default)]
struct World {
    secrets: BTreeMap<String, BTreeMap<String, ByteString>>,
    config_maps: BTreeMap<String, BTreeMap<String, String>>,
    claims: BTreeMap<String, Value>,
}

impl Lookup for World {
    fn secret(&self, _: &str, name: &str) -> Option<Arc<Secret>> {
        let data = Some(self.secrets.get(name)?.clone());
        Some(Arc::new(Secret {
            data,
            ..Secret::default()
        }))
    }

    fn config_map(&self, _: &str, name: &str) -> Option<Arc<ConfigMap>> {
        let data = Some(self.config_maps.get(name)?.clone());
        Some(Arc::new(ConfigMap {
            data,
            ..ConfigMap::default()
        }))
    }

    fn claim(&self, _: &str, name: &str) -> Option<Arc<Claim>> {
        let claim = serde_json::from_value(self.claims.get(name)?.clone()).unwrap();
        Some(Arc::new(claim))
    }
}

fn world() -> World {
    let mut world = World::default();
    let password = BTreeMap::from([("password".to_owned(), ByteString(b"s3cret".to_vec()))]);
    world.secrets.insert("root".to_owned(), password);
    let config = BTreeMap::from([("my.cnf".to_owned(), "[mysqld]".to_owned())]);
    world.config_maps.insert("config".to_owned(), config);
    world
}

fn pod(container: &Value, volumes: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "demo-0", "namespace": "ns", "uid": "u", "labels": { "a/b": "c" } },
        "spec": { "containers": [container], "volumes": volumes, "nodeName": "node-1" },
    }))
    .unwrap()
}

fn place() -> PodRef {
    PodRef {
        namespace: "ns".to_owned(),
        name: "demo-0".to_owned(),
        uid: "u".to_owned(),
        ip: "10.0.0.1".parse().unwrap(),
        host: None,
    }
}

fn environment_of(container: &Value) -> Result<BTreeMap<String, String>, Problem> {
    let pod = pod(container, &json!([]));
    environment(&pod, &pod.spec.containers[0], &place(), &world())
}

#[test]
fn variables_come_from_fields_resources_secrets_and_each_other() {
    let from = |name: &str, source: Value| json!({ "name": name, "valueFrom": source });
    let env = environment_of(&json!({
        "name": "mysql",
        "resources": { "limits": { "memory": "1Gi", "cpu": "1500m" } },
        "env": [
            from("NAME", json!({ "fieldRef": { "fieldPath": "metadata.name" } })),
            from("LABEL", json!({ "fieldRef": { "fieldPath": "metadata.labels['a/b']" } })),
            from("IP", json!({ "fieldRef": { "fieldPath": "status.podIP" } })),
            from("MEMORY", json!({ "resourceFieldRef": { "resource": "limits.memory", "divisor": "1" } })),
            from("CPU", json!({ "resourceFieldRef": { "resource": "limits.cpu" } })),
            from("PASSWORD", json!({ "secretKeyRef": { "name": "root", "key": "password" } })),
            from("NONE", json!({ "secretKeyRef": { "name": "no", "key": "x", "optional": true } })),
            { "name": "URL", "value": "mysql://$(NAME)/$(UNKNOWN)?$$(IP)" },
        ],
    }))
    .unwrap();
    let of = |name: &str| env.get(name).map(String::as_str);
    assert_eq!(of("NAME"), Some("demo-0"));
    assert_eq!(of("LABEL"), Some("c"));
    assert_eq!(of("IP"), Some("10.0.0.1"));
    assert_eq!(of("MEMORY"), Some("1073741824"));
    assert_eq!(of("CPU"), Some("2"), "rounded up");
    assert_eq!(of("PASSWORD"), Some("s3cret"));
    assert_eq!(of("NONE"), None);
    assert_eq!(of("URL"), Some("mysql://demo-0/$(UNKNOWN)?$(IP)"));
}

#[test]
fn what_is_not_there_is_named() {
    let missing = |source: Value| {
        environment_of(&json!({ "name": "c", "env": [{ "name": "X", "valueFrom": source }] }))
            .unwrap_err()
    };
    assert_eq!(
        missing(json!({ "secretKeyRef": { "name": "no", "key": "x" } })),
        "secret \"no\" not found"
    );
    assert_eq!(
        missing(json!({ "secretKeyRef": { "name": "root", "key": "x" } })),
        "couldn't find key x in Secret ns/root"
    );
}

#[test]
fn volumes_hold_what_they_name_or_say_what_is_missing() {
    let volumes_of = |world: &World, volume: Value| {
        volumes(&pod(&json!({ "name": "c" }), &json!([volume])), world)
            .map(|volumes| volumes.into_iter().next().unwrap().content)
    };
    let mut world = world();
    let secret = json!({ "name": "root", "secret": {
        "secretName": "root", "defaultMode": 0o440,
        "items": [{ "key": "password", "path": "pw" }],
    } });
    let files = BTreeMap::from([("pw".to_owned(), b"s3cret".to_vec())]);
    assert!(volumes_of(&world, secret) == Ok(Content::Files(files, 0o440)));
    let map = json!({ "name": "config", "configMap": { "name": "config" } });
    let files = BTreeMap::from([("my.cnf".to_owned(), b"[mysqld]".to_vec())]);
    assert!(volumes_of(&world, map) == Ok(Content::Files(files, 0o644)));
    let gone = json!({ "name": "tls", "secret": { "secretName": "tls" } });
    assert_eq!(
        volumes_of(&world, gone).err().unwrap(),
        "MountVolume.SetUp failed for volume \"tls\" : secret \"tls\" not found"
    );
    let claim = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "data" } });
    assert!(
        volumes_of(&world, claim.clone())
            .err()
            .unwrap()
            .contains("not found")
    );
    let bound = json!({ "spec": { "volumeName": "pvc-1" }, "status": { "phase": "Bound" } });
    world.claims.insert("data".to_owned(), bound);
    assert!(volumes_of(&world, claim) == Ok(Content::Persistent("pvc-1".to_owned())));
}

#[test]
fn a_probe_finds_its_port_by_name() {
    let container: Container = serde_json::from_value(json!({
        "name": "c", "ports": [{ "name": "manager", "containerPort": 8443 }],
    }))
    .unwrap();
    let probe = |probe: Value| serde_json::from_value::<Probe>(probe).unwrap();
    let get = json!({ "httpGet": { "scheme": "HTTPS", "port": "manager", "path": "/livez" } });
    assert_eq!(
        check(&container, &probe(get)),
        Ok(Check::Http {
            port: 8443,
            path: "/livez".to_owned(),
            tls: true
        })
    );
    let tcp = json!({ "tcpSocket": { "port": "nothing" } });
    assert!(check(&container, &probe(tcp)).is_err());
}
