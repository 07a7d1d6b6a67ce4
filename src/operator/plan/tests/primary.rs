//! Failover, switchover, and what is not one.

use std::time::Duration;

use super::model::{TERM, World};
use super::server::Server;
use super::{len, role, running};
use crate::api::{PROMOTE_ANNOTATION, Phase, Quorum, QuorumRecord};
use crate::operator::kinds::{ContainerState, ContainerStatus, Pod};
use crate::operator::observe::{Now, Observed};
use crate::operator::plan::plan;
use crate::operator::resources::TEMPLATE_HASH_ANNOTATION;
use crate::runtime::Pairs;

#[test]
fn a_new_cluster_comes_up_with_the_first_instance_as_primary() {
    for instances in [1, 2, 3, 5, 9] {
        let world = running(instances);
        let status = &world.cluster.status;
        assert_eq!(status.current_primary.as_deref(), Some("demo-0"));
        assert_eq!(status.ready, format!("{instances}/{instances}"));
        let quorum = &status.quorum.as_ref().unwrap().current;
        assert_eq!(quorum.acks, instances / 2);
        assert_eq!(len(&quorum.members), instances - 1);
        assert_eq!(role(&world, 0), Some("primary"));
        assert!((1..instances).all(|o| role(&world, o) == Some("replica")));
        assert!(world.acknowledged.count() > 0, "writes are acknowledged");
    }
}

#[test]
fn moco_449_a_settled_cluster_is_left_alone() {
    let mut world = running(3);
    world.must_settle();
    let before = world.acts;
    for _ in 0..20 {
        world.tick(true);
        world.reconcile(usize::MAX);
    }
    assert_eq!(world.acts, before, "{:#?}", world.notes);
}

#[test]
fn a_new_leader_acts_on_nothing_before_its_term_is_on_record() {
    let mut world = running(3);
    // What its cache holds is from before a failover: demo-0 is no primary any more.
    let old = world.cluster.clone();
    world.kill(0);
    world.must_settle();
    assert_ne!(world.current(), Some(0));
    let (observed, now) = world.observe();
    let step = plan(&old, &observed, None, TERM + 1, now);
    assert!(step.record_changed, "which the API server refuses");
    assert!(!step.acts(), "{step:#?}");
    assert_eq!(step.status.term, TERM + 1);
    assert_eq!(step.status.current_primary, old.status.current_primary);
}

#[test]
fn a_new_leader_writes_nothing_where_nothing_is_to_be_done() {
    let mut world = running(3);
    world.must_settle();
    let (observed, now) = world.observe();
    let step = plan(&world.cluster, &observed, None, TERM + 1, now);
    assert!(!step.record_changed && !step.acts(), "{step:#?}");
    assert_eq!(step.status, world.cluster.status);
    assert_eq!(step.look_again, None);
    // A word that is to be told is reason enough, and so is a label.
    let mut untold = world.cluster.clone();
    untold.status.reason = "something else".into();
    let step = plan(&untold, &observed, None, TERM + 1, now);
    assert!(step.record_changed);
    assert_eq!(step.status.term, TERM + 1);
    let mut unlabelled = observed.clone();
    let pod = unlabelled.pods.get_mut(&1).unwrap();
    let mut bare = Pod::clone(pod);
    bare.metadata.labels = Pairs::default();
    *pod = bare.into();
    let step = plan(&world.cluster, &unlabelled, None, TERM + 1, now);
    assert!(step.record_changed && !step.acts(), "{step:#?}");
    assert_eq!(step.status.term, TERM + 1);
}

#[test]
fn a_promotion_is_told_from_its_first_record_on() {
    let mut world = running(3);
    world.tick(true);
    world.kill(0);
    // One effect after the other, up to the record.
    while world.cluster.status.target_primary.is_none() {
        world.reconcile(1);
    }
    let status = &world.cluster.status;
    let target = status.target_primary.as_deref().unwrap();
    assert_eq!(status.phase, Phase::FailingOver);
    assert_eq!(status.reason, format!("promoting {target}"));
}

