//! Switchover, failover, clone, and what was received.

use std::time::Instant;

use mainstay::{
    instance::{Command, CommandRefusal, Follow, InstancePhase},
    mysql::ThreadState,
};
use mysql_async::prelude::Queryable as _;
use nix::sys::signal::Signal;

use crate::{
    harness::{Cluster, mysqld, promote, set},
    ledger::Ledger,
    process::{Instance, follow},
};

#[tokio::test(flavor = "multi_thread")]
async fn three_instances_switch_over_fail_over_and_clone() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld).await;
    let instances = cluster.bootstrap(3).await;
    let [a, b, c] = &instances[..] else {
        unreachable!()
    };
    let server = a.server().await;
    assert!(!server.super_read_only && server.semi_sync_source);
    assert_eq!(server.semi_sync_wait_for, 1);
    a.status_when("both replicas acknowledge", |status| {
        status.server.as_ref().unwrap().semi_sync_clients == 2
    })
    .await;
    let ledger = Ledger::begin(a).await;

    // A switchover, with the writer running.
    ledger.grows().await;
    let began = Instant::now();
    let demoted = a.obey(2, Command::Demote).await.server.unwrap();
    println!("demoted in {:?}", began.elapsed());
    assert!(demoted.super_read_only);
    b.obey(2, promote(&demoted.gtid_executed, 1)).await;
    c.obey(2, follow(b)).await;
    a.obey(2, follow(b)).await;
    let opened = b.obey(2, Command::Open).await.server.unwrap();
    println!("switched over in {:?}", began.elapsed());
    assert!(!opened.super_read_only && opened.replication.is_none());
    ledger.write_to(b);
    ledger.grows().await;

    // mysqld of the primary is killed: it comes back read-only, and alone.
    let starts = b.status().await.unwrap().starts;
    b.signal_mysqld(Signal::SIGKILL);
    for replica in [a, c] {
        replica.obey(3, Command::StopReceiver).await;
        assert_eq!(
            replica.server().await.replication.unwrap().receiver.state,
            ThreadState::Off
        );
    }
    let [one, two] = [a.server().await, c.server().await].map(|server| {
        set(&server.gtid_executed).union(&set(&server.replication.unwrap().received))
    });
    assert!(one.is_subset_of(&two) || two.is_subset_of(&one));
    let (next, other) = if two.is_subset_of(&one) {
        (a, c)
    } else {
        (c, a)
    };
    next.obey(3, promote(&one.union(&two).to_string(), 1)).await;
    other.obey(3, follow(next)).await;
    next.obey(3, Command::Open).await;
    ledger.write_to(next);
    ledger.grows().await;
    let back = b
        .status_when("back", |status| {
            status.starts == starts + 1 && status.server.is_some()
        })
        .await;
    let back = back.server.unwrap();
    assert!(back.super_read_only && !back.semi_sync_source && back.replication.is_none());
    let refused = b.command(3, &Command::Open).await.unwrap_err();
    assert_eq!(refused.refusal, CommandRefusal::NotNow, "{refused:?}");

    b.obey(3, clone_of(next)).await;
    b.status_when("cloned", |status| {
        status.phase == InstancePhase::Running && status.message.is_empty()
    })
    .await;

    let missing = ledger.end().await.missing_on(&[a, b, c]).await;
    assert_eq!(missing, Vec::<u64>::new(), "acknowledged rows");
}

fn clone_of(donor: &Instance) -> Command {
    Command::Clone(Follow {
        source_host: donor.host.clone(),
        acknowledge: true,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_replaces_what_is_errant_and_follows_only_if_nobody_said_otherwise() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld).await;
    let instances = cluster.bootstrap(3).await;
    let [a, b, _] = &instances[..] else {
        unreachable!()
    };
    assert_eq!(
        a.command(1, &clone_of(b)).await.unwrap_err().refusal,
        CommandRefusal::NotNow,
        "it is writable"
    );
    let mut root = b.root().await;
    root.query_drop("SET GLOBAL super_read_only=OFF")
        .await
        .unwrap();
    root.query_drop("CREATE DATABASE errant").await.unwrap();
    root.query_drop("SET GLOBAL super_read_only=ON")
        .await
        .unwrap();
    drop(root);
    let before = b.server().await.gtid_executed;

    // A donor that is not there: nothing is lost.
    let nobody = Follow {
        source_host: cluster.host(6),
        acknowledge: true,
    };
    b.obey(1, Command::Clone(nobody)).await;
    let failed = b
        .status_when("given up", |status| status.phase == InstancePhase::Running)
        .await;
    assert!(
        failed.message.contains("clone failed"),
        "{}",
        failed.message
    );
    let server = failed.server.unwrap();
    assert!(server.super_read_only && set(&before).is_subset_of(&set(&server.gtid_executed)));

    // A failover meanwhile counts on its not acknowledging anything.
    assert_eq!(b.obey(1, clone_of(a)).await.phase, InstancePhase::Cloning);
    b.obey(1, clone_of(a)).await;
    assert_eq!(
        b.obey(1, Command::StopReceiver).await.phase,
        InstancePhase::Cloning
    );
    let cloned = b
        .status_when("cloned", |status| status.phase == InstancePhase::Running)
        .await;
    let server = cloned.server.unwrap();
    assert!(server.super_read_only);
    assert_eq!(server.replication, None, "{}", cloned.message);
    let mut root = b.root().await;
    let errant: Option<String> = root
        .query_first("SHOW DATABASES LIKE 'errant'")
        .await
        .unwrap();
    assert_eq!(errant, None);
    assert!(
        std::fs::read_dir(b.volume.join("mainstay/aside"))
            .unwrap()
            .count()
            >= 1
    );

    b.obey(1, clone_of(a)).await;
    let cloned = b
        .status_when("cloned", |status| status.phase == InstancePhase::Running)
        .await;
    assert_eq!(
        cloned.server.unwrap().replication.unwrap().source_host,
        a.host
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn moco_731_a_new_source_does_not_cost_what_was_received() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld).await;
    let instances = cluster.bootstrap(3).await;
    let [a, b, c] = &instances[..] else {
        unreachable!()
    };
    let mut app = a.app().await.unwrap();
    app.query_drop("CREATE TABLE my_app.t (id INT PRIMARY KEY)")
        .await
        .unwrap();
    c.executed(&a.server().await.gtid_executed).await;
    // c receives and can't apply.
    let mut lock = c.root().await;
    lock.query_drop("FLUSH TABLES WITH READ LOCK")
        .await
        .unwrap();
    app.query_drop("INSERT INTO my_app.t VALUES (1)")
        .await
        .unwrap();
    let written = a.server().await.gtid_executed;
    c.status_when("received", |status| {
        set(&written).is_subset_of(&set(&status
            .server
            .as_ref()
            .unwrap()
            .replication
            .as_ref()
            .unwrap()
            .received))
    })
    .await;
    c.obey(2, Command::StopReceiver).await;
    // b can't give it to c: it never gets it... and c has it still.
    let before = c.server().await.replication.unwrap().received;
    c.obey(2, follow(b)).await;
    let after = c.server().await.replication.unwrap();
    assert_eq!(after.source_host, b.host);
    assert!(set(&before).is_subset_of(&set(&after.received)));
    // A promotion of c waits until all is applied.
    c.obey(2, Command::StopReceiver).await;
    let promotion = promote(&written, 1);
    let promoting = c.command(2, &promotion);
    lock.query_drop("UNLOCK TABLES").await.unwrap();
    promoting.await.unwrap();
    assert!(set(&written).is_subset_of(&set(&c.server().await.gtid_executed)));
}
