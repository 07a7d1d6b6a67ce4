use super::*;

#[test]
fn a_new_object_is_given_what_the_server_knows() {
    let mut world = World::new();
    let map = world.create(MAPS, config_map("m"));
    let metadata = &map["metadata"];
    assert_eq!(metadata["creationTimestamp"], "2026-11-30T10:00:00Z");
    assert_eq!(metadata["namespace"], "a");
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert_eq!(metadata["managedFields"][0]["manager"], "test");
    assert_eq!(
        metadata["resourceVersion"],
        world.state.version().to_string()
    );
    let again = world.ask(Verb::Create, MAPS, config_map("m")).unwrap_err();
    assert_eq!(
        (again.code, again.message.as_str()),
        (409, "configmaps \"m\" already exists")
    );
}

#[test]
fn names_can_be_generated() {
    let mut world = World::new();
    let body = json!({"metadata": {"generateName": "m-"}});
    let first = world.create(MAPS, body.clone());
    let second = world.create(MAPS, body);
    let name = first["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("m-") && name.len() == 7, "{name}");
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
}

#[test]
fn nothing_is_created_without_a_living_namespace() {
    let mut world = World::new();
    let error = world
        .ask(
            Verb::Create,
            "/api/v1/namespaces/b/configmaps",
            config_map("m"),
        )
        .unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (404, "namespaces \"b\" not found")
    );
    world.create(
        MAPS,
        json!({"metadata": {"name": "m", "finalizers": ["x/y"]}}),
    );
    world
        .ask(Verb::Delete, "/api/v1/namespaces/a", Value::Null)
        .unwrap();
    world.settle();
    let error = world.ask(Verb::Create, MAPS, config_map("n")).unwrap_err();
    assert_eq!(
        error.message,
        "configmaps \"n\" is forbidden: unable to create new content in namespace a because it is being terminated"
    );
}

#[test]
fn an_update_must_be_of_the_latest_version() {
    let mut world = World::new();
    let mut map = world.create(MAPS, config_map("m"));
    let path = format!("{MAPS}/m");
    world.merge(&path, json!({"data": {"x": "2"}}));
    map["data"]["x"] = json!("3");
    let error = world.ask(Verb::Update, &path, map.clone()).unwrap_err();
    assert_eq!(
        error.message,
        "Operation cannot be fulfilled on configmaps \"m\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
    map["metadata"]["resourceVersion"] = json!("");
    assert_eq!(
        world.ask(Verb::Update, &path, map).unwrap()["data"]["x"],
        "3"
    );
}

#[test]
fn a_write_without_effect_is_none() {
    let mut world = World::new();
    let map = world.create(MAPS, config_map("m"));
    let version = world.state.version();
    let again = world
        .ask(Verb::Update, &format!("{MAPS}/m"), map.clone())
        .unwrap();
    assert_eq!((world.state.version(), &again), (version, &map));
}

#[test]
fn status_and_spec_do_not_meet() {
    let mut world = World::new();
    let created = world.create(PODS, pod("p"));
    assert_eq!(created["status"]["phase"], "Pending");
    assert_eq!(created["metadata"]["generation"], 1);
    let path = format!("{PODS}/p");
    let both = json!({"status": {"phase": "Running"}, "spec": {"activeDeadlineSeconds": 5}});
    let main = world.merge(&path, both.clone());
    assert_eq!(
        (
            &main["status"]["phase"],
            &main["spec"]["activeDeadlineSeconds"]
        ),
        (&json!("Pending"), &json!(5))
    );
    assert_eq!(main["metadata"]["generation"], 2);
    let status = world.merge(
        &format!("{path}/status"),
        json!({"status": {"phase": "Running"}, "spec": {"activeDeadlineSeconds": 7}}),
    );
    assert_eq!(
        (
            &status["status"]["phase"],
            &status["spec"]["activeDeadlineSeconds"]
        ),
        (&json!("Running"), &json!(5))
    );
    assert_eq!(status["metadata"]["generation"], 2);
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut world = World::new();
    let version = world.state.version();
    let mut asked = request(Verb::Create, MAPS, config_map("m"));
    asked.options.dry_run.push("All".to_owned());
    let answer = world.write(&asked).unwrap();
    assert_eq!(object(&answer)["metadata"]["name"], "m");
    assert_eq!(world.state.version(), version);
    assert_eq!(world.get(&format!("{MAPS}/m")).unwrap_err().code, 404);
}

#[test]
fn apply_creates_and_then_owns() {
    let mut world = World::new();
    let path = format!("{MAPS}/m");
    let apply = |manager: &str, data: Value| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
        let mut asked = request(Verb::Patch(PatchKind::Apply), &path, body);
        asked.options.field_manager = Some(manager.to_owned());
        asked
    };
    let answer = world.write(&apply("one", json!({"x": "1"}))).unwrap();
    assert!(matches!(answer.reply, Reply::Object { code: 201, .. }));
    let error = world.write(&apply("two", json!({"x": "2"}))).unwrap_err();
    assert_eq!((error.code, error.reason), (409, "Conflict"));
    let version = world.state.version();
    world.write(&apply("one", json!({"x": "1"}))).unwrap();
    assert_eq!(
        world.state.version(),
        version,
        "an apply without effect is no write"
    );
}

