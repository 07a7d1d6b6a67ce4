use serde_json::json;

use super::*;

fn decode(group: &str, kind: &str, object: &mut Value) -> Result<Vec<String>, String> {
    MergeSchema::builtin(group, kind).decode(object)
}

#[test]
fn what_a_kind_does_not_have_is_left_out_and_named() {
    let mut pod = json!({
        "metadata": {"name": "a", "labels": {"any": "thing"}},
        "spec": {"wrong": 1, "containers": [{"name": "c", "imagePull": "Always", "resources": {"limit": {}}}]},
    });
    assert_eq!(
        decode("", "Pod", &mut pod).unwrap(),
        [
            "spec.containers[0].imagePull",
            "spec.containers[0].resources.limit",
            "spec.wrong"
        ]
    );
    assert_eq!(
        pod,
        json!({
            "metadata": {"name": "a", "labels": {"any": "thing"}},
            "spec": {"containers": [{"name": "c", "resources": {}}]},
        })
    );
}

#[test]
fn what_is_of_another_type_is_refused_in_gos_words() {
    let of =
        |group: &str, kind: &str, mut object: Value| decode(group, kind, &mut object).unwrap_err();
    assert_eq!(
        of("", "ConfigMap", json!({"data": {"k": 1}})),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    );
    assert_eq!(
        of("", "ConfigMap", json!({"data": ["a"]})),
        "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string"
    );
    assert_eq!(
        of("", "ConfigMap", json!({"metadata": []})),
        "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type v1.ObjectMeta"
    );
    assert_eq!(
        of(
            "",
            "Service",
            json!({"spec": {"ports": [{"port": "many"}]}})
        ),
        "json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32"
    );
    assert_eq!(
        of("", "Secret", json!({"data": {"a": "%"}})),
        "illegal base64 data at input byte 0"
    );
    assert_eq!(
        of(
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"renewTime": "2020-01-01T00:00:00.5Z"}})
        ),
        "parsing time \"2020-01-01T00:00:00.5Z\" as \"2006-01-02T15:04:05.000000Z07:00\": \
         cannot parse \".5Z\" as \".000000\""
    );
    assert_eq!(
        of(
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"renewTime": "now"}})
        ),
        "parsing time \"now\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"now\" as \"2006\""
    );
}

#[test]
fn times_and_quantities_have_one_form() {
    let mut claim = json!({
        "metadata": {"creationTimestamp": "2020-01-01T02:00:00.7+02:00"},
        "spec": {"resources": {"requests": {"storage": "1.5Gi", "other": 1}}},
    });
    decode("", "PersistentVolumeClaim", &mut claim).unwrap();
    assert_eq!(
        claim["metadata"]["creationTimestamp"],
        "2020-01-01T00:00:00Z"
    );
    assert_eq!(
        claim["spec"]["resources"]["requests"],
        json!({"storage": "1536Mi", "other": "1"})
    );
}
