//! A client that writes rows, now and then where it should not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mainstay::client::Jitter;
use mainstay::sandbox::Written;
use tokio::time::{sleep, timeout};

use super::{NAMESPACE, Shared, World};

/// A client that waits no longer for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Replicas that are well are behind by less.
const CATCH_UP: Duration = Duration::from_secs(5);

impl World {
    /// Begins to write, until [`Self::stop_writing`].
    pub(crate) fn start_writing(&mut self) {
        let chance = Jitter::seeded(self.chance.bits());
        let shared = Arc::downgrade(&self.shared);
        tokio::spawn(async move {
            let mut chance = chance;
            for row in 1.. {
                sleep(chance.around(Duration::from_millis(700), 0.8)).await;
                let Some(shared) = shared.upgrade().filter(|shared| shared.writes()) else {
                    return;
                };
                write(&shared, row, &mut chance);
            }
        });
    }

    /// Writes no more, and waits until what was written is everywhere where nothing is wrong.
    pub(crate) async fn stop_writing(&self) {
        self.shared.writing.store(false, Ordering::Relaxed);
        sleep(CATCH_UP).await;
    }
}

/// To whoever can acknowledge it; one time in four, or where nobody can, to anybody.
fn write(shared: &Arc<Shared>, row: u64, chance: &mut Jitter) {
    let anybody = chance.bits().is_multiple_of(4);
    let mut hosts = shared.mysqls.writable();
    if anybody || hosts.is_empty() {
        hosts = shared.hosts().into_values().collect();
    }
    let pick = usize::try_from(chance.bits() % 16).unwrap_or(0) % hosts.len().max(1);
    let host = hosts.into_iter().nth(pick);
    let Some(host) = host else {
        return;
    };
    let mysqls = shared.mysqls.clone();
    tokio::spawn(async move {
        // Dropped, its session is closed: whether the row is there is then unknown, and nobody's loss.
        let _: Result<Written, _> = timeout(PATIENCE, mysqls.write(&host, row)).await;
    });
}

impl Shared {
    fn writes(&self) -> bool {
        self.writing.load(Ordering::Relaxed)
    }

    /// DNS names of the instances that there are, by pod.
    pub(crate) fn hosts(&self) -> std::collections::BTreeMap<String, String> {
        let pods = self.node.pods().into_iter();
        let ours = pods.filter(|pod| pod.namespace == NAMESPACE);
        ours.filter_map(|pod| Some((pod.name, pod.host?))).collect()
    }
}
