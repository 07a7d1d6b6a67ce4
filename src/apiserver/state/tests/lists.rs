use super::*;

fn page(world: &World, change: impl FnOnce(&mut Options)) -> Result<super::super::Page, ApiError> {
    let mut asked = request(Verb::List, MAPS, Value::Null);
    change(&mut asked.options);
    world.state.list(&asked).map(|(page, _)| page)
}

fn names(page: &super::super::Page) -> Vec<&str> {
    page.entries.iter().map(|entry| entry.names().1).collect()
}

fn world_of(names: &[&str]) -> World {
    let mut world = World::new();
    for name in names {
        world.create(MAPS, config_map(name));
    }
    world
}

#[test]
fn pages_are_of_one_version() {
    let mut world = world_of(&["a", "b", "c", "d", "e"]);
    let first = page(&world, |options| options.limit = Some(2)).unwrap();
    assert_eq!((names(&first), first.remaining), (vec!["a", "b"], Some(3)));
    world
        .ask(Verb::Delete, &format!("{MAPS}/c"), Value::Null)
        .unwrap();
    world.create(MAPS, config_map("bb"));
    let second = page(&world, |options| {
        options.limit = Some(2);
        options.continue_token = first.next.clone().unwrap();
    })
    .unwrap();
    assert_eq!((names(&second), second.rv), (vec!["c", "d"], first.rv));
    let last = page(&world, |options| {
        options.continue_token = second.next.clone().unwrap();
    })
    .unwrap();
    assert_eq!((names(&last), last.next.as_deref()), (vec!["e"], None));
}

#[test]
fn a_page_that_is_forgotten_goes_on_elsewhere() {
    let mut world = world_of(&["a", "b", "c"]);
    let first = page(&world, |options| options.limit = Some(1)).unwrap();
    world.create(MAPS, config_map("bb"));
    world.state.compact();
    let error = page(&world, |options| {
        options.continue_token = first.next.clone().unwrap();
    })
    .unwrap_err();
    assert_eq!((error.code, error.reason), (410, "Expired"));
    let rest = page(&world, |options| {
        options.continue_token = error.continue_token.clone().unwrap();
    })
    .unwrap();
    assert_eq!(names(&rest), ["b", "bb", "c"]);
}

#[test]
fn versions_are_matched_as_asked() {
    let mut world = world_of(&["a"]);
    let then = world.state.version().to_string();
    world.create(MAPS, config_map("b"));
    let at = |rv: &str, matching: &str| {
        let (rv, matching) = (rv.to_owned(), matching.to_owned());
        page(&world, |options| {
            options.resource_version = rv;
            options.resource_version_match = matching;
        })
    };
    assert_eq!(names(&at(&then, "Exact").unwrap()), ["a"]);
    assert_eq!(names(&at(&then, "NotOlderThan").unwrap()), ["a", "b"]);
    assert_eq!(names(&at(&then, "").unwrap()), ["a", "b"]);
    assert_eq!(at("", "Exact").unwrap_err().code, 422);
    let future = at("1000", "NotOlderThan").unwrap_err();
    assert_eq!((future.code, future.retry_after), (504, Some(1)));
    assert!(
        future
            .message
            .starts_with("Timeout: Too large resource version: 1000, current: ")
    );
}

#[test]
fn fields_that_are_not_known_are_refused() {
    let world = world_of(&["a"]);
    let error = page(&world, |options| {
        options.field_selector = "spec.x=1".to_owned();
    })
    .unwrap_err();
    assert_eq!(
        error.message,
        "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
    let one = page(&world, |options| {
        options.field_selector = "metadata.name=a".to_owned();
    })
    .unwrap();
    assert_eq!(names(&one), ["a"]);
}

#[test]
fn a_stale_server_tells_of_the_past() {
    let mut world = world_of(&["a"]);
    world.merge(&format!("{MAPS}/a"), json!({"data": {"x": "2"}}));
    let asked = request(Verb::Get, &format!("{MAPS}/a"), Value::Null);
    assert_eq!(
        object(&world.state.stale_get(&asked, 1).unwrap())["data"]["x"],
        "1"
    );
    assert_eq!(object(&world.state.get(&asked).unwrap())["data"]["x"], "2");
    let (page, _) = world
        .state
        .stale_list(&request(Verb::List, MAPS, Value::Null), 2)
        .unwrap();
    assert!(page.entries.is_empty());
}
