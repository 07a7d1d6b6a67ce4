//! What begins and ends with leadership.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::instances::Instances;
use super::kinds::Cluster;
use super::metric::Moves;
use super::stores::Stores;
use crate::runtime::{Leadership, LeadershipWatch, Pause, Priority, Queue, Store};

/// How often a standby forgets keys of clusters that are gone. What gathers meanwhile is what was
/// deleted in so long.
const FORGET: Duration = Duration::from_mins(1);

/// Works only while leading: the queue hands out keys once the caches hold their first lists.
pub(super) async fn lead(
    mut leadership: LeadershipWatch,
    stores: Stores,
    queue: Queue,
    instances: Arc<Instances>,
    moves: Moves,
) {
    let mut state = leadership.current();
    // Not begun anew when somebody else leads: it would never end where that changes all the time.
    let mut look = Instant::now() + FORGET;
    loop {
        match &state {
            Leadership::Leader { term } => {
                tracing::info!(term, "leading");
                tokio::select! {
                    biased;
                    () = stores.synced() => {
                        for cluster in stores.clusters.list().unwrap_or_default() {
                            queue.add(cluster.metadata.key(), Priority::Low);
                        }
                        queue.resume(Pause::Standby);
                    }
                    changed = leadership.changed() => {
                        state = changed;
                        continue;
                    }
                }
                state = leadership.changed().await;
            }
            Leadership::Standby { .. } | Leadership::Unknown => {
                queue.pause(Pause::Standby);
                instances.clear();
                moves.clear();
                state = tokio::select! {
                    biased;
                    changed = leadership.changed() => changed,
                    never = forget(&queue, &stores.clusters, &mut look) => never,
                };
            }
        }
    }
}

/// Keeps a standby's queue as small as its cache. What changes is noted there all the time, for
/// whoever takes over goes first to what has changed; but nothing is handed out, so that keys of
/// clusters that are gone would stay for as long as the process is a standby. It owes them nothing: who
/// takes over asks for all clusters that there are.
/// `look` is when it looks next.
async fn forget<Never>(queue: &Queue, clusters: &Store<Cluster>, look: &mut Instant) -> Never {
    loop {
        sleep_until(*look).await;
        *look = Instant::now() + FORGET;
        let keys = queue.asked().into_iter();
        // An error is no answer: nothing is known to be gone before the first list.
        let gone = keys.filter(|key| matches!(clusters.get(key), Ok(None)));
        gone.for_each(|key| queue.discard(&key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Environment;
    use crate::runtime::{Meta, ObjectKey};
    use tokio::time::sleep;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    fn cluster(name: &str) -> Cluster {
        Cluster {
            metadata: Meta {
                name: name.into(),
                namespace: "ns".into(),
                uid: name.into(),
                ..Meta::default()
            },
            ..Cluster::default()
        }
    }

    /// A standby whose queue holds these keys, and time passes; what it sees begins anew after so long.
    async fn standby(clusters: &Store<Cluster>, keys: &[&str], anew: Duration) -> Vec<String> {
        let queue = Queue::new("test", &Environment::system());
        queue.pause(Pause::Standby);
        for name in keys {
            queue.add(key(name), Priority::Normal);
        }
        queue.add_after(key("gone-too"), 10 * FORGET);
        let end = Instant::now() + FORGET + FORGET / 2;
        let mut look = Instant::now() + FORGET;
        while Instant::now() < end {
            tokio::select! {
                biased;
                () = forget(&queue, clusters, &mut look) => {}
                () = sleep(anew) => {}
            }
        }
        let mut left: Vec<String> = queue
            .asked()
            .iter()
            .map(|key| key.name.to_string())
            .collect();
        left.sort_unstable();
        left
    }

    #[tokio::test(start_paused = true)]
    async fn a_standby_forgets_clusters_that_are_gone() {
        let clusters = Store::of([cluster("a"), cluster("b")]);
        for anew in [FORGET * 2, FORGET / 4] {
            let left = standby(&clusters, &["a", "gone", "b"], anew).await;
            assert_eq!(left, ["a", "b"], "the leader changes each {anew:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_listed_is_not_gone() {
        let left = standby(&Store::new(), &["a", "b"], FORGET).await;
        assert_eq!(left, ["a", "b", "gone-too"]);
    }
}
