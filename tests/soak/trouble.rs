//! What goes wrong, one thing after another: each once in an order of chance, then again in another.

use mainstay::apiserver::{Fault, Rule};
use mainstay::client::Jitter;

/// What the names of the operator's replicas begin with, as faults of the API server are aimed.
pub(crate) const OPERATOR: &str = "mainstay-";

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Trouble {
    /// For requests of all replicas.
    Api(Rule),
    /// For requests of the one that leads.
    OfLeader(Rule),
    /// The API server stands still.
    ApiFrozen,
    /// SIGSTOP of the leader.
    LeaderFrozen,
    /// SIGSTOP of another.
    StandbyFrozen,
    /// SIGKILL of a primary's mysqld.
    MysqldKilled,
    /// SIGKILL of a primary's container.
    ContainerKilled,
    /// A primary's pod is deleted.
    PodDeleted,
    /// A primary is cut off.
    PrimaryCut,
    /// A replica is cut off.
    ReplicaCut,
    /// A node without power.
    NodeFailed,
    /// A person asks for another primary.
    Switchover,
    /// A person changes a variable: all pods of a cluster are replaced.
    ConfigChanged,
    /// A person asks for more instances, and then for as many as before.
    Scaled,
}

fn api(fault: Fault) -> Rule {
    Rule::always(fault)
}

fn status(code: u16, retry_after: Option<u32>) -> Rule {
    api(Fault::Status { code, retry_after })
}

/// All that may go wrong.
pub(crate) fn all() -> Vec<(&'static str, Trouble)> {
    let of_all = |words, rule: Rule| (words, Trouble::Api(rule.by(OPERATOR)));
    let leases = "leases.coordination.k8s.io";
    vec![
        of_all("503 for a third", status(503, None).share(0.3)),
        of_all("503 for all", status(503, None)),
        of_all("429 for a third", status(429, Some(1)).share(0.3)),
        of_all("no lease for anybody", status(503, None).of(leases)),
        (
            "no lease for the leader",
            Trouble::OfLeader(status(503, None).of(leases)),
        ),
        of_all("GOAWAY", api(Fault::GoAway).share(0.05)),
        of_all(
            "connections break before",
            api(Fault::DropBefore).share(0.2),
        ),
        of_all("answers are lost", api(Fault::DropAfter).share(0.2)),
        of_all(
            "watches are cut",
            api(Fault::Reset { after_bytes: 200 }).on("watch"),
        ),
        of_all("watches are too old", api(Fault::Gone).on("watch")),
        of_all(
            "watches say nothing",
            api(Fault::Silent).on("watch").share(0.5),
        ),
        of_all("half frames", api(Fault::HalfFrame).on("watch")),
        of_all("frames that are no JSON", api(Fault::Garbage).on("watch")),
        of_all("events come twice", api(Fault::Repeat).on("watch")),
        of_all(
            "reads from the past",
            api(Fault::Stale { versions: 20 }).share(0.2),
        ),
        of_all(
            "slow answers",
            api(Fault::DelayAnswer { milliseconds: 800 }).share(0.5),
        ),
        ("frozen API server", Trouble::ApiFrozen),
        ("frozen leader", Trouble::LeaderFrozen),
        ("frozen standby", Trouble::StandbyFrozen),
        ("mysqld killed", Trouble::MysqldKilled),
        ("container killed", Trouble::ContainerKilled),
        ("primary's pod deleted", Trouble::PodDeleted),
        ("primary cut off", Trouble::PrimaryCut),
        ("replica cut off", Trouble::ReplicaCut),
        ("node without power", Trouble::NodeFailed),
        ("switchover", Trouble::Switchover),
        ("variable changed", Trouble::ConfigChanged),
        ("scaled", Trouble::Scaled),
    ]
}

/// Hands them out.
pub(crate) struct Troubles {
    chance: Jitter,
    left: Vec<(&'static str, Trouble)>,
}

impl Troubles {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            chance: Jitter::seeded(seed),
            left: Vec::new(),
        }
    }

    pub(crate) fn next(&mut self) -> (&'static str, Trouble) {
        if self.left.is_empty() {
            self.left = all();
        }
        let nth = pick(&mut self.chance, self.left.len());
        self.left.swap_remove(nth)
    }
}

/// A number below `of`, which is not 0.
pub(crate) fn pick(chance: &mut Jitter, of: usize) -> usize {
    let of = u64::try_from(of).expect("64 bits");
    usize::try_from(chance.bits() % of).expect("below a usize")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_once_before_any_comes_again() {
        let mut troubles = Troubles::new(1);
        let names = |troubles: &mut Troubles| {
            let mut names: Vec<_> = all().iter().map(|_| troubles.next().0).collect();
            let order = names.clone();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all().len());
            order
        };
        assert_ne!(names(&mut troubles), names(&mut troubles));
    }
}
