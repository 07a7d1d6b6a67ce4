//! Replicas of the operator: several in one runtime, each a party of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mainstay::client::Fence;
use mainstay::operator::instances::Access;
use mainstay::operator::{Operator, Options, Tuning};
use mainstay::runtime::{ElectionOptions, Health, Leadership, LeadershipWatch, Shutdown};

use super::ways::ToPods;
use super::{NAMESPACE, World, client};
use crate::clock::Clock;
use crate::network::Party;

/// One process of the operator.
#[derive(Clone)]
pub(crate) struct Replica {
    pub(crate) clock: Clock,
    pub(crate) leadership: LeadershipWatch,
    pub(crate) fence: Fence,
    pub(crate) stop: Shutdown,
}

impl Replica {
    /// The term it leads in.
    pub(crate) fn term(&self) -> Option<u64> {
        match self.leadership.current() {
            Leadership::Leader { term } => Some(term),
            Leadership::Standby { .. } | Leadership::Unknown => None,
        }
    }
}

impl World {
    /// Starts a replica; its party's name is `name` and a number of its own from the second on.
    pub(crate) fn start_replica(&mut self, name: &str) -> Party {
        let names = || self.shared.replicas.lock().unwrap();
        let before = names()
            .keys()
            .filter(|party| party.starts_with(name))
            .count();
        let party: Party = match before {
            0 => name.into(),
            more => format!("{name}.{}", more + 1).into(),
        };
        self.incarnations += 1;
        let clock = Clock::new(self.started);
        let client = client(&self.shared.network, &party, self.chance.bits(), &clock);
        let options = Options {
            namespaces: BTreeSet::new(),
            workers: 2,
            election: ElectionOptions::new(NAMESPACE, "mainstay", &party),
            shutdown_grace: Duration::from_secs(5),
            instance_access: Access::Auto,
            operator_image: "mainstay:simulated".to_owned(),
            tuning: Tuning::default(),
        };
        let dial = ToPods {
            network: self.shared.network.clone(),
            from: party.clone(),
            node: self.shared.node.clone(),
        };
        let operator = Operator::new(client, options, &Health::new())
            .expect("options that are sound")
            .with_instance_dial(Arc::new(dial));
        let replica = Replica {
            clock,
            leadership: operator.leadership(),
            fence: operator.fence(),
            stop: Shutdown::new(),
        };
        let (stop, shared, me) = (
            replica.stop.clone(),
            Arc::downgrade(&self.shared),
            party.clone(),
        );
        tokio::spawn(async move {
            let ended = operator.run(stop.clone()).await;
            if let (Some(shared), false) = (shared.upgrade(), stop.is_triggered()) {
                shared
                    .history
                    .violation(format!("{me} ended by itself: {ended:?}"));
            }
        });
        self.shared.history.note(&party, "starts");
        names().insert(party.clone(), replica);
        party
    }

    /// Ends a replica as SIGKILL does.
    pub(crate) fn kill_replica(&self, party: &Party) {
        self.shared.network.kill(party);
        if let Some(replica) = self.shared.replicas.lock().unwrap().get(party) {
            replica.stop.trigger();
        }
    }

    /// Those that were not killed, and whether each leads.
    pub(crate) fn living(&self) -> Vec<(Party, Option<u64>)> {
        let replicas = self.shared.replicas.lock().unwrap();
        let living = replicas
            .iter()
            .filter(|(party, _)| !self.shared.network.is_dead(party));
        living
            .map(|(party, replica)| (party.clone(), replica.term()))
            .collect()
    }

    /// The one that leads, as it believes.
    pub(crate) fn leader(&self) -> Option<Party> {
        let living = self.living();
        let leading = living.into_iter().filter(|(_, term)| term.is_some());
        leading
            .max_by_key(|(_, term)| *term)
            .map(|(party, _)| party)
    }
}
