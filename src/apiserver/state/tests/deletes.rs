use super::*;

fn scheduled(world: &mut World, name: &str) -> String {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = json!("n");
    world.create(PODS, pod);
    format!("{PODS}/{name}")
}

#[test]
fn an_object_goes_at_once() {
    let mut world = World::new();
    let map = world.create(MAPS, config_map("m"));
    let mut watch = world
        .watch(MAPS, |options| {
            options.resource_version = world.state.version().to_string();
        })
        .unwrap();
    let status = world
        .ask(Verb::Delete, &format!("{MAPS}/m"), Value::Null)
        .unwrap();
    assert_eq!(status["status"], "Success");
    assert_eq!(
        status["details"],
        json!({"name": "m", "kind": "configmaps", "uid": map["metadata"]["uid"]})
    );
    assert_eq!(
        world.heard(&mut watch).unwrap(),
        [format!("DELETED a/m@{}", world.state.version())]
    );
}

#[test]
fn finalizers_hold_it_and_let_it_go() {
    let mut world = World::new();
    world.create(
        MAPS,
        json!({"metadata": {"name": "m", "finalizers": ["x/y"]}}),
    );
    let path = format!("{MAPS}/m");
    let pending = world.ask(Verb::Delete, &path, Value::Null).unwrap();
    assert_eq!(pending["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(pending["metadata"]["deletionTimestamp"].is_string());
    let version = world.state.version();
    world.ask(Verb::Delete, &path, Value::Null).unwrap();
    assert_eq!(
        world.state.version(),
        version,
        "a second deletion changes nothing"
    );
    let error = world
        .ask(
            Verb::Patch(PatchKind::Merge),
            &path,
            json!({"metadata": {"finalizers": ["x/y", "z/w"]}}),
        )
        .unwrap_err();
    assert_eq!(error.code, 422);
    world.merge(&path, json!({"metadata": {"finalizers": null}}));
    assert_eq!(world.get(&path).unwrap_err().code, 404);
}

#[test]
fn a_pod_on_a_node_waits_for_its_kubelet() {
    let mut world = World::new();
    let path = scheduled(&mut world, "p");
    let pending = world.ask(Verb::Delete, &path, Value::Null).unwrap();
    assert_eq!(pending["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(
        pending["metadata"]["deletionTimestamp"],
        "2026-11-30T10:00:30Z"
    );
    let shorter = world
        .ask(Verb::Delete, &path, json!({"gracePeriodSeconds": 5}))
        .unwrap();
    assert_eq!(
        shorter["metadata"]["deletionTimestamp"],
        "2026-11-30T10:00:05Z"
    );
    let longer = world
        .ask(Verb::Delete, &path, json!({"gracePeriodSeconds": 50}))
        .unwrap();
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 5);
    world
        .ask(Verb::Delete, &path, json!({"gracePeriodSeconds": 0}))
        .unwrap();
    assert_eq!(world.get(&path).unwrap_err().code, 404);
}

#[test]
fn a_pod_without_a_node_goes_at_once() {
    let mut world = World::new();
    world.create(PODS, pod("p"));
    world
        .ask(Verb::Delete, &format!("{PODS}/p"), Value::Null)
        .unwrap();
    assert_eq!(world.get(&format!("{PODS}/p")).unwrap_err().code, 404);
}

#[test]
fn preconditions_name_one_object() {
    let mut world = World::new();
    world.create(MAPS, config_map("m"));
    let path = format!("{MAPS}/m");
    for preconditions in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let error = world
            .ask(Verb::Delete, &path, json!({"preconditions": preconditions}))
            .unwrap_err();
        assert_eq!(error.code, 409);
    }
    assert!(world.get(&path).is_ok());
}

#[test]
fn a_collection_goes_by_its_selector() {
    let mut world = World::new();
    for (name, label) in [("a", "x"), ("b", "y"), ("c", "x")] {
        world.create(
            MAPS,
            json!({"metadata": {"name": name, "labels": {"l": label}}}),
        );
    }
    let mut asked = request(Verb::DeleteCollection, MAPS, Value::Null);
    asked.options.label_selector = "l=x".to_owned();
    world.write(&asked).unwrap();
    assert!(world.get(&format!("{MAPS}/b")).is_ok());
    assert_eq!(world.get(&format!("{MAPS}/a")).unwrap_err().code, 404);
}

#[test]
fn a_namespace_takes_its_content_with_it() {
    let mut world = World::new();
    world.create(MAPS, config_map("m"));
    let pending = world
        .ask(Verb::Delete, "/api/v1/namespaces/a", Value::Null)
        .unwrap();
    assert_eq!(pending["status"]["phase"], "Terminating");
    world.settle();
    assert_eq!(world.get(&format!("{MAPS}/m")).unwrap_err().code, 404);
    assert_eq!(world.get("/api/v1/namespaces/a").unwrap_err().code, 404);
    world.create(
        "/api/v1/namespaces",
        json!({"metadata": {"name": "default"}}),
    );
    let error = world
        .ask(Verb::Delete, "/api/v1/namespaces/default", Value::Null)
        .unwrap_err();
    assert_eq!(
        error.message,
        "namespaces \"default\" is forbidden: this namespace may not be deleted"
    );
}

#[test]
fn an_eviction_asks_the_budget() {
    let mut world = World::new();
    let mut body = pod("p");
    body["metadata"]["labels"] = json!({"app": "db"});
    body["spec"]["nodeName"] = json!("n");
    world.create(PODS, body);
    world.merge(
        &format!("{PODS}/p/status"),
        json!({"status": {"phase": "Running"}}),
    );
    let budgets = "/apis/policy/v1/namespaces/a/poddisruptionbudgets";
    world.create(
        budgets,
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}}),
    );
    let eviction = format!("{PODS}/p/eviction");
    let error = world
        .ask(Verb::Create, &eviction, json!({"metadata": {"name": "p"}}))
        .unwrap_err();
    assert_eq!(error.code, 429);
    world.merge(
        &format!("{budgets}/b/status"),
        json!({"status": {"disruptionsAllowed": 1}}),
    );
    world
        .ask(Verb::Create, &eviction, json!({"metadata": {"name": "p"}}))
        .unwrap();
    assert!(world.get(&format!("{PODS}/p")).unwrap()["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn a_binding_puts_a_pod_on_a_node_once() {
    let mut world = World::new();
    world.create(PODS, pod("p"));
    let binding =
        |node: &str| json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}});
    let path = format!("{PODS}/p/binding");
    world.ask(Verb::Create, &path, binding("n")).unwrap();
    assert_eq!(
        world.get(&format!("{PODS}/p")).unwrap()["spec"]["nodeName"],
        "n"
    );
    assert_eq!(
        world
            .ask(Verb::Create, &path, binding("m"))
            .unwrap_err()
            .code,
        409
    );
}
