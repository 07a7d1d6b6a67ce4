use super::*;

#[test]
fn a_watch_goes_on_from_its_version() {
    let mut world = World::new();
    world.create(MAPS, config_map("a"));
    let then = world.state.version();
    let mut watch = world
        .watch(MAPS, |options| options.resource_version = then.to_string())
        .unwrap();
    assert_eq!(world.heard(&mut watch).unwrap(), Vec::<String>::new());
    world.create(MAPS, config_map("b"));
    world.merge(&format!("{MAPS}/a"), json!({"data": {"x": "2"}}));
    world.create(PODS, pod("p"));
    let expected = [
        format!("ADDED a/b@{}", then + 1),
        format!("MODIFIED a/a@{}", then + 2),
    ];
    assert_eq!(world.heard(&mut watch).unwrap(), expected);
    assert_eq!(watch.version(), then + 3);
}

#[test]
fn a_watch_from_nowhere_begins_with_what_there_is() {
    let mut world = World::new();
    world.create(MAPS, config_map("a"));
    let version = world.state.version();
    let mut watch = world.watch(MAPS, |_| {}).unwrap();
    assert_eq!(
        world.heard(&mut watch).unwrap(),
        [format!("ADDED a/a@{version}")]
    );
    let mut watch = world
        .watch(MAPS, |options| {
            options.send_initial_events = Some(true);
            options.resource_version_match = "NotOlderThan".to_owned();
            options.allow_bookmarks = true;
        })
        .unwrap();
    let expected = [
        format!("ADDED a/a@{version}"),
        format!("BOOKMARK {version} true"),
    ];
    assert_eq!(world.heard(&mut watch).unwrap(), expected);
}

#[test]
fn an_object_that_leaves_the_selection_is_gone() {
    let mut world = World::new();
    world.create(
        MAPS,
        json!({"metadata": {"name": "a", "labels": {"l": "x"}}}),
    );
    let mut watch = world
        .watch(MAPS, |options| {
            options.resource_version = world.state.version().to_string();
            options.label_selector = "l=x".to_owned();
        })
        .unwrap();
    let path = format!("{MAPS}/a");
    world.merge(&path, json!({"metadata": {"labels": {"l": "y"}}}));
    let left = world.state.version();
    world.merge(&path, json!({"data": {"x": "1"}}));
    world.merge(&path, json!({"metadata": {"labels": {"l": "x"}}}));
    let back = world.state.version();
    assert_eq!(
        world.heard(&mut watch).unwrap(),
        [format!("DELETED a/a@{left}"), format!("ADDED a/a@{back}")]
    );
}

#[test]
fn a_version_that_is_forgotten_is_refused() {
    let mut world = World::new();
    world.create(MAPS, config_map("a"));
    let mut open = world
        .watch(MAPS, |options| {
            options.resource_version = world.state.version().to_string();
        })
        .unwrap();
    world.state.compact();
    let error = world
        .watch(MAPS, |options| options.resource_version = "2".to_owned())
        .unwrap_err();
    assert_eq!((error.code, error.reason), (410, "Expired"));
    assert!(
        error.message.starts_with("too old resource version: 2 ("),
        "{}",
        error.message
    );
    assert_eq!(
        world.heard(&mut open),
        Ok(Vec::new()),
        "who was up to date goes on"
    );
}

#[test]
fn who_falls_behind_the_history_is_cut_off() {
    let mut world = World::new();
    world.create(MAPS, config_map("a"));
    let mut watch = world
        .watch(MAPS, |options| {
            options.resource_version = world.state.version().to_string();
        })
        .unwrap();
    for x in 0..101 {
        world.merge(
            &format!("{MAPS}/a"),
            json!({"data": {"x": format!("v{x}")}}),
        );
    }
    assert_eq!(world.heard(&mut watch), Err(WatchEnd::Behind));
}
