use serde_json::json;

use super::*;

fn patched(kind: &str, target: Value, patch: &Value) -> std::result::Result<Value, ApiError> {
    let mut target = target;
    strategic(&mut target, patch, &MergeSchema::builtin("", kind)).map(|()| target)
}

fn pod(spec: Value) -> Value {
    Value::Object([("spec".to_owned(), spec)].into_iter().collect())
}

#[test]
fn lists_merge_by_key_and_scalars_as_sets() {
    let target = json!({
        "metadata": {"finalizers": ["a"], "labels": {"x": "1", "y": "2"}},
        "spec": {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}]},
    });
    let patch = json!({
        "metadata": {"finalizers": ["b", "a"], "labels": {"x": null, "z": "3"}},
        "spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "1"}, {"name": "a", "args": ["y"]}]},
    });
    assert_eq!(
        patched("Pod", target, &patch),
        Ok(json!({
            "metadata": {"finalizers": ["b", "a"], "labels": {"y": "2", "z": "3"}},
            "spec": {"containers": [
                {"name": "b", "image": "2"}, {"name": "c", "image": "1"},
                {"name": "a", "image": "1", "args": ["y"]},
            ]},
        }))
    );
}

#[test]
fn directives_delete_and_replace() {
    let target = pod(json!({
        "containers": [{"name": "a"}, {"name": "b"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "securityContext": {"runAsUser": 1, "fsGroup": 2},
        "dnsConfig": {"searches": ["x"]},
    }));
    let patch = pod(json!({
        "containers": [{"name": "a", "$patch": "delete"}],
        "volumes": [{"$patch": "replace"}, {"name": "w", "emptyDir": {}}],
        "securityContext": {"$patch": "replace", "runAsUser": 3},
        "dnsConfig": {"$patch": "delete"},
        "hostAliases": [{"$patch": "delete", "ip": "1.2.3.4"}],
    }));
    assert_eq!(
        patched("Pod", target, &patch),
        Ok(pod(json!({
            "containers": [{"name": "b"}],
            "volumes": [{"name": "w", "emptyDir": {}}],
            "securityContext": {"runAsUser": 3},
            "dnsConfig": {},
            "hostAliases": [],
        })))
    );
}

#[test]
fn primitive_lists_lose_items() {
    let target = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
    let patch = json!({"metadata": {
        "$deleteFromPrimitiveList/finalizers": ["b", "z"],
        "$setElementOrder/finalizers": ["c", "a"],
    }});
    assert_eq!(
        patched("Pod", target, &patch),
        Ok(json!({"metadata": {"finalizers": ["c", "a"]}}))
    );
}

#[test]
fn the_order_of_the_patch_wins_and_the_servers_items_keep_their_place() {
    let names = |names: &[&str]| {
        let list: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        Value::Array(list)
    };
    let target = pod(json!({"containers": names(&["server", "a", "b", "c"])}));
    let patch = pod(json!({
        "$setElementOrder/containers": names(&["c", "new", "a", "b"]),
        "containers": names(&["new"]),
    }));
    assert_eq!(
        patched("Pod", target.clone(), &patch),
        Ok(pod(
            json!({"containers": names(&["server", "c", "new", "a", "b"])})
        ))
    );
    let patch = pod(json!({
        "$setElementOrder/containers": names(&["a", "b"]),
        "containers": names(&["b", "a"]),
    }));
    assert_eq!(
        patched("Pod", target, &patch)
            .expect_err("out of order")
            .code,
        500
    );
}

#[test]
fn only_retained_keys_stay() {
    let target = pod(json!({"volumes": [{"name": "v", "emptyDir": {}}]}));
    let patch = pod(json!({
        "volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}],
    }));
    assert_eq!(
        patched("Pod", target.clone(), &patch),
        Ok(pod(
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]})
        ))
    );
    let patch = pod(json!({"volumes": [{"name": "v", "$retainKeys": ["name"], "hostPath": {}}]}));
    let refused = patched("Pod", target, &patch).expect_err("not retained");
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (400, "invalid patch format of retainKeys")
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let target = pod(json!({"containers": [{"name": "a"}]}));
    for (patch, message) in [
        (
            json!({"containers": [{"image": "x"}]}),
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"containers": [{"name": "a", "$patch": "merge"}]}),
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"$patch": "drop"}),
            "unknown patch type: drop in map: map[$patch:drop]",
        ),
    ] {
        let refused = patched("Pod", target.clone(), &pod(patch)).expect_err(message);
        assert_eq!((refused.code, refused.message.as_str()), (500, message));
    }
    for directive in ["$deleteFromPrimitiveList", "$setElementOrder"] {
        let mut patch = json!({});
        patch[directive] = json!([]);
        assert_eq!(
            patched("Pod", target.clone(), &patch)
                .expect_err(directive)
                .code,
            400
        );
    }
    assert_eq!(
        patched("Pod", target, &json!([])).expect_err("a list").code,
        400
    );
}