#[test]
fn what_is_unknown_or_wrong_is_refused() {
    let mut world = World::new();
    let mut asked = request(
        Verb::Create,
        MAPS,
        json!({"metadata": {"name": "m"}, "dato": {}}),
    );
    let answer = world.write(&asked).unwrap();
    assert_eq!(answer.warnings, ["unknown field \"dato\""]);
    asked.options.field_validation = "Strict".to_owned();
    let error = world.write(&asked).unwrap_err();
    assert_eq!(
        error.message,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dato\""
    );
    let error = world
        .ask(Verb::Create, MAPS, json!({"metadata": {"name": "M"}}))
        .unwrap_err();
    assert_eq!(
        (error.code, error.details["causes"][0]["field"].as_str()),
        (422, Some("metadata.name"))
    );
    let error = world.ask(
        Verb::Create,
        PODS,
        json!({"metadata": {"name": "p"}, "spec": {"containers": []}}),
    );
    assert_eq!(
        error.unwrap_err().message,
        "Pod \"p\" is invalid: spec.containers: Required value"
    );
}

#[test]
fn events_have_two_faces() {
    let mut world = World::new();
    let event = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "a"},
        "note": "n", "reason": "R", "type": "Normal", "action": "A", "reportingController": "c",
        "reportingInstance": "i", "eventTime": "2026-11-30T10:00:00.000000Z"});
    world.create("/apis/events.k8s.io/v1/namespaces/a/events", event);
    let core = world.get("/api/v1/namespaces/a/events/e").unwrap();
    assert_eq!(
        (&core["message"], &core["involvedObject"]["name"]),
        (&json!("n"), &json!("p"))
    );
    let mut asked = request(
        Verb::List,
        "/apis/events.k8s.io/v1/namespaces/a/events",
        Value::Null,
    );
    asked.options.field_selector = "regarding.name=p".to_owned();
    assert_eq!(world.state.list(&asked).unwrap().0.entries.len(), 1);
}

#[test]
fn events_go_after_an_hour() {
    let mut world = World::new();
    let event = |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "a"}});
    let path = "/api/v1/namespaces/a/events";
    let at = |world: &mut World, time: &str, name: &str| {
        let context = Context {
            now: time.parse().unwrap(),
            conversions: &world.known,
        };
        world
            .state
            .write(&request(Verb::Create, path, event(name)), context)
            .unwrap();
    };
    at(&mut world, "2026-11-30T10:00:00Z", "old");
    at(&mut world, "2026-11-30T10:59:59Z", "young");
    assert!(world.get(&format!("{path}/old")).is_ok());
    at(&mut world, "2026-11-30T11:00:00Z", "new");
    assert_eq!(world.get(&format!("{path}/old")).unwrap_err().code, 404);
    assert!(world.get(&format!("{path}/young")).is_ok());
}

#[test]
fn services_have_addresses_of_their_own() {
    let mut world = World::new();
    let service =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let one = world.create("/api/v1/namespaces/a/services", service("one"));
    let two = world.create("/api/v1/namespaces/a/services", service("two"));
    assert_ne!(one["spec"]["clusterIP"], two["spec"]["clusterIP"]);
    assert_eq!(
        one["spec"]["ports"][0],
        json!({"port": 80, "targetPort": 80, "protocol": "TCP"})
    );
    let error = world
        .ask(
            Verb::Patch(PatchKind::Merge),
            "/api/v1/namespaces/a/services/one",
            json!({"spec": {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"]}}),
        )
        .unwrap_err();
    assert_eq!(error.code, 422);
}

#[test]
fn scale_is_the_replicas_of_the_spec() {
    let mut world = World::new();
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    world.create("/apis/apps/v1/namespaces/a/deployments", deployment);
    let path = "/apis/apps/v1/namespaces/a/deployments/d";
    let scale = world.get(&format!("{path}/scale")).unwrap();
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!(1), &json!("a=b"))
    );
    let scale = world.merge(&format!("{path}/scale"), json!({"spec": {"replicas": 3}}));
    assert_eq!(scale["spec"]["replicas"], 3);
    let deployment = world.get(path).unwrap();
    assert_eq!(
        (
            &deployment["spec"]["replicas"],
            &deployment["metadata"]["generation"]
        ),
        (&json!(3), &json!(2))
    );
}
