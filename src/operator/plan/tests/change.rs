//! Changes of the spec, and of what lies under the cluster.

use super::model::TERM;
use super::server::Server;
use super::{len, running};
use crate::api::{MySQLClusterStatus, PROMOTE_ANNOTATION, Phase, Quorum, QuorumRecord};
use crate::instance::Command;
use crate::operator::plan::plan;

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
            assert!(!world.cluster.status.reason.is_empty());
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
fn a_former_primary_that_lost_its_volume_gets_its_own_writes_back() {
    let mut world = running(3);
    world.must_settle();
    for _ in 0..3 {
        world.tick(true);
    }
    world.kill(0);
    world.must_settle();
    assert_ne!(world.current(), Some(0));
    world.delete_by_force(0);
    world.servers.insert(0, Server::default());
    world.must_settle();
    for (ordinal, server) in &world.servers {
        let lacks = world.acknowledged.subtract(&server.executed);
        assert!(lacks.is_empty(), "demo-{ordinal} lacks {lacks}");
    }
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
        let step = plan(&world.cluster, &observed, None, TERM, now);
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
    world.servers.insert(0, Server::default());
    world.must_settle();
    assert_ne!(world.current(), Some(0));
}

#[test]
fn a_running_cluster_whose_record_is_lost_is_closed_before_a_primary_is_chosen() {
    let mut world = running(3);
    world.must_settle();
    world.cluster.status = MySQLClusterStatus {
        term: TERM,
        ..MySQLClusterStatus::default()
    };
    // demo-1 was read after a commit that the reading of demo-0 does not show yet.
    let (mut observed, now) = world.observe();
    let status = observed.sights.get_mut(&1).unwrap().status.as_mut();
    let server = status.unwrap().server.as_mut().unwrap();
    server
        .gtid_executed
        .push_str(",00000000-0000-0000-0000-000000000000:1-99");
    let step = plan(&world.cluster, &observed, None, TERM, now);
    assert!(!step.record_changed, "{step:?}");
    assert_eq!(step.commands, [(0, Command::Demote)]);
    world.must_settle();
}