#[test]
fn a_killed_primary_is_replaced_and_comes_back_as_a_replica() {
    let mut world = running(3);
    world.tick(true);
    world.kill(0);
    world.reconcile(usize::MAX);
    assert_ne!(world.current(), Some(0));
    let primary = world.current().unwrap();
    assert!(
        !world.servers[&primary].read_only,
        "opened in the same reconcile"
    );
    assert_eq!(role(&world, primary), Some("primary"));
    world.must_settle();
    assert_eq!(role(&world, 0), Some("replica"));
    assert_eq!(world.failovers, 1);
}

#[test]
fn moco_846_a_primary_cut_off_the_network_is_replaced_and_rejoins_when_healed() {
    let mut world = running(3);
    world.cut.insert(0);
    for _ in 0..12 {
        world.tick(true);
        world.reconcile(usize::MAX);
    }
    assert_ne!(world.current(), Some(0), "{:#?}", world.notes);
    let before = world.acknowledged.count();
    world.tick(true);
    world.tick(true);
    assert!(
        world.acknowledged.count() > before,
        "the new primary takes writes"
    );
    world.cut.clear();
    world.must_settle();
}

#[test]
fn unknown_is_not_down_while_a_replica_still_hears_the_primary() {
    // The operator alone lost sight: modelled as the sight being cut while replication goes on.
    let mut world = running(3);
    let (mut observed, now) = world.observe();
    let sight = observed.sights.get_mut(&0).unwrap();
    sight.fresh = false;
    sight.since = now.instant - Duration::from_mins(1);
    let step = plan(&world.cluster, &observed, None, TERM, now);
    assert!(!step.record_changed && step.commands.is_empty(), "{step:?}");
    assert!(
        step.status.reason.contains("still hears of it"),
        "{}",
        step.status.reason
    );
}

/// The sight of `ordinal` as an operator has it that has just taken the lead.
fn unspoken(world: &mut World, ordinal: u32, ago: Duration) -> (Observed, Now) {
    let container = ContainerStatus {
        state: ContainerState {
            running: Some(serde::de::IgnoredAny),
            ..ContainerState::default()
        },
        ..ContainerStatus::default()
    };
    let pod = world.pods.get_mut(&ordinal).unwrap();
    pod.status.container_statuses = [container].into();
    let (mut observed, now) = world.observe();
    let sight = observed.sights.get_mut(&ordinal).unwrap();
    (sight.status, sight.fresh, sight.read_at) = (None, false, None);
    sight.since = now.instant.checked_sub(ago).unwrap();
    (observed, now)
}

#[test]
fn an_operator_that_takes_the_lead_does_not_fail_over_for_want_of_news() {
    let mut world = running(3);
    world.must_settle();
    for ago in [Duration::ZERO, Duration::from_secs(2)] {
        let (observed, now) = unspoken(&mut world, 0, ago);
        let step = plan(&world.cluster, &observed, None, TERM, now);
        assert!(!step.record_changed && !step.acts(), "{step:?}");
        assert!(step.look_again.is_some());
        let said = step.status.phase != world.cluster.status.phase;
        assert_eq!(said, ago > Duration::from_secs(1), "{step:?}");
    }
}

#[test]
fn a_primary_that_can_not_be_read_for_a_moment_is_not_down() {
    let mut world = running(3);
    let (mut observed, mut now) = world.observe();
    let sight = observed.sights.get_mut(&0).unwrap();
    sight.status.as_mut().unwrap().server = None;
    sight.mute_since = Some(now.instant);
    let step = plan(&world.cluster, &observed, None, TERM, now);
    assert!(!step.record_changed && !step.acts(), "{step:?}");
    // Its replicas do not hear of it any more either: it hangs.
    now.instant += Duration::from_secs(4);
    for ordinal in [1, 2] {
        let status = observed.sights.get_mut(&ordinal).unwrap().status.as_mut();
        let server = status.unwrap().server.as_mut().unwrap();
        server.replication.as_mut().unwrap().source_silent_ms = 4000;
    }
    let step = plan(&world.cluster, &observed, None, TERM, now);
    assert_eq!(step.commands.len(), 2, "{step:?}");
}

#[test]
fn a_failover_without_proof_waits_and_says_for_whom() {
    let mut world = running(3);
    world.cut.insert(2);
    world.kill(0);
    world.pods.remove(&0);
    world.reconcile(usize::MAX);
    assert_eq!(world.current(), Some(0));
    let status = &world.cluster.status;
    assert_eq!(status.phase, Phase::Unavailable);
    assert!(status.reason.contains("demo-2"), "{}", status.reason);
}

