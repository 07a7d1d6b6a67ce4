//! List-watch: keeps a store equal to what the API server has, and tells a handler each change.
//!
//! It promises that no change is skipped silently (a cut watch resumes where it ended, an expired one
//! is listed again and compared with what is held); that deletions come out as such, also those that
//! happened while the watch was cut; that an object that can't be decoded stops nobody but itself;
//! and that a loop never ends by an error nor holds up another.
//!
//! `machine.rs` decides, pure, in the words of `words.rs`; `drive.rs` does the I/O behind the trait in
//! `source.rs`.

mod decode;
mod drive;
#[cfg(test)]
mod faults_tests;
mod machine;
mod source;
mod status;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::health::Health;
use super::object::Kind;
use super::shutdown::Shutdown;
use super::store::{Part, Store};
use crate::client::Client;
use machine::Machine;
use source::{PartScope, Remote};
use status::Status;

/// A change of an object, as the store now shows it.
#[derive(Debug)]
pub enum Change<K> {
    /// Added (`old` is `None`) or changed.
    Applied {
        /// What the store held before.
        old: Option<Arc<K>>,
        /// What it holds now.
        new: Arc<K>,
    },
    /// Deleted, or another object took the name: its `Applied` with no `old` follows.
    Deleted {
        /// What the store held last.
        last: Arc<K>,
    },
}

/// Which objects of a kind a loop keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Only these namespaces; none is all of them. Each has lists and watches of its own, as roles
    /// within namespaces allow.
    pub namespaces: BTreeSet<String>,
    /// As kubectl's `-l`.
    pub label_selector: Option<String>,
    /// As kubectl's `--field-selector`.
    pub field_selector: Option<String>,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespaces: Vec<_> = self.namespaces.iter().map(String::as_str).collect();
        match *namespaces {
            [] => f.write_str("all namespaces")?,
            [namespace] => write!(f, "namespace {namespace}")?,
            _ => write!(f, "namespaces {}", namespaces.join(", "))?,
        }
        for selector in [&self.label_selector, &self.field_selector]
            .into_iter()
            .flatten()
        {
            write!(f, ", {selector}")?;
        }
        Ok(())
    }
}

impl Scope {
    /// What one loop each keeps.
    fn into_parts(self) -> Vec<PartScope> {
        let of = |namespace: Option<String>| PartScope {
            namespace,
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
        };
        if self.namespaces.is_empty() {
            vec![of(None)]
        } else {
            let namespaces = self.namespaces.iter().cloned();
            namespaces.map(|name| of(Some(name))).collect()
        }
    }
}

/// Bounds of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLimits {
    /// Objects in a page of a list, at least one; 500 as client-go's pager and kubectl ask for.
    pub page_size: u32,
    /// The server is asked to end a watch after this, ± 20 %. At most 7 min, or a loop that is well
    /// would be taken for one that hangs.
    pub timeout: Duration,
    /// A watch that is to begin with all objects, and gives no frame for so long, does not do so: an
    /// older server that does not know how, or one that is too busy. The objects are listed instead.
    pub patience: Duration,
    /// A loop that could not reach the server for so long has a stale cache, and is not ready.
    pub stale_after: Duration,
}

impl WatchLimits {
    /// Pages of 500, watches of 4 to 6 min, 10 s of patience, stale after a minute.
    pub const DEFAULT: Self = Self {
        page_size: 500,
        timeout: Duration::from_mins(5),
        patience: Duration::from_secs(10),
        stale_after: Duration::from_mins(1),
    };
}

impl Default for WatchLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

type Handler<K> = dyn Fn(Change<K>) + Send + Sync;

/// Keeps one store of one kind and one scope: one loop, or one for each namespace of several.
pub struct ListWatch<K> {
    loops: Vec<Loop<K>>,
    handler: Box<Handler<K>>,
    limits: WatchLimits,
}

struct Loop<K> {
    source: Remote,
    part: Part<K>,
    status: Arc<Status>,
}

impl<K: Kind> ListWatch<K> {
    /// A loop that does not run yet. `handler` is called after the store holds the change, in the
    /// order of the changes of each object; it must be quick and not block (it adds to a queue).
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "the loops own them")]
    pub fn new(
        client: Client,
        scope: Scope,
        store: Store<K>,
        handler: impl Fn(Change<K>) + Send + Sync + 'static,
    ) -> Self {
        let parts = scope.into_parts();
        let statuses = Status::of_parts(K::RESOURCE, &parts);
        let loops = parts.into_iter().zip(statuses).map(|(part, status)| Loop {
            part: store.part(part.namespace.as_deref()),
            source: Remote::new(client.clone(), K::RESOURCE, part),
            status: Arc::new(status),
        });
        Self {
            loops: loops.collect(),
            handler: Box::new(handler),
            limits: WatchLimits::DEFAULT,
        }
    }

    /// The same within other limits.
    #[must_use]
    pub fn with_limits(self, limits: WatchLimits) -> Self {
        for each in &self.loops {
            each.status.stale_after(limits.stale_after);
        }
        Self { limits, ..self }
    }

    /// Registers readiness (the cache is synced and fresh, and if not, why) and liveness (the loop
    /// makes progress) under the kind's plural.
    #[must_use]
    pub fn with_health(self, health: &Health) -> Self {
        let name = format!("watch-{}", K::RESOURCE.plural);
        let statuses = || -> Vec<_> {
            let loops = self.loops.iter();
            loops.map(|each| Arc::clone(&each.status)).collect()
        };
        let (ready, live, shown) = (statuses(), statuses(), statuses());
        health.debug(name.clone(), move || {
            shown.iter().map(|status| status.debug()).collect()
        });
        health.readiness(name.clone(), move || {
            status::all(ready.iter().map(|status| status.readiness()))
        });
        health.liveness(name, move || {
            status::all(live.iter().map(|status| status.liveness()))
        });
        self
    }

    /// Runs until shutdown, and then stops at once. Never ends by an error.
    pub async fn run(self, shutdown: Shutdown) {
        let (handler, loops, limits) = (&*self.handler, self.loops, self.limits);
        let drives = loops.into_iter().map(|each| async move {
            let machine = Machine::new(each.source.jitter()).with_limits(limits);
            drive::drive(machine, &each.source, each.part, handler, &each.status).await;
        });
        tokio::select! {
            biased;
            () = shutdown.triggered() => {}
            _ = join_all(drives) => {}
        }
    }
}
