use super::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn version(name: &str, storage: bool) -> Value {
    json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "default": 3}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}})
}

fn definition(conversion: Value) -> Value {
    json!({"metadata": {"name": "things.g.io"}, "spec": {"group": "g.io", "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"}, "conversion": conversion,
        "versions": [version("v1", true), version("v2", false)]}})
}

fn thing() -> Value {
    json!({"apiVersion": "g.io/v2", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"other": 1}})
}

const V1: &str = "/apis/g.io/v1/namespaces/a/things";
const V2: &str = "/apis/g.io/v2/namespaces/a/things";

#[test]
fn a_definition_is_served_at_once_and_goes_with_its_instances() {
    let mut world = World::new();
    assert_eq!(
        world.get(&format!("{V1}/t")).unwrap_err().message,
        "the server could not find the requested resource"
    );
    world.create(DEFINITIONS, definition(json!({"strategy": "None"})));
    let created = world.create(V2, thing());
    assert_eq!(created["spec"], json!({"size": 3}), "pruned and defaulted");
    let error = world
        .ask(
            Verb::Patch(PatchKind::Merge),
            &format!("{V1}/t"),
            json!({"spec": {"size": 0}}),
        )
        .unwrap_err();
    assert_eq!(
        (error.code, error.details["causes"][0]["field"].as_str()),
        (422, Some("spec.size"))
    );
    world.merge(
        &format!("{V1}/t/status"),
        json!({"status": {"x": 1}, "spec": {"size": 9}}),
    );
    let thing = world.get(&format!("{V1}/t")).unwrap();
    assert_eq!(
        (&thing["status"]["x"], &thing["spec"]["size"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(thing["metadata"]["generation"], 1);

    let mut watch = world
        .watch(V1, |options| {
            options.resource_version = world.state.version().to_string();
        })
        .unwrap();
    let pending = world
        .ask(
            Verb::Delete,
            &format!("{DEFINITIONS}/things.g.io"),
            Value::Null,
        )
        .unwrap();
    assert!(pending["metadata"]["deletionTimestamp"].is_string() || pending["status"] == "Success");
    world.settle();
    assert_eq!(
        world.get(&format!("{V1}/t")).unwrap_err().message,
        "the server could not find the requested resource"
    );
    assert_eq!(
        world
            .get(&format!("{DEFINITIONS}/things.g.io"))
            .unwrap_err()
            .code,
        404
    );
    assert_eq!(world.heard(&mut watch), Err(WatchEnd::Gone));
}

#[test]
fn a_webhook_is_asked_and_the_write_repeated() {
    let mut world = World::new();
    let webhook = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/"}}});
    world.create(DEFINITIONS, definition(webhook));
    let now = "2026-11-30T10:00:00Z".parse().unwrap();
    let asked = request(Verb::Create, V2, thing());
    let context = Context {
        now,
        conversions: &world.known,
    };
    let Err(Halt::Convert(need)) = world.state.write(&asked, context) else {
        panic!("no conversion was asked for");
    };
    assert_eq!(
        (need.desired.as_str(), &need.object["apiVersion"]),
        ("g.io/v1", &json!("g.io/v2"))
    );
    let mut converted = need.object.clone();
    converted["apiVersion"] = json!("g.io/v1");
    converted["spec"]["size"] = json!(7);
    world.known.learn(&need, converted);
    world.write(&asked).unwrap();
    assert_eq!(world.get(&format!("{V1}/t")).unwrap()["spec"]["size"], 7);
}
