//! The plan, played against modelled servers.

mod model;

use std::time::Duration;

use proptest::prelude::*;

use self::model::World;
use crate::api::{MySQLClusterStatus, PROMOTE_ANNOTATION, Phase, Quorum, QuorumRecord};
use crate::instance::Command;
use crate::operator::kinds::{ContainerState, ContainerStatus};
use crate::operator::observe::{Now, Observed};
use crate::operator::resources::{ROLE_LABEL, TEMPLATE_HASH_ANNOTATION};

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
    world
        .pods
        .get(&ordinal)?
        .metadata
        .labels
        .get(ROLE_LABEL)
        .map(String::as_str)
}

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
    let step = super::plan(&world.cluster, &observed, None, model::TERM, now);
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
            running: Some(serde_json::json!({})),
            ..ContainerState::default()
        },
        ..ContainerStatus::default()
    };
    let pod = world.pods.get_mut(&ordinal).unwrap();
    pod.status.container_statuses = vec![container];
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
        let step = super::plan(&world.cluster, &observed, None, model::TERM, now);
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
    let step = super::plan(&world.cluster, &observed, None, model::TERM, now);
    assert!(!step.record_changed && !step.acts(), "{step:?}");
    // Its replicas do not hear of it any more either: it hangs.
    now.instant += Duration::from_secs(4);
    for ordinal in [1, 2] {
        let status = observed.sights.get_mut(&ordinal).unwrap().status.as_mut();
        let server = status.unwrap().server.as_mut().unwrap();
        server.replication.as_mut().unwrap().source_silent_ms = 4000;
    }
    let step = super::plan(&world.cluster, &observed, None, model::TERM, now);
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
        pod.metadata.annotations.get(TEMPLATE_HASH_ANNOTATION) == Some(&world.template)
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
    world.servers.insert(1, model::Server::default());
    world.must_settle();
}

#[test]
fn a_refused_child_does_not_keep_a_lost_pod_away() {
    let mut world = running(3);
    world.must_settle();
    world.delete_by_force(2);
    let (observed, now) = world.observe();
    let refused = Some("Service demo-ro: forbidden");
    let step = super::plan(&world.cluster, &observed, refused, model::TERM, now);
    assert_eq!(step.create_pods, [2]);
    assert!(
        step.status
            .conditions
            .iter()
            .any(|c| c.kind == "Stalled" && c.status == "True")
    );
}

#[test]
fn deleting_the_primarys_pod_hands_over_before_it_stops() {
    let mut world = running(3);
    world.delete(0);
    world.reconcile(usize::MAX);
    assert_eq!(world.failovers, 0);
    assert_ne!(world.current(), Some(0));
    world.must_settle();
}

#[test]
fn moco_795_843_scale_out_and_in_with_writes() {
    let mut world = running(1);
    for instances in [3, 5, 3, 1, 2] {
        world.cluster.spec.instances = instances;
        for _ in 0..30 {
            world.tick(true);
            world.reconcile(usize::MAX);
        }
        world.must_settle();
        assert_eq!(u32::try_from(world.pods.len()), Ok(instances));
        let quorum = &world.cluster.status.quorum.as_ref().unwrap().current;
        assert_eq!(
            (len(&quorum.members), quorum.acks),
            (instances - 1, instances / 2)
        );
    }
    assert_eq!(world.failovers, 0);
}

#[test]
fn a_new_rule_waits_until_its_members_hold_the_old_commits() {
    let mut world = running(4);
    world.must_settle();
    world.slow.insert(1);
    world.tick(true); // acknowledged by demo-2 and demo-3 alone
    assert_eq!(world.acknowledged, world.servers[&0].executed);
    world.cluster.spec.instances = 2;
    for _ in 0..10 {
        world.tick(false);
        world.reconcile(usize::MAX);
    }
    // demo-1 is the only member that stays, and it lacks the last commit.
    let quorum = world.cluster.status.quorum.clone().unwrap();
    assert!(quorum.next.is_some(), "{quorum:?}");
    assert!(world.pods.contains_key(&2), "it holds what demo-1 does not");
    world.kill(0);
    world.reconcile(usize::MAX);
    world.slow.clear();
    world.must_settle();
    assert_eq!(world.pods.len(), 2);
}

#[test]
fn what_a_leaver_acknowledged_is_read_after_it_fell_silent() {
    let mut world = running(3);
    world.must_settle();
    world.cluster.spec.instances = 2;
    let rule = |members: &[&str]| Quorum {
        primary: "demo-0".into(),
        members: members.iter().map(|m| (*m).to_owned()).collect(),
        acks: 1,
    };
    world.cluster.status.quorum = Some(QuorumRecord {
        current: rule(&["demo-1", "demo-2"]),
        next: Some(rule(&["demo-1"])),
        barrier: None,
    });
    let (mut observed, now) = world.observe();
    let status = observed.sights.get_mut(&2).unwrap().status.as_mut();
    status.unwrap().server.as_mut().unwrap().semi_sync_replica = false;
    for (asked_at, proven) in [(None, false), (Some(now.instant), true)] {
        observed.sights.get_mut(&0).unwrap().asked_at = asked_at;
        let step = super::plan(&world.cluster, &observed, None, model::TERM, now);
        assert_eq!(step.record_changed, proven, "{step:?}");
        let asks = step.commands.contains(&(0, Command::SetAcks { acks: 1 }));
        assert_eq!(asks, !proven, "{step:?}");
    }
}

