//! Who is obeyed, who is told what, and when.

use std::time::{Duration, Instant};

use http::StatusCode;
use mainstay::instance::{Command, CommandRefusal, InstancePhase};
use mysql_async::prelude::Queryable as _;
use nix::sys::signal::Signal;

use crate::harness::{Cluster, mysqld, promote, until};

#[tokio::test(flavor = "multi_thread")]
async fn only_the_leader_with_the_token_is_obeyed() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld).await;
    let instances = cluster.bootstrap(1).await;
    let a = &instances[0];
    a.obey(7, Command::StopReceiver).await;
    let refused = a.command(6, &Command::Demote).await.unwrap_err();
    assert_eq!(
        (refused.refusal, refused.term),
        (CommandRefusal::StaleTerm, 7)
    );
    assert!(!a.server().await.super_read_only, "nothing was done");
    assert_eq!(
        a.get_without_token("/v1/status").await.unwrap().0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        a.get_without_token("/livez").await.unwrap().0,
        StatusCode::OK
    );
    // A promotion that lacks something, and can't get it, is refused at once.
    a.obey(7, Command::Demote).await;
    let uuid = a.server().await.server_uuid;
    let missing = promote(&format!("{uuid}:1-1000000"), 0);
    let refused = a.command(7, &missing).await.unwrap_err();
    assert_eq!(refused.refusal, CommandRefusal::NotNow);
    assert!(refused.message.contains(&uuid), "{}", refused.message);
    // A new token counts at once.
    std::fs::write(cluster.path("internal/token"), "another").unwrap();
    assert_eq!(
        a.get("/v1/status").await.unwrap().0,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_mysqld_is_told_at_once() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld).await;
    let a = cluster.start(0);
    a.running().await;
    let mut watch = a.watch().await;
    assert_eq!(watch.next().await.phase, InstancePhase::Running);
    let began = Instant::now();
    a.signal_mysqld(Signal::SIGKILL);
    let status = watch
        .next_where(|status| status.phase != InstancePhase::Running)
        .await;
    let took = began.elapsed();
    println!("told in {took:?}");
    assert_eq!(
        (status.phase, &status.server),
        (InstancePhase::Restarting, &None)
    );
    assert!(
        took < Duration::from_millis(900),
        "no beat was waited for: {took:?}"
    );
    watch
        .next_where(|status| status.phase == InstancePhase::Running && status.starts == 2)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_1710_a_hung_server_is_reported_and_uses_nothing_up() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld).await;
    let a = cluster.start(0);
    a.running().await;
    let before = a.descriptors();
    a.signal_mysqld(Signal::SIGSTOP);
    a.status_when("unknown", |status| status.server.is_none())
        .await;
    // Each status is a try of its own.
    for _ in 0..3 {
        let status = a.status().await.unwrap();
        assert_eq!(
            (status.phase, status.server),
            (InstancePhase::Running, None)
        );
        assert!(status.message.contains("answer"), "{}", status.message);
    }
    let during = a.descriptors();
    assert!(
        during <= before + 2,
        "{before} descriptors before, {during} now"
    );
    assert_eq!(
        a.get("/livez").await.unwrap().0,
        StatusCode::OK,
        "a stall is no reason to be killed"
    );
    assert_eq!(
        a.get("/readyz").await.unwrap().0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    a.signal_mysqld(Signal::SIGCONT);
    a.running().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_served_without_a_restart() {
    let Some(mysqld) = mysqld() else { return };
    let cluster = Cluster::new(mysqld).await;
    let a = cluster.start(0);
    a.running().await;
    let mut root = a.root().await;
    let expiry = "SHOW STATUS LIKE 'Ssl_server_not_after'";
    let before: Option<(String, String)> = root.query_first(expiry).await.unwrap();
    cluster.renew_certificate();
    let root = tokio::sync::Mutex::new(root);
    until("mysqld has the new certificate", || async {
        let now: Option<(String, String)> = root.lock().await.query_first(expiry).await.unwrap();
        (now != before).then_some(())
    })
    .await;
    assert_eq!(a.status().await.unwrap().starts, 1);
}
