//! The instance manager with real mysqlds, as a black box: processes, HTTPS, SQL.
//!
//! `MAINSTAY_TEST_MYSQLD` names the mysqld (or a script that runs one). Without it every test is
//! skipped and says so.

mod harness;
mod ledger;

use std::time::Instant;

use harness::{Cluster, mysqld, until};
use http::StatusCode;
use ledger::Ledger;
use mainstay::{
    instance::{Command, CommandRefusal, Follow, InstancePhase, Promote},
    mysql::{GtidSet, ThreadState},
};
use mysql_async::prelude::Queryable as _;
use nix::sys::signal::Signal;

fn set(text: &str) -> GtidSet {
    text.parse().unwrap()
}

fn promote(required: &str, acks: u32) -> Command {
    Command::Promote(Promote {
        required: required.to_owned(),
        acks,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn three_instances_switch_over_fail_over_and_clone() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld);
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
    assert!(demoted.super_read_only && !demoted.semi_sync_source);
    b.obey(2, promote(&demoted.gtid_executed, 1)).await;
    c.obey(2, c.follow(b)).await;
    a.obey(2, a.follow(b)).await;
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
    let [x, y] = [a.server().await, c.server().await].map(|server| {
        set(&server.gtid_executed).union(&set(&server.replication.unwrap().received))
    });
    assert!(x.is_subset_of(&y) || y.is_subset_of(&x));
    let (next, other) = if y.is_subset_of(&x) { (a, c) } else { (c, a) };
    next.obey(3, promote(&x.union(&y).to_string(), 1)).await;
    other.obey(3, other.follow(next)).await;
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

    // It has a transaction of its own, so it is replaced by a clone; its binary logs are kept.
    let mut root = b.root().await;
    root.query_drop("SET GLOBAL super_read_only=OFF")
        .await
        .unwrap();
    root.query_drop("CREATE DATABASE errant").await.unwrap();
    root.query_drop("SET GLOBAL super_read_only=ON")
        .await
        .unwrap();
    drop(root);
    let clone = Command::Clone(Follow {
        source_host: next.host.clone(),
        acknowledge: true,
    });
    let begun = b.obey(3, clone.clone()).await;
    assert_eq!(begun.phase, InstancePhase::Cloning);
    b.obey(3, clone).await;
    let cloned = b
        .status_when("cloned", |status| {
            status.phase == InstancePhase::Running && status.message.is_empty()
        })
        .await;
    let cloned = cloned.server.unwrap();
    assert!(cloned.super_read_only);
    assert_eq!(cloned.replication.unwrap().source_host, next.host);
    assert!(
        std::fs::read_dir(b.volume.join("mainstay/aside"))
            .unwrap()
            .count()
            == 1
    );
    let mut root = b.root().await;
    let errant: Option<String> = root
        .query_first("SHOW DATABASES LIKE 'errant'")
        .await
        .unwrap();
    assert_eq!(errant, None);

    let missing = ledger.end().await.missing_on(&[a, b, c]).await;
    assert_eq!(missing, Vec::<u64>::new(), "acknowledged rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn moco_813_commits_without_acknowledgement_are_never_answered() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld);
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
    assert!(back.server.unwrap().super_read_only);
    for replica in [b, c] {
        replica.signal_mysqld(Signal::SIGCONT);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_waits_for_the_handover_and_kills_what_would_answer() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld);
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
    c.obey(2, c.follow(b)).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_volume_gets_the_passwords_of_the_day() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld);
    let mut instances = cluster.bootstrap(1).await;
    let mut a = instances.remove(0);
    let mut app = a.app().await.unwrap();
    app.query_drop("CREATE TABLE my_app.t (id INT PRIMARY KEY)")
        .await
        .unwrap();
    app.query_drop("INSERT INTO my_app.t VALUES (1)")
        .await
        .unwrap();
    let mut root = a.root().await;
    // Things a person may have done that must not matter at the next start.
    root.query_drop("SET PERSIST super_read_only=OFF, PERSIST password_history=9")
        .await
        .unwrap();
    root.query_drop("ALTER USER mainstay_admin@localhost ACCOUNT LOCK")
        .await
        .unwrap();
    drop((app, root));
    a.signal(Signal::SIGTERM);
    assert_eq!(a.ended().await, Some(0));
    drop(a);

    for name in ["internal/admin", "internal/replication", "internal/clone"] {
        std::fs::write(cluster.path(name), format!("other {name}")).unwrap();
    }
    let a = cluster.start(0);
    let status = a.running().await;
    assert_eq!(status.term, 1, "the term stays on the volume");
    let server = status.server.unwrap();
    assert!(server.super_read_only);
    assert!(set(&server.gtid_executed).count() > 0);
    let mut root = a.root().await;
    let rows: Option<u8> = root
        .query_first("SELECT COUNT(*) FROM my_app.t")
        .await
        .unwrap();
    assert_eq!(rows, Some(1));
    let after: Option<String> = root
        .query_first("SELECT @@GLOBAL.gtid_executed")
        .await
        .unwrap();
    assert_eq!(
        after.unwrap().replace('\n', ""),
        server.gtid_executed,
        "accounts are not in the binary log"
    );
    assert!(
        !a.run.join("init.sql").exists(),
        "no passwords are left in a file"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_configuration_is_explained_and_heals() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld);
    let config = cluster.path("my.cnf");
    let good = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{good}innodb_log_file_size=1G\n")).unwrap();
    let a = cluster.start(0);
    let refused = a
        .status_when("refused", |status| {
            status.phase == InstancePhase::Restarting
        })
        .await;
    assert!(
        refused
            .message
            .contains("unknown variable 'innodb_log_file_size=1G'"),
        "{}",
        refused.message
    );
    assert_eq!(
        a.get("/livez").await.unwrap().0,
        StatusCode::OK,
        "killing it would not help"
    );
    assert_eq!(
        a.get("/readyz").await.unwrap().0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    std::fs::write(&config, &good).unwrap();
    let healed = a.running().await;
    assert_eq!(healed.config_hash, mainstay::mysql::config_hash(&good));
    assert_eq!(a.get("/readyz").await.unwrap().0, StatusCode::OK);

    // What only shows when it starts: the words of its log, and no data lost.
    a.obey(1, promote("", 0)).await;
    a.obey(1, Command::Open).await;
    let mut root = a.root().await;
    root.query_drop("CREATE DATABASE kept").await.unwrap();
    drop(root);
    std::fs::write(&config, format!("{good}innodb_undo_directory=/nowhere\n")).unwrap();
    a.signal_mysqld(Signal::SIGKILL);
    let refused = a
        .status_when("refused", |status| {
            status.phase == InstancePhase::Restarting && status.message.contains(": ")
        })
        .await;
    println!("{}", refused.message);
    std::fs::write(&config, &good).unwrap();
    a.running().await;
    let mut root = a.root().await;
    let kept: Option<String> = root
        .query_first("SHOW DATABASES LIKE 'kept'")
        .await
        .unwrap();
    assert_eq!(kept.as_deref(), Some("kept"));
}

#[tokio::test(flavor = "multi_thread")]
async fn moco_731_a_new_source_does_not_cost_what_was_received() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld);
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
    c.obey(2, c.follow(b)).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn only_the_leader_with_the_token_is_obeyed() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld);
    let instances = cluster.bootstrap(1).await;
    let a = &instances[0];
    a.obey(7, Command::StopReceiver).await;
    let refused = a.command(6, &Command::Demote).await.unwrap_err();
    assert_eq!(
        (refused.refusal, refused.term),
        (CommandRefusal::StaleTerm, 7)
    );
    assert!(!a.server().await.super_read_only, "nothing was done");
    let url = format!("https://{}:{}/v1/status", a.host, harness::MANAGER_PORT);
    let bare = http::Request::get(url)
        .body(http_body_util::Full::default())
        .unwrap();
    assert_eq!(a.send(bare).await.unwrap().0, StatusCode::UNAUTHORIZED);
    // A promotion that lacks something, and can't get it, is refused at once.
    a.obey(7, Command::Demote).await;
    let uuid = a.server().await.server_uuid;
    let refused = a
        .command(7, &promote(&format!("{uuid}:1-1000000"), 0))
        .await
        .unwrap_err();
    assert_eq!(refused.refusal, CommandRefusal::NotNow);
    assert!(refused.message.contains(&uuid), "{}", refused.message);
    until("probes answer without a token", || async {
        let url = format!("https://{}:{}/livez", a.host, harness::MANAGER_PORT);
        let bare = http::Request::get(url)
            .body(http_body_util::Full::default())
            .unwrap();
        a.send(bare)
            .await
            .filter(|(code, _)| *code == StatusCode::OK)
    })
    .await;
}
