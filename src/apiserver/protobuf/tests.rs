use super::*;
use serde_json::json;

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    [&[number << 3 | 2, length][..], content].concat()
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &meta), field(2, raw)].concat()
}

#[test]
fn a_config_map_is_read_as_its_json() {
    let metadata = [field(1, b"a"), field(8, b""), vec![7 << 3, 0]].concat();
    let pair = [field(1, b"key"), field(2, b"value")].concat();
    let raw = [field(1, &metadata), field(2, &pair)].concat();
    assert_eq!(
        decode(&body("v1", "ConfigMap", &raw)).unwrap(),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "value"}})
    );
}

#[test]
fn zeroes_count_where_they_are_pointers() {
    // spec: replicas 0 (a pointer), minReadySeconds 0 (none).
    let raw = field(2, &[1 << 3, 0, 5 << 3, 0]);
    assert_eq!(
        decode(&body("apps/v1", "Deployment", &raw)).unwrap()["spec"],
        json!({"replicas": 0})
    );
}

#[test]
fn what_go_embeds_is_in_the_object_itself() {
    // A probe with httpGet { port: IntOrString { type: text, "http" } }.
    let port = [vec![1 << 3, 1], field(3, b"http")].concat();
    let handler = field(2, &field(2, &port));
    let probe = [field(1, &handler), vec![4 << 3, 7]].concat();
    let value = value("core.v1.Probe", &Raw::Bytes(&probe), DEPTH).unwrap();
    assert_eq!(
        value,
        json!({"httpGet": {"port": "http"}, "periodSeconds": 7})
    );
}

#[test]
fn what_is_broken_is_refused() {
    assert_eq!(decode(b"{}").unwrap_err().code, 400);
    assert_eq!(decode(&body("v1", "Nothing", b"")).unwrap_err().code, 400);
    assert_eq!(
        decode(&body("v1", "Pod", &[1 << 3 | 2, 200]))
            .unwrap_err()
            .code,
        400
    );
}

#[test]
fn every_type_that_is_named_is_there() {
    let table = Table::shared();
    let text = include_str!("kinds.messages");
    for line in text.lines().filter(|line| line.starts_with(' ')) {
        let of = line
            .split_whitespace()
            .nth(2)
            .unwrap()
            .trim_matches(['[', ']', '{', '}']);
        let known = table.fields(of).is_some()
            || !matches!(scalar::read(of, &Raw::Bytes(b"")), Ok(None))
            || of.starts_with("apiextensions.v1.JSON");
        assert!(known, "{of}");
    }
}