#[test]
fn a_switchover_on_request_is_clean() {
    let mut world = running(3);
    let promote = (PROMOTE_ANNOTATION.to_owned(), "demo-2".to_owned());
    world.cluster.metadata.annotations.extend([promote]);
    world.reconcile(usize::MAX);
    assert_eq!(world.current(), Some(2));
    world.must_settle();
    assert!(world.cluster.metadata.annotations.is_empty());
    assert_eq!(world.failovers, 0);
}

#[test]
fn a_request_to_promote_a_stranger_is_refused_in_words() {
    let mut world = running(3);
    let promote = (PROMOTE_ANNOTATION.to_owned(), "demo-7".to_owned());
    world.cluster.metadata.annotations.extend([promote]);
    world.reconcile(usize::MAX);
    assert_eq!(world.current(), Some(0));
    assert!(
        world
            .notes
            .iter()
            .any(|n| n.starts_with("SwitchoverRefused") && n.contains("demo-7"))
    );
}

#[test]
fn a_switchover_that_is_given_up_is_not_tried_for_ever() {
    let mut world = running(3);
    world.must_settle();
    world.slow.insert(2);
    world.tick(true); // acknowledged by demo-1 alone
    let promote = (PROMOTE_ANNOTATION.to_owned(), "demo-2".to_owned());
    world.cluster.metadata.annotations.extend([promote]);
    world.reconcile(usize::MAX);
    assert_eq!(world.cluster.status.phase, Phase::SwitchingOver);
    world.later(Duration::from_secs(31));
    world.must_settle();
    assert_eq!(world.current(), Some(0));
    assert!(world.cluster.metadata.annotations.is_empty());
}

#[test]
fn a_request_to_promote_a_stranger_does_not_hold_up_an_update() {
    let mut world = running(3);
    world.must_settle();
    let promote = (PROMOTE_ANNOTATION.to_owned(), "demo-7".to_owned());
    world.cluster.metadata.annotations.extend([promote]);
    world.template = "t2".into();
    for _ in 0..60 {
        world.tick(true);
        world.reconcile(usize::MAX);
    }
    assert!(world.pods.values().all(|pod| {
        pod.metadata.annotations.get(TEMPLATE_HASH_ANNOTATION) == Some(world.template.as_str())
    }));
}

#[test]
fn a_failover_whose_target_can_not_apply_goes_back_to_a_primary_that_returns() {
    let mut world = running(2);
    world.must_settle();
    world.kill(0);
    world.servers.get_mut(&1).unwrap().broken = Some("disk full".into());
    world.reconcile(usize::MAX);
    assert_eq!(
        world.cluster.status.target_primary.as_deref(),
        Some("demo-1")
    );
    for _ in 0..5 {
        world.tick(false);
        world.reconcile(usize::MAX);
    }
    assert_eq!(world.current(), Some(0));
    assert!(!world.servers[&0].read_only, "{:#?}", world.cluster.status);
    world.servers.get_mut(&1).unwrap().broken = None;
    world.must_settle();
}

#[test]
fn a_replica_of_no_use_does_not_keep_a_new_primary_from_its_quorum() {
    let mut world = running(2);
    world.must_settle();
    // As after a promotion, with a replica that lacks what the primary has purged.
    let chosen = Quorum {
        primary: "demo-0".into(),
        members: vec!["demo-1".into()],
        acks: 1,
    };
    world.cluster.status.quorum = Some(QuorumRecord {
        current: Quorum {
            primary: "demo-0".into(),
            ..Quorum::default()
        },
        next: Some(chosen),
        barrier: None,
    });
    let primary = world.servers.get_mut(&0).unwrap();
    primary.purged = primary.executed.clone();
    world.delete_by_force(1);
    world.servers.insert(1, Server::default());
    world.must_settle();
}

#[test]
fn a_refused_child_does_not_keep_a_lost_pod_away() {
    let mut world = running(3);
    world.must_settle();
    world.delete_by_force(2);
    let (observed, now) = world.observe();
    let refused = Some("Service demo-ro: forbidden");
    let step = plan(&world.cluster, &observed, refused, TERM, now);
    assert_eq!(step.create_pods, [2]);
    assert!(
        step.status
            .conditions
            .iter()
            .any(|c| c.kind == "Stalled" && c.status == "True")
    );
}
