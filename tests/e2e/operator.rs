//! The operator: its leader, what it puts right, and its silence.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    Demo, Metrics, OPERATOR, demo, name, nodes_script, seconds, tell, text, until,
};

fn holder() -> Result<String, String> {
    let lease = OPERATOR
        .get("lease", "mainstay")?
        .ok_or("no Lease mainstay")?;
    Ok(text(&lease["spec"]["holderIdentity"]).to_owned())
}

/// The pod that leads.
fn leader() -> String {
    until("a replica leads", seconds(30), || {
        let holder = holder()?;
        let pods = OPERATOR.list("pods", "app.kubernetes.io/name=mainstay")?;
        let mut names = pods.iter().map(name);
        names
            .find(|name| holder.contains(name))
            .map(str::to_owned)
            .ok_or(format!("the lease is held by {holder:?}"))
    })
    .0
}

/// Time until a Service that is deleted now is there again.
fn service_returns(demo: &Demo, limit: Duration) -> Duration {
    let uid = |service: Option<serde_json::Value>| {
        service.map(|service| text(&service["metadata"]["uid"]).to_owned())
    };
    let old = uid(demo
        .kubectl
        .get("service", "demo-ro")
        .expect("it can be read"));
    demo.kubectl
        .must(&["delete", "service", "demo-ro", "--wait=false"]);
    until("the Service demo-ro is there again", limit, || {
        match uid(demo.kubectl.get("service", "demo-ro")?) {
            new if new.is_none() || new == old => Err("it is not".to_owned()),
            _ => Ok(()),
        }
    })
    .1
}

/// Time until another replica than `old` holds the lease.
#[track_caller]
fn another_leads(old: &str, limit: Duration) -> Duration {
    let ((), took) = until("another replica holds the lease", limit, || {
        match holder()? {
            new if new.is_empty() || new.contains(old) => {
                Err(format!("the lease is held by {new:?}"))
            }
            _ => Ok(()),
        }
    });
    took
}

fn both_run() {
    OPERATOR.must(&["rollout", "status", "deployment/mainstay", "--timeout=50s"]);
}

#[test]
fn the_leaders_pod_is_deleted() {
    let Some(demo) = demo() else { return };
    let old = leader();
    let start = Instant::now();
    OPERATOR.must(&["delete", "pod", &old, "--wait=false"]);
    let leads = another_leads(&old, seconds(15)).as_secs_f64();
    service_returns(&demo, seconds(10));
    let acts = start.elapsed().as_secs_f64();
    tell!(
        "the leader's pod is deleted: another leads after {leads:.1} s, has put a child back after {acts:.1} s"
    );
    both_run();
}

#[test]
fn the_leader_is_killed() {
    let Some(demo) = demo() else { return };
    let Some(nodes) = nodes_script() else {
        tell!(
            "skipped: only the cluster of tests/cluster can kill a process of an image without a shell"
        );
        return;
    };
    let old = leader();
    nodes(&["signal", "KILL", &format!("mainstay-system/{old}")]);
    // By the other, once the lease has expired, or by its own successor in the same pod.
    let acts = service_returns(&demo, seconds(30)).as_secs_f64();
    tell!(
        "the leader is killed: {} leads, a child is put back after {acts:.1} s",
        leader()
    );
    both_run();
}

#[test]
fn a_leader_that_hangs_is_replaced_and_does_not_lead_when_it_wakes() {
    let Some(demo) = demo() else { return };
    let Some(nodes) = nodes_script() else {
        tell!(
            "skipped: only the cluster of tests/cluster can stop a process of an image without a shell"
        );
        return;
    };
    let old = leader();
    let pod = format!("mainstay-system/{old}");
    nodes(&["signal", "STOP", &pod]);
    let leads = another_leads(&old, seconds(30)).as_secs_f64();
    let new = holder().expect("the lease can be read");
    nodes(&["signal", "CONT", &pod]);
    let acts = service_returns(&demo, seconds(10)).as_secs_f64();
    tell!(
        "the leader hangs: another leads after {leads:.1} s, and puts a child back in {acts:.2} s"
    );
    both_run();
    assert_eq!(
        holder().expect("the lease can be read"),
        new,
        "it kept the lead"
    );
}

#[test]
fn what_a_person_deletes_or_edits_is_put_back() {
    let Some(demo) = demo() else { return };
    let took = service_returns(&demo, seconds(10));
    tell!(
        "a deleted Service is back after {:.2} s",
        took.as_secs_f64()
    );

    let data = || {
        demo.kubectl
            .run(&["get", "configmap", "demo-config", "-o", "jsonpath={.data}"])
    };
    let right = data().expect("it can be read");
    let edit = r#"{"data":{"my.cnf":"[mysqld]\nmax_connections=1\n"}}"#;
    demo.kubectl.must(&[
        "patch",
        "configmap",
        "demo-config",
        "--type=merge",
        "-p",
        edit,
    ]);
    let ((), took) = until("the ConfigMap is as it was", seconds(10), || {
        match data()? {
            now if now == right => Ok(()),
            other => Err(other),
        }
    });
    tell!(
        "an edited ConfigMap is put right after {:.2} s",
        took.as_secs_f64()
    );

    let selector = r#"{"spec":{"selector":{"mysql.mainstay.dev/role":"replica"}}}"#;
    demo.kubectl.must(&[
        "patch",
        "service",
        "demo-rw",
        "--type=merge",
        "-p",
        selector,
    ]);
    until("demo-rw selects the primary", seconds(10), || {
        let service = demo.kubectl.get("service", "demo-rw")?.unwrap_or_default();
        match text(&service["spec"]["selector"]["mysql.mainstay.dev/role"]) {
            "primary" => Ok(()),
            other => Err(format!("it selects {other}")),
        }
    });
}

/// The minute is what is measured: nothing is waited for.
#[test]
fn a_minute_of_steady_state_writes_nothing_but_the_lease() {
    let Some(demo) = demo() else { return };
    both_run();
    leader();
    let before = Metrics::read();
    thread::sleep(seconds(60));
    let after = Metrics::read();
    demo.state(3).expect("it stays ready");

    let requests = after.rises("rest_client_requests_total", &before);
    for (series, rise) in &requests {
        tell!("in a minute: {rise:>4} {series}");
    }
    for (series, rise) in after.rises("process_cpu_seconds_total", &before) {
        tell!("in a minute: {rise:.2} s of CPU, {series}");
    }
    for (series, bytes) in after.named("process_resident_memory_bytes") {
        tell!("memory: {:.1} MiB, {series}", bytes / 1_048_576.0);
    }
    assert!(
        !requests.is_empty(),
        "the operator renews its lease, so it counts requests"
    );
    let reads = [
        "verb=\"get\"",
        "verb=\"list\"",
        "verb=\"watch\"",
        "resource=\"leases\"",
    ];
    let writes: Vec<_> = requests
        .iter()
        .filter(|(series, _)| {
            !reads
                .iter()
                .any(|read| series.to_lowercase().contains(read))
        })
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
}
