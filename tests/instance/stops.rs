//! Demotions and ends that must answer no unacknowledged commit.

use std::time::Instant;

use mainstay::instance::Command;
use mysql_async::prelude::Queryable as _;
use nix::sys::signal::Signal;

use crate::{
    harness::{Cluster, mysqld, promote},
    ledger::Ledger,
    process::follow,
};

#[tokio::test(flavor = "multi_thread")]
async fn moco_813_commits_without_acknowledgement_are_never_answered() {
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
    for replica in [b, c] {
        replica.signal_mysqld(Signal::SIGSTOP);
    }
    let commit =
        tokio::spawn(async move { app.query_drop("INSERT INTO my_app.t VALUES (1)").await });
    a.status_when("the commit waits", |status| {
        status.server.as_ref().unwrap().semi_sync_waiting == 1
    })
    .await;
    let began = Instant::now();
    a.obey(2, Command::Demote).await;
    println!("a stuck primary was demoted in {:?}", began.elapsed());
    assert!(
        commit.await.unwrap().is_err(),
        "the commit was not acknowledged"
    );
    let back = a.running().await;
    assert_eq!(back.starts, 2);
    assert!(back.message.contains("killed"), "{}", back.message);
    assert!(back.server.unwrap().super_read_only);
    for replica in [b, c] {
        replica.signal_mysqld(Signal::SIGCONT);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_waits_for_the_handover_and_kills_what_would_answer() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld).await;
    let mut instances = cluster.bootstrap(3).await;
    let mut a = instances.remove(0);
    let [b, c] = &instances[..] else {
        unreachable!()
    };
    let ledger = Ledger::begin(&a).await;
    ledger.grows().await;

    a.signal(Signal::SIGTERM);
    a.status_when("stopping", |status| status.stopping).await;
    let demoted = a.obey(2, Command::Demote).await.server.unwrap();
    b.obey(2, promote(&demoted.gtid_executed, 1)).await;
    c.obey(2, follow(b)).await;
    b.obey(2, Command::Open).await;
    ledger.write_to(b);
    assert_eq!(a.ended().await, Some(0));
    ledger.grows().await;
    let ledger = ledger.end().await;
    assert_eq!(ledger.missing_on(&[b, c]).await, Vec::<u64>::new());

    // No operator, and a commit that can't be acknowledged.
    let mut b = instances.remove(0);
    let c = &instances[0];
    c.signal_mysqld(Signal::SIGSTOP);
    let mut app = b.app().await.unwrap();
    let commit =
        tokio::spawn(async move { app.query_drop("CREATE TABLE my_app.late (id INT)").await });
    b.status_when("the commit waits", |status| {
        status.server.as_ref().unwrap().semi_sync_waiting == 1
    })
    .await;
    b.signal(Signal::SIGTERM);
    assert_eq!(b.ended().await, Some(0));
    assert!(
        commit.await.unwrap().is_err(),
        "the commit was not acknowledged"
    );
    c.signal_mysqld(Signal::SIGCONT);
}
