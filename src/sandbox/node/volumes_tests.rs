//! The writes are carried out on plain objects until there are no more.

use super::*;
use crate::runtime::Kind;

/// Claims, volumes, classes and pods as an API server keeps them, as far as it matters here.
struct Objects {
    claims: Vec<Value>,
    volumes: Vec<Value>,
    classes: Vec<Value>,
    pods: Vec<Value>,
    reclaimed: Vec<String>,
    version: u64,
}

fn all<K: Kind>(objects: &[Value]) -> Vec<K> {
    let one = |object: &Value| serde_json::from_value(object.clone()).unwrap();
    objects.iter().map(one).collect()
}

fn merge(target: &mut Value, patch: &Value) {
    match patch.as_object() {
        None => *target = patch.clone(),
        Some(patch) => {
            for (key, value) in patch {
                merge(&mut target[key], value);
            }
        }
    }
}

impl Objects {
    fn new() -> Self {
        Self {
            claims: vec![json!({
                "metadata": { "name": "data-demo-0", "namespace": "ns", "uid": "c", "resourceVersion": "1" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            })],
            volumes: vec![],
            classes: vec![standard_class()],
            pods: vec![],
            reclaimed: vec![],
            version: 1,
        }
    }

    fn next(&self) -> Vec<Write> {
        let (claims, volumes) = (all::<Claim>(&self.claims), all::<Volume>(&self.volumes));
        let (classes, pods) = (all::<StorageClass>(&self.classes), all::<Pod>(&self.pods));
        decide(&World {
            claims: &claims.iter().collect::<Vec<_>>(),
            volumes: &volumes.iter().collect::<Vec<_>>(),
            classes: &classes.iter().collect::<Vec<_>>(),
            pods: &pods.iter().collect::<Vec<_>>(),
        })
    }

    /// Carries out what is due until nothing is.
    fn settle(&mut self) -> &mut Self {
        for _ in 0..20 {
            let writes = self.next();
            let Some(write) = writes.into_iter().next() else {
                return self;
            };
            self.version += 1;
            match write {
                Write::Create(mut volume) => {
                    volume["metadata"]["uid"] = "v".into();
                    volume["metadata"]["resourceVersion"] = self.version.to_string().into();
                    self.volumes.push(volume);
                }
                Write::Claim(_, patch) | Write::ClaimStatus(_, patch) => {
                    change(&mut self.claims, &patch, self.version);
                }
                Write::Volume(_, patch) | Write::VolumeStatus(_, patch) => {
                    change(&mut self.volumes, &patch, self.version);
                }
                Write::Delete(..) => {
                    self.volumes[0]["metadata"]["deletionTimestamp"] =
                        "2026-01-01T00:00:00Z".into();
                }
                Write::Reclaim(name, patch) => {
                    self.reclaimed.push(name);
                    change(&mut self.volumes, &patch, self.version);
                }
            }
        }
        panic!("does not come to rest: {:?}", self.next());
    }

    fn select_node(&mut self) -> &mut Self {
        self.claims[0]["metadata"]["annotations"] = json!({ SELECTED_NODE: "n" });
        self
    }
}

fn change(objects: &mut Vec<Value>, patch: &Value, version: u64) {
    let object = &mut objects[0];
    for guard in ["uid", "resourceVersion"] {
        assert_eq!(
            patch["metadata"][guard], object["metadata"][guard],
            "{patch}"
        );
    }
    merge(object, patch);
    object["metadata"]["resourceVersion"] = version.to_string().into();
    let metadata = &object["metadata"];
    let done = metadata["finalizers"].as_array().is_some_and(Vec::is_empty);
    if metadata.get("deletionTimestamp").is_some() && done {
        objects.clear();
    }
}

#[test]
fn a_claim_is_bound_once_its_pod_has_a_node() {
    let mut objects = Objects::new();
    objects.settle();
    let claim = &objects.claims[0];
    assert_eq!(claim["spec"]["storageClassName"], "standard", "the default");
    assert_eq!(claim["status"]["phase"], "Pending");
    assert_eq!(claim["metadata"]["finalizers"], json!([CLAIM_PROTECTION]));
    assert!(objects.volumes.is_empty());

    objects.select_node().settle();
    let (claim, volume) = (&objects.claims[0], &objects.volumes[0]);
    assert_eq!(claim["spec"]["volumeName"], "pvc-c");
    assert_eq!(claim["status"]["phase"], "Bound");
    assert_eq!(claim["status"]["capacity"]["storage"], "1Gi");
    assert_eq!(volume["status"]["phase"], "Bound");
    assert_eq!(volume["spec"]["claimRef"]["uid"], "c");
}

#[test]
fn a_class_may_bind_at_once_and_one_of_another_provisioner_is_left_alone() {
    let mut objects = Objects::new();
    objects.classes[0]["volumeBindingMode"] = "Immediate".into();
    assert_eq!(objects.settle().claims[0]["status"]["phase"], "Bound");
    let mut objects = Objects::new();
    objects.classes[0]["provisioner"] = "example.com/disks".into();
    objects.select_node().settle();
    assert_eq!(objects.claims[0]["status"]["phase"], "Pending");
    assert!(objects.volumes.is_empty());
}

#[test]
fn a_claim_grows() {
    let mut objects = Objects::new();
    objects.select_node().settle();
    objects.claims[0]["spec"]["resources"]["requests"]["storage"] = "2048Mi".into();
    objects.settle();
    assert_eq!(objects.volumes[0]["spec"]["capacity"]["storage"], "2048Mi");
    assert_eq!(objects.claims[0]["status"]["capacity"]["storage"], "2048Mi");
    objects.claims[0]["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
    assert_eq!(objects.next(), [], "the same size in other words");
}

#[test]
fn a_deleted_claim_stays_while_a_pod_uses_it_then_goes_with_its_data() {
    let mut objects = Objects::new();
    objects.select_node().settle();
    objects.pods.push(json!({
        "metadata": { "name": "demo-0", "namespace": "ns" },
        "spec": { "nodeName": "n", "containers": [], "volumes": [
            { "name": "data", "persistentVolumeClaim": { "claimName": "data-demo-0" } } ] },
    }));
    objects.claims[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    objects.settle();
    assert_eq!((objects.claims.len(), objects.volumes.len()), (1, 1));
    objects.pods.clear();
    objects.settle();
    assert_eq!((objects.claims.len(), objects.volumes.len()), (0, 0));
    assert_eq!(objects.reclaimed, ["pvc-c"]);
}

#[test]
fn a_retained_volume_outlives_its_claim() {
    let mut objects = Objects::new();
    objects.classes[0]["reclaimPolicy"] = "Retain".into();
    objects.select_node().settle();
    objects.claims[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    objects.settle();
    assert_eq!(objects.volumes[0]["status"]["phase"], "Released");
    assert_eq!(objects.reclaimed, Vec::<String>::new());
}
