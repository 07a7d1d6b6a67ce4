use super::*;

fn owned(name: &str, owner: &Value, block: bool) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap",
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block}]}})
}

/// An owner with a dependent, which has a dependent itself.
fn family(world: &mut World) {
    let top = world.create(MAPS, config_map("top"));
    let middle = world.create(MAPS, owned("middle", &top, true));
    world.create(MAPS, owned("bottom", &middle, true));
    world.settle();
}

fn there(world: &World) -> Vec<&'static str> {
    ["top", "middle", "bottom"]
        .into_iter()
        .filter(|name| world.get(&format!("{MAPS}/{name}")).is_ok())
        .collect()
}

fn delete_top(world: &mut World, policy: &str) -> Value {
    world
        .ask(
            Verb::Delete,
            &format!("{MAPS}/top"),
            json!({"propagationPolicy": policy}),
        )
        .unwrap()
}

#[test]
fn in_the_background_dependents_follow() {
    let mut world = World::new();
    family(&mut world);
    assert_eq!(there(&world).len(), 3);
    delete_top(&mut world, "Background");
    assert_eq!(there(&world), ["middle", "bottom"]);
    world.settle();
    assert_eq!(there(&world), Vec::<&str>::new());
}

#[test]
fn in_the_foreground_dependents_go_first() {
    let mut world = World::new();
    family(&mut world);
    world.merge(
        &format!("{MAPS}/middle"),
        json!({"metadata": {"finalizers": ["x/y"]}}),
    );
    let pending = delete_top(&mut world, "Foreground");
    assert_eq!(
        pending["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    world.settle();
    assert_eq!(there(&world), ["top", "middle"]);
    world.merge(
        &format!("{MAPS}/middle"),
        json!({"metadata": {"finalizers": null}}),
    );
    world.settle();
    assert_eq!(there(&world), Vec::<&str>::new());
}

#[test]
fn orphans_stay() {
    let mut world = World::new();
    family(&mut world);
    delete_top(&mut world, "Orphan");
    world.settle();
    assert_eq!(there(&world), ["middle", "bottom"]);
    let middle = world.get(&format!("{MAPS}/middle")).unwrap();
    assert!(
        middle["metadata"]["ownerReferences"]
            .as_array()
            .is_none_or(Vec::is_empty)
    );
}

#[test]
fn an_owner_that_never_was_takes_its_dependent_along() {
    let mut world = World::new();
    let ghost = json!({"metadata": {"name": "ghost", "uid": "none"}});
    world.create(MAPS, owned("middle", &ghost, false));
    world.settle();
    assert_eq!(there(&world), Vec::<&str>::new());
}

#[test]
fn one_owner_of_two_is_enough() {
    let mut world = World::new();
    let one = world.create(MAPS, config_map("one"));
    let two = world.create(MAPS, config_map("two"));
    let mut child = owned("middle", &one, false);
    let second = owned("", &two, false)["metadata"]["ownerReferences"][0].clone();
    child["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(second);
    world.create(MAPS, child);
    world.settle();
    world
        .ask(Verb::Delete, &format!("{MAPS}/one"), Value::Null)
        .unwrap();
    world.settle();
    let middle = world.get(&format!("{MAPS}/middle")).unwrap();
    assert_eq!(middle["metadata"]["ownerReferences"][0]["name"], "two");
    assert_eq!(
        middle["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
