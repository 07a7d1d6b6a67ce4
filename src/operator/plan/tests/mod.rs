//! The plan, played against modelled servers.

mod change;
mod history;
mod model;
mod operator;
mod primary;
mod server;

use self::model::World;
use crate::operator::resources::ROLE_LABEL;

/// A cluster that is up, with some writes in it.
fn running(instances: u32) -> World {
    let mut world = World::new(instances);
    world.must_settle();
    for _ in 0..3 {
        world.tick(true);
    }
    world
}

fn len<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap()
}

fn role(world: &World, ordinal: u32) -> Option<&str> {
    world.pods.get(&ordinal)?.metadata.labels.get(ROLE_LABEL)
}