#[test]
fn scaling_in_the_primary_hands_over_first() {
    let mut world = running(3);
    let promote = (PROMOTE_ANNOTATION.to_owned(), "demo-2".to_owned());
    world.cluster.metadata.annotations.extend([promote]);
    world.must_settle();
    world.cluster.spec.instances = 2;
    world.must_settle();
    assert_eq!(world.failovers, 0);
    assert!(world.current().unwrap() < 2);
}

#[test]
fn bitpoke_404_a_rolling_update_switches_over_once() {
    let mut world = running(3);
    world.template = "t2".into();
    for _ in 0..60 {
        world.tick(true);
        world.reconcile(usize::MAX);
    }
    world.must_settle();
    assert_eq!(world.failovers, 0);
    let moves = world
        .notes
        .iter()
        .filter(|n| n.starts_with("SwitchoverStarted"))
        .count();
    assert_eq!(moves, 1, "{:#?}", world.notes);
}

#[test]
fn cnpg_1710_offline_and_back_keeps_everything() {
    let mut world = running(3);
    world.cluster.spec.offline = true;
    for _ in 0..5 {
        world.reconcile(usize::MAX);
        world.tick(false);
    }
    assert!(world.pods.is_empty());
    assert_eq!(world.cluster.status.phase, Phase::Offline);
    world.cluster.spec.offline = false;
    world.must_settle();
}

#[test]
fn bitpoke_892_a_cluster_created_again_has_its_writes_wherever_they_are() {
    for instances in [1, 3, 5] {
        let mut world = running(3);
        let promote = (PROMOTE_ANNOTATION.to_owned(), "demo-2".to_owned());
        world.cluster.metadata.annotations.extend([promote]);
        world.must_settle();
        world.slow.extend([0]);
        world.tick(true); // demo-0 lacks this one
        world.slow.clear();
        world.recreate(instances);
        world.must_settle(); // asserts that nothing acknowledged is lost
        assert_eq!(u32::try_from(world.pods.len()), Ok(instances));
    }
}

#[test]
fn a_paused_cluster_is_not_touched() {
    let mut world = running(3);
    world.cluster.spec.paused = true;
    world.reconcile(usize::MAX);
    let before = world.acts;
    world.kill(0);
    world.reconcile(usize::MAX);
    assert_eq!(world.acts, before);
    world.cluster.spec.paused = false;
    world.must_settle();
}

#[test]
fn mariadb_1108_a_primary_on_an_empty_volume_is_not_opened() {
    let mut world = running(3);
    world.must_settle();
    world.delete_by_force(0);
    world.servers.insert(0, model::Server::default());
    world.must_settle();
    assert_ne!(world.current(), Some(0));
}

#[test]
fn a_running_cluster_whose_record_is_lost_is_closed_before_a_primary_is_chosen() {
    let mut world = running(3);
    world.must_settle();
    world.cluster.status = MySQLClusterStatus::default();
    // demo-1 was read after a commit that the reading of demo-0 does not show yet.
    let (mut observed, now) = world.observe();
    let status = observed.sights.get_mut(&1).unwrap().status.as_mut();
    let server = status.unwrap().server.as_mut().unwrap();
    server
        .gtid_executed
        .push_str(",00000000-0000-0000-0000-000000000000:1-99");
    let step = super::plan(&world.cluster, &observed, None, model::TERM, now);
    assert!(!step.record_changed, "{step:?}");
    assert_eq!(step.commands, [(0, Command::Demote)]);
    world.must_settle();
}

#[derive(Clone, Debug)]
enum Fault {
    Kill(u32),
    Delete(u32),
    DeleteByForce(u32),
    Cut(u32),
    Slow(u32),
    Heal,
    Promote(u32),
    Scale(u32),
    Tick(bool),
    /// A reconcile whose operator dies after so many effects.
    Reconcile(usize),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        1 => (0u32..5).prop_map(Fault::Kill),
        1 => (0u32..5).prop_map(Fault::Delete),
        1 => (0u32..5).prop_map(Fault::DeleteByForce),
        1 => (0u32..5).prop_map(Fault::Cut),
        1 => (0u32..5).prop_map(Fault::Slow),
        2 => Just(Fault::Heal),
        1 => (0u32..3).prop_map(Fault::Promote),
        1 => (1u32..6).prop_map(Fault::Scale),
        6 => any::<bool>().prop_map(Fault::Tick),
        3 => (0usize..6).prop_map(Fault::Reconcile),
        3 => Just(Fault::Reconcile(usize::MAX)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    /// Whatever happens, in whatever order, with the operator dying between any two effects: no
    /// acknowledged write is lost (checked whenever a primary is opened and at the end), and once
    /// faults stop the cluster comes to rest and is left alone.
    #[test]
    fn no_history_loses_an_acknowledged_write(
        instances in 1u32..6,
        faults in proptest::collection::vec(fault(), 0..60),
    ) {
        let mut world = running(instances);
        for fault in faults {
            match fault {
                Fault::Kill(o) => world.kill(o),
                Fault::Delete(o) => world.delete(o),
                Fault::DeleteByForce(o) => world.delete_by_force(o),
                Fault::Cut(o) => { world.cut.insert(o); }
                Fault::Slow(o) => { world.slow.insert(o); }
                Fault::Heal => {
                    world.cut.clear();
                    world.slow.clear();
                }
                Fault::Promote(o) => {
                    let promote = (PROMOTE_ANNOTATION.to_owned(), format!("demo-{o}"));
                    world.cluster.metadata.annotations.extend([promote]);
                }
                Fault::Scale(n) => world.cluster.spec.instances = n,
                Fault::Tick(write) => world.tick(write),
                Fault::Reconcile(budget) => world.reconcile(budget),
            }
        }
        world.cut.clear();
        world.slow.clear();
        world.cluster.metadata.annotations.clear();
        world.must_settle();
    }
}
