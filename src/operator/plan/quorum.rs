//! Who may acknowledge commits, and what that proves.
//!
//! With M the members and W the acknowledgements a commit waits for, every commit that was
//! acknowledged to a client is on the primary and on at least W of M. Seeing the primary itself, or
//! more than |M| − W of M, with their receivers stopped, is therefore seeing every such commit; and
//! a primary that is not seen can't collect W acknowledgements any more.
//!
//! While a change is under way (`next`), a commit may have been acknowledged under either rule and
//! by a member of either set: it is on at least min(W, W′) of M ∪ M′. The change is over (`next`
//! becomes `current`) only when the new rule holds for *every* commit, old ones too: new commits wait
//! for W′, nobody outside M′ acknowledges any more, and all that was committed by then (the
//! `barrier`) is on W′ of M′.
//!
//! A primary that was just promoted is the only proven holder of what its predecessors committed:
//! its rule begins as *bare* (no members, no acknowledgements), with the real one as `next`.

use std::collections::BTreeSet;

use crate::api::{Quorum, QuorumRecord};

/// Acknowledgements that a commit waits for with that many members: ⌊n/2⌋ of n = members + 1.
pub(super) fn acks_for(members: usize) -> u32 {
    u32::try_from(members.div_ceil(2)).unwrap_or(u32::MAX)
}

/// The quorum of `primary` with those members.
pub(super) fn quorum_of(primary: &str, members: impl IntoIterator<Item = String>) -> Quorum {
    let members: BTreeSet<String> = members.into_iter().filter(|m| m != primary).collect();
    Quorum {
        primary: primary.to_owned(),
        acks: acks_for(members.len()),
        members: members.into_iter().collect(),
    }
}

impl QuorumRecord {
    /// A rule that is in force for all commits.
    pub(super) fn settled(current: Quorum) -> Self {
        Self {
            current,
            next: None,
            barrier: None,
        }
    }

    /// `next` is to come into force.
    pub(super) fn changing(current: Quorum, next: Quorum) -> Self {
        Self {
            current,
            next: Some(next),
            barrier: None,
        }
    }

    /// What a primary begins with that is to work under `next`.
    pub(super) fn begun(next: Quorum) -> Self {
        if next.acks == 0 {
            return Self::settled(next);
        }
        let bare = Quorum {
            primary: next.primary.clone(),
            members: Vec::new(),
            acks: 0,
        };
        Self::changing(bare, next)
    }

    /// The rule that holds, of a primary that goes on with it: never with fewer acknowledgements
    /// than its members call for.
    pub(super) fn resumed(rule: Quorum) -> Self {
        let acks = acks_for(rule.members.len());
        if rule.acks >= acks {
            return Self::settled(rule);
        }
        let next = Quorum {
            acks,
            ..rule.clone()
        };
        Self::changing(rule, next)
    }

    /// The change under way, if it is one of the present primary's rule.
    pub(super) fn change(&self) -> Option<&Quorum> {
        let next = self.next.as_ref()?;
        (next.primary == self.current.primary).then_some(next)
    }

    /// Acknowledgements that the primary is to wait for when it is opened.
    pub(super) fn waits(&self) -> u32 {
        self.change().unwrap_or(&self.current).acks
    }

    /// The rule that holds for every commit so far.
    pub(super) fn rule(&self) -> Quorum {
        let mut rule = self.current.clone();
        if let Some(next) = self.change() {
            let members: BTreeSet<String> = rule
                .members
                .into_iter()
                .chain(next.members.iter().cloned())
                .collect();
            rule.members = members.into_iter().collect();
            rule.acks = rule.acks.min(next.acks);
        }
        rule
    }
}

/// All that may hold acknowledged commits beside the primary.
pub(super) fn holders(record: &QuorumRecord) -> BTreeSet<&str> {
    let next = record.change().into_iter().flat_map(|next| &next.members);
    record
        .current
        .members
        .iter()
        .chain(next)
        .map(String::as_str)
        .collect()
}

/// Whether those who are seen are proven to have every acknowledged commit between them.
pub(super) fn covers(record: &QuorumRecord, seen: &BTreeSet<&str>) -> bool {
    seen.contains(record.current.primary.as_str()) || missing(record, seen).0 == 0
}

/// How many more of the members must be seen without the primary, and which are not seen.
pub(super) fn missing(record: &QuorumRecord, seen: &BTreeSet<&str>) -> (usize, Vec<String>) {
    let rule = record.rule();
    let unseen: Vec<String> = rule
        .members
        .iter()
        .filter(|m| !seen.contains(m.as_str()))
        .cloned()
        .collect();
    let visible = rule.members.len() - unseen.len();
    let needed = (rule.members.len() + 1).saturating_sub(rule.acks as usize);
    (needed.saturating_sub(visible), unseen)
}

/// The next single change on the way from `current` to `wanted` members: first joiners (the count
/// of acknowledgements stays), then leavers (it stays as long as it can be met), then the count.
/// One at a time keeps the number of members that a failover meanwhile needs as low as can be.
///
/// Of the leavers, those that `works` denies go first: while they are members, the others matter.
pub(super) fn step(
    current: &Quorum,
    wanted: &BTreeSet<String>,
    works: impl Fn(&str) -> bool,
) -> Option<Quorum> {
    let members: BTreeSet<String> = current.members.iter().cloned().collect();
    if let Some(joiner) = wanted.difference(&members).next() {
        let mut members = members.clone();
        members.insert(joiner.clone());
        return Some(with(current, members, current.acks));
    }
    // Then from the highest: the order in which instances are removed.
    let leaver = members
        .difference(wanted)
        .max_by_key(|leaver| (!works(leaver), leaver.len(), *leaver));
    if let Some(leaver) = leaver {
        let mut members = members.clone();
        members.remove(leaver);
        let acks = current
            .acks
            .min(u32::try_from(members.len()).unwrap_or(u32::MAX));
        return Some(with(current, members, acks));
    }
    let acks = acks_for(members.len());
    (acks != current.acks).then(|| with(current, members, acks))
}

