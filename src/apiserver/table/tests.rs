//! Rows, held against those that kube-apiserver 1.37.2 was recorded to answer (`testdata/rows.json`).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{IncludeObject, table};
use crate::apiserver::{ColumnInfo, ResourceInfo};

fn now(text: &Value) -> Timestamp {
    text.as_str().expect("a text").parse().expect("a time")
}

#[test]
fn built_in_kinds_are_printed_as_a_real_server_does() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("testdata/rows.json")).expect("JSON");
    let mut wrong = Vec::new();
    for case in &cases {
        let info = ResourceInfo {
            group: case["group"].as_str().expect("a group").to_owned(),
            kind: case["kind"].as_str().expect("a kind").to_owned(),
            ..ResourceInfo::default()
        };
        let object = &case["object"];
        let include = IncludeObject::None;
        let made = table(
            &info,
            &[object],
            &json!({}),
            include,
            true,
            now(&case["now"]),
        );
        let row = &made["rows"][0];
        if row["cells"] != case["cells"] || row.get("conditions") != case.get("conditions") {
            wrong.push((row.to_string(), case["cells"].to_string()));
        }
        let columns = made["columnDefinitions"].as_array().expect("columns").len();
        assert_eq!(columns, case["cells"].as_array().expect("cells").len());
    }
    assert!(
        wrong.is_empty(),
        "{} of {}: {wrong:#?}",
        wrong.len(),
        cases.len()
    );
}

#[test]
fn defined_kinds_are_printed_by_their_columns() {
    let column = |name: &str, kind: &str, json_path: &str| ColumnInfo {
        name: name.to_owned(),
        kind: kind.to_owned(),
        json_path: json_path.to_owned(),
        ..ColumnInfo::default()
    };
    let mut info = ResourceInfo {
        group: "x.example.com".to_owned(),
        kind: "Check".to_owned(),
        columns: vec![
            column("Text", "string", ".spec.text"),
            column("Count", "integer", ".spec.count"),
            column("Not", "integer", ".spec.text"),
            column("List", "string", ".spec.list"),
            column("Since", "date", ".metadata.creationTimestamp"),
            column("Bad", "date", ".spec.text"),
            column("Gone", "string", ".spec.gone"),
        ],
        ..ResourceInfo::default()
    };
    let object = json!({
        "apiVersion": "x.example.com/v1",
        "kind": "Check",
        "metadata": {"name": "a", "creationTimestamp": "2026-11-30T00:00:00Z"},
        "spec": {"text": "t", "count": 3, "list": [1, "b"]},
    });
    let at = now(&json!("2026-11-30T00:05:00Z"));
    let meta = json!({"resourceVersion": "7"});
    let made = table(&info, &[&object], &meta, IncludeObject::Metadata, true, at);
    assert_eq!(
        made["rows"][0]["cells"],
        json!(["a", "t", 3, null, "[1,\"b\"]", "5m", "<invalid>", null])
    );
    assert_eq!(made["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(made["columnDefinitions"][2]["type"], "integer");
    assert_eq!(made["metadata"], meta);

    info.columns.clear();
    let made = table(&info, &[&object], &meta, IncludeObject::Object, false, at);
    assert_eq!(made["rows"][0]["cells"], json!(["a", "5m"]));
    assert_eq!(made["rows"][0]["object"], object);
    assert_eq!(made["columnDefinitions"], Value::Null);
}
