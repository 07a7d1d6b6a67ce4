//! Leader election with a Lease, and the fence that makes it safe.
//!
//! It promises that of all processes that use a Lease at most one may write at any time, whatever
//! their wall clocks, the network and the API server do (`machine.rs` says why); that a leader which
//! can't renew stops in time and campaigns again; and that a leader which stops hands over at once.
//!
//! The one gap, shared with every elector on a Lease: if someone deletes the Lease, a process that
//! never saw it may lead before the old leader looks again: a second, or, if it can't reach the API
//! server, until its fence closes (12.5 s with the defaults). The term is there for that: see [`LeadershipWatch::raise_term`].

mod drive;
mod holder;
mod legacy;
mod machine;
mod options;
mod record;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;

use std::fmt;
use std::sync::Arc;

use crate::sync::watch;
use tokio::time::Instant;

use super::health::Health;
use super::shutdown::Shutdown;
use crate::client::{Client, Fence, FenceKeeper};
use drive::{Desk, Status};
pub use legacy::LegacyLock;
use machine::Machine;
pub use options::ElectionOptions;

/// Who leads, as this process knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// No answer about the Lease came yet.
    Unknown,
    /// Not this process.
    Standby {
        /// Identity of the holder; empty when the lease is free or held by nobody known.
        holder: String,
    },
    /// This process.
    Leader {
        /// Counts leaderships, from 1: `leaseTransitions` + 1. It travels with every command, and
        /// who takes commands refuses lower terms than it has seen.
        term: u64,
    },
}

impl fmt::Display for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no lease record seen yet"),
            Self::Standby { holder } if holder.is_empty() => {
                f.write_str("standby; nobody is known to lead")
            }
            Self::Standby { holder } => write!(f, "standby; the lease names {holder}"),
            Self::Leader { term } => write!(f, "leader in term {term}"),
        }
    }
}

/// What readers see: leadership, and until when it may be believed.
#[derive(Clone, Debug)]
struct Published {
    leadership: Leadership,
    /// The fence's deadline while leading.
    until: Option<Instant>,
}

impl Published {
    const START: Self = Self {
        leadership: Leadership::Unknown,
        until: None,
    };

    fn at(&self, now: Instant) -> Leadership {
        match &self.leadership {
            Leadership::Leader { .. } if self.until.is_some_and(|until| until <= now) => {
                Leadership::Standby {
                    holder: String::new(),
                }
            }
            leadership => leadership.clone(),
        }
    }
}

/// Reading side of an election, cheap to clone.
#[derive(Clone, Debug)]
pub struct LeadershipWatch {
    published: watch::Receiver<Published>,
    raise: watch::Sender<u64>,
}

impl LeadershipWatch {
    /// A leadership that never changes: for a process without election, and for tests.
    #[must_use]
    pub fn fixed(leadership: Leadership) -> Self {
        let (_, published) = watch::channel(Published {
            leadership,
            until: None,
        });
        Self {
            published,
            raise: watch::Sender::new(0),
        }
    }

    /// Who leads now. Never `Leader` after the fence's deadline, even if the elector hangs.
    #[must_use]
    pub fn current(&self) -> Leadership {
        self.published.borrow().at(Instant::now())
    }

    /// Waits until leadership changes, and tells it. Cancel-safe. Renewals are no change.
    pub async fn changed(&mut self) -> Leadership {
        if self.published.changed().await.is_err() {
            // The elector is gone: nothing changes any more.
            std::future::pending::<()>().await;
        }
        self.published.borrow_and_update().at(Instant::now())
    }

    /// As the leader: make the term at least `term`. It is written to the Lease before it is visible
    /// here. For an instance that remembers a higher term, as after the Lease was deleted. Ignored
    /// while not leading.
    pub fn raise_term(&self, term: u64) {
        self.raise
            .send_modify(|wanted| *wanted = (*wanted).max(term));
    }
}

/// Campaigns for a Lease.
pub struct Elector {
    client: Client,
    options: ElectionOptions,
    desk: Desk,
}

impl Elector {
    /// An elector that does not run yet, who reads it, and the fence for `Client::with_fence`.
    /// `election_lane` is a client of its own, so that renewals wait for nobody.
    ///
    /// # Errors
    /// When the options contradict each other.
    pub fn new(
        election_lane: Client,
        options: ElectionOptions,
    ) -> Result<(Self, LeadershipWatch, Fence), String> {
        options.validate()?;
        super::metric::begin_election();
        let (desk, watch, fence) = Desk::new();
        let elector = Self {
            client: election_lane,
            options,
            desk,
        };
        Ok((elector, watch, fence))
    }

    /// Registers readiness (a first answer about the lease came; leader and standby are both ready)
    /// and liveness (the elector makes progress).
    #[must_use]
    pub fn with_health(self, health: &Health) -> Self {
        let (ready, live) = (Arc::clone(&self.desk.status), Arc::clone(&self.desk.status));
        health.readiness("election".to_owned(), move || Status::readiness(&ready));
        let (status, published) = (Arc::clone(&self.desk.status), self.desk.published());
        health.debug("election".to_owned(), move || {
            let published = published.borrow().clone();
            let now = Instant::now();
            let left = published
                .until
                .map(|until| until.saturating_duration_since(now));
            let mut state = status.debug();
            let (term, holder) = match published.at(now) {
                Leadership::Leader { term } => (Some(term), None),
                Leadership::Standby { holder } => (None, Some(holder)),
                Leadership::Unknown => (None, None),
            };
            state["leading"] = term.is_some().into();
            state["term"] = term.into();
            state["holder"] = holder.into();
            state["mayWriteForSeconds"] = left.map(|left| left.as_secs_f64()).into();
            state
        });
        health.liveness("election".to_owned(), move || Status::liveness(&live));
        self
    }

    /// Campaigns until shutdown, then releases the lease if it is held. Never ends by an error. The
    /// caller has stopped writing before it triggers the shutdown; the fence closes in any case
    /// before the lease is released.
    pub async fn run(self, shutdown: Shutdown) {
        let environment = self.client.environment().clone();
        let jitter = environment.jitter();
        let machine = Machine::new(self.options.clone(), jitter, Instant::now());
        let api = drive::Remote::new(self.client, &self.options);
        let run = drive::run(
            &api,
            machine,
            &self.options,
            &environment,
            self.desk,
            &shutdown,
        );
        Box::pin(run).await;
    }
}

/// Opens or closes the fence and tells readers, in the order that is safe: the fence closes before
/// anyone is told, and opens before anyone is told.
fn publish(machine: &Machine, fence: &FenceKeeper, readers: &watch::Sender<Published>) -> bool {
    match machine.fence() {
        Some(until) => fence.extend(until),
        None => fence.close(),
    }
    let leadership = machine.leadership();
    readers.send_if_modified(|published| {
        let changed = published.leadership != leadership;
        *published = Published {
            leadership,
            until: machine.fence(),
        };
        changed
    })
}