fn with(current: &Quorum, members: BTreeSet<String>, acks: u32) -> Quorum {
    Quorum {
        primary: current.primary.clone(),
        members: members.into_iter().collect(),
        acks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(ordinals: &[u32]) -> Vec<String> {
        ordinals.iter().map(|o| format!("demo-{o}")).collect()
    }

    fn quorum(members: &[u32], acks: u32) -> Quorum {
        Quorum {
            primary: "demo-0".into(),
            members: names(members),
            acks,
        }
    }

    fn record(current: Quorum, next: Option<Quorum>) -> QuorumRecord {
        QuorumRecord {
            current,
            next,
            barrier: None,
        }
    }

    fn seen(names: &[String]) -> BTreeSet<&str> {
        names.iter().map(String::as_str).collect()
    }

    #[test]
    fn acknowledgements_are_half_of_all_instances() {
        let acks: Vec<u32> = (0..9).map(acks_for).collect();
        assert_eq!(acks, [0, 1, 1, 2, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn three_instances_need_both_replicas_or_the_primary() {
        let record = record(quorum(&[1, 2], 1), None);
        assert!(covers(&record, &seen(&names(&[1, 2]))));
        assert!(!covers(&record, &seen(&names(&[1]))));
        assert!(covers(&record, &seen(&names(&[0]))));
        assert_eq!(missing(&record, &seen(&names(&[1]))), (1, names(&[2])));
    }

    #[test]
    fn a_single_instance_is_covered_by_itself_alone() {
        let record = record(quorum(&[], 0), None);
        assert!(!covers(&record, &BTreeSet::new()));
        assert!(covers(&record, &seen(&names(&[0]))));
    }

    #[test]
    fn a_primary_that_was_just_promoted_is_covered_by_itself_alone() {
        let record = QuorumRecord::begun(quorum(&[1, 2], 1));
        assert!(!covers(&record, &seen(&names(&[1, 2]))));
        assert!(covers(&record, &seen(&names(&[0]))));
        assert_eq!(record.waits(), 1);
    }

    #[test]
    fn scale_out_joins_before_it_asks_for_more_acknowledgements() {
        let wanted: BTreeSet<String> = names(&[1, 2, 3, 4]).into_iter().collect();
        let mut current = quorum(&[1, 2], 1);
        let mut steps = Vec::new();
        while let Some(next) = step(&current, &wanted, |_| true) {
            steps.push((next.members.len(), next.acks));
            current = next;
        }
        assert_eq!(steps, [(3, 1), (4, 1), (4, 2)]);
    }

    #[test]
    fn scale_in_keeps_the_remaining_members_able_to_take_over_at_each_step() {
        let wanted: BTreeSet<String> = names(&[1, 2]).into_iter().collect();
        let survivors = names(&[1, 2, 3]);
        let mut current = quorum(&[1, 2, 3, 4], 2);
        let first = step(&current, &wanted, |_| true).unwrap();
        assert_eq!(first, quorum(&[1, 2, 3], 2));
        assert!(covers(
            &record(current, Some(first.clone())),
            &seen(&survivors)
        ));
        current = first;
        let second = step(&current, &wanted, |_| true).unwrap();
        assert_eq!(second, quorum(&[1, 2], 2));
        assert_eq!(step(&second, &wanted, |_| true), Some(quorum(&[1, 2], 1)));
    }

    proptest! {
        /// Whatever single change is under way, and whichever of the two rules a commit was
        /// acknowledged under, a visible set that covers the record holds the commit.
        #[test]
        fn a_covering_set_holds_every_acknowledged_commit(
            members in proptest::collection::btree_set(1u32..7, 0..6),
            wanted in proptest::collection::btree_set(1u32..7, 0..6),
            acks in 0u32..6,
            raised in any::<bool>(),
            acked in proptest::collection::btree_set(1u32..7, 0..7),
            visible in proptest::collection::btree_set(1u32..7, 0..7),
        ) {
            let members: Vec<u32> = members.into_iter().collect();
            let current = quorum(&members, acks.min(u32::try_from(members.len()).unwrap()));
            let wanted = wanted.into_iter().map(|o| format!("demo-{o}")).collect();
            let next = step(&current, &wanted, |_| true);
            let record = record(current.clone(), next.clone());
            // The acknowledgements that the primary waited for: old or new count, by anyone of
            // either set (the order in which the steps take effect is left open here).
            let effective = if raised { next.as_ref().map_or(current.acks, |n| n.acks) } else { current.acks };
            let holders = holders(&record);
            let acked = names(&acked.into_iter().collect::<Vec<_>>());
            let acked: BTreeSet<&str> = acked.iter().map(String::as_str).filter(|a| holders.contains(a)).collect();
            let visible = names(&visible.into_iter().collect::<Vec<_>>());
            let visible = seen(&visible);
            if acked.len() >= effective as usize && covers(&record, &visible) {
                prop_assert!(effective == 0 || acked.intersection(&visible).next().is_some());
                prop_assert!(effective > 0, "a commit that nobody acknowledged is covered by the primary alone");
            }
        }
    }
}
