//! Data directories, accounts and configurations at the start.

use http::StatusCode;
use mainstay::instance::{Command, InstancePhase};
use mysql_async::prelude::Queryable as _;
use nix::sys::signal::Signal;

use crate::harness::{Cluster, mysqld, promote, set, until};

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_volume_gets_the_passwords_of_the_day() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld).await;
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
    let cluster = Cluster::new(mysqld).await;
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
    assert_eq!(healed.config_hash, mainstay::mysql::config::hash(&good));
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
async fn an_interrupted_initialisation_is_begun_anew() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld).await;
    let mut a = cluster.start(0);
    let unfinished = a.volume.join("data.initialising/mysql.ibd");
    until("initialising", || async {
        unfinished.exists().then_some(())
    })
    .await;
    a.signal(Signal::SIGTERM);
    assert_eq!(a.ended().await, Some(0));
    assert!(!a.volume.join("data").exists());
    drop(a);
    let a = cluster.start(0);
    assert_eq!(a.running().await.server.unwrap().gtid_executed, "");
    assert!(!a.volume.join("data.initialising").exists());
}
