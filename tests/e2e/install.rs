//! From nothing to a cluster that serves.

use crate::support::{demo, seconds, until};

#[test]
fn the_sample_serves_within_two_minutes_and_has_its_children() {
    let Some(demo) = demo() else { return };
    assert!(demo.took < seconds(120), "it took {:?}", demo.took);

    for child in [
        "service/demo-rw",
        "service/demo-ro",
        "service/demo-instances",
        "configmap/demo-config",
        "secret/demo-app",
        "secret/demo-root",
        "secret/demo-internal",
        "secret/demo-ca",
        "secret/demo-tls",
        "poddisruptionbudget/demo",
        "persistentvolumeclaim/data-demo-0",
        "persistentvolumeclaim/data-demo-1",
        "persistentvolumeclaim/data-demo-2",
    ] {
        demo.kubectl.must(&["get", child]);
    }
    let table = demo.kubectl.must(&["get", "myc", "demo"]);
    let columns: Vec<_> = table
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    assert_eq!(
        columns,
        ["NAME", "READY", "PRIMARY", "STATUS", "VERSION", "AGE"]
    );
    let nodes: Vec<_> = ["demo-0", "demo-1", "demo-2"]
        .map(|pod| demo.node(pod))
        .into();
    assert!(
        nodes.iter().any(|node| *node != nodes[0]),
        "all on one node: {nodes:?}"
    );
}

#[test]
fn a_row_written_through_rw_is_read_through_ro_where_nothing_can_be_written() {
    let Some(demo) = demo() else { return };
    let ledger = demo.ledger();
    let create = "CREATE TABLE IF NOT EXISTS greetings (id INT PRIMARY KEY, text VARCHAR(40))";
    ledger
        .sql("demo-rw", create)
        .expect("the account owns its database");
    ledger
        .sql(
            "demo-rw",
            "REPLACE INTO greetings VALUES (1, 'good morning')",
        )
        .expect("rw accepts writes");
    until(
        "the row arrives at the replicas",
        seconds(5),
        || match ledger.sql("demo-ro", "SELECT text FROM greetings WHERE id = 1")? {
            text if text.trim() == "good morning" => Ok(()),
            other => Err(format!("it reads {other:?}")),
        },
    );
    let refusal = ledger
        .sql("demo-ro", "REPLACE INTO greetings VALUES (2, 'bad')")
        .expect_err("ro refuses writes");
    assert!(refusal.contains("read-only"), "{refusal}");
}

#[test]
fn a_cluster_deleted_and_applied_again_has_its_rows() {
    let Some(demo) = demo() else { return };
    let ledger = demo.ledger();
    let mark = ledger.mark();
    let secret = || {
        demo.kubectl.must(&[
            "get",
            "secret",
            "demo-app",
            "-o",
            "jsonpath={.data.password}",
        ])
    };
    let password = secret();

    demo.kubectl
        .must(&["delete", "myc", "demo", "--timeout=60s"]);
    until("its pods go away", seconds(60), || {
        let pods = demo
            .kubectl
            .list("pods", "mysql.mainstay.dev/cluster=demo")?;
        if pods.is_empty() {
            Ok(())
        } else {
            Err(format!("{} pods left", pods.len()))
        }
    });
    demo.kubectl
        .must(&["get", "pvc", "data-demo-0", "data-demo-1", "data-demo-2"]);
    demo.apply();
    demo.ready(seconds(120));

    assert!(secret() == password, "the application's account changed");
    ledger.settle("deleted and applied again", mark, seconds(180));
}
