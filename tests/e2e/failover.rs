//! Writes go on, and none that was acknowledged is lost.

use std::cell::RefCell;
use std::time::Duration;

use crate::support::{Demo, State, demo, nodes_script, seconds, tell, until};

/// Longest time without writes that a failover may take here: two cores run all of the cluster.
const FAILOVER: Duration = seconds(30);

/// Does something to the cluster while the writer writes, waits until `done` says that it has had
/// its effect and all instances are ready again, and settles the ledger.
#[track_caller]
fn during(
    demo: &Demo,
    what: &str,
    limit: Duration,
    act: impl FnOnce(&State),
    mut done: impl FnMut(&State) -> Result<(), String>,
) -> State {
    let ledger = demo.ledger();
    let before = demo.ready(seconds(60));
    let mark = ledger.mark();
    act(&before);
    until(what, seconds(60), || done(&before));
    let (after, took) = until("all instances are ready again", seconds(120), || {
        demo.state(3)
    });
    ledger.settle(what, mark, limit);
    tell!(
        "{what}: primary {} → {}, READY 3/3 again {:.1} s after",
        before.primary,
        after.primary,
        took.as_secs_f64()
    );
    after
}

/// The pod of the old primary was replaced by one of the same name.
fn replaced(demo: &Demo, before: &State) -> Result<(), String> {
    match demo.uid(&before.primary)? {
        new if new.is_empty() || new == before.uid => {
            Err(format!("{} is still the old one, or away", before.primary))
        }
        _ => Ok(()),
    }
}

#[test]
fn the_primarys_pod_is_deleted() {
    let Some(demo) = demo() else { return };
    let after = during(
        &demo,
        "the primary's pod is deleted",
        FAILOVER,
        |before| {
            let delete = ["delete", "pod", &before.primary, "--wait=false"];
            demo.kubectl.must(&delete);
        },
        |before| replaced(&demo, before),
    );
    assert!(
        demo.events().contains(&after.primary),
        "no Event names {}:\n{}",
        after.primary,
        demo.events()
    );
}

#[test]
fn the_primarys_pod_is_deleted_by_force() {
    let Some(demo) = demo() else { return };
    during(
        &demo,
        "the primary's pod is deleted by force",
        FAILOVER,
        |before| {
            let delete = [
                "delete",
                "pod",
                &before.primary,
                "--force",
                "--grace-period=0",
                "--wait=false",
            ];
            demo.kubectl.must(&delete);
        },
        |before| replaced(&demo, before),
    );
}

#[test]
fn the_primarys_mysqld_is_killed() {
    let Some(demo) = demo() else { return };
    let shell = |pod: &str, script: &str| {
        demo.kubectl
            .run(&["exec", pod, "-c", "mysql", "--", "sh", "-c", script])
    };
    // Found in /proc: the image may have no ps.
    let find = "for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = mysqld ] && echo ${p#/proc/}; done; true";
    let old = RefCell::new(String::new());
    during(
        &demo,
        "the primary's mysqld is killed",
        FAILOVER,
        |before| {
            *old.borrow_mut() = shell(&before.primary, find).expect("mysqld runs");
            let kill = format!("kill -9 {}", old.borrow());
            shell(&before.primary, &kill).expect("it is killed");
        },
        |before| match shell(&before.primary, find)? {
            new if new.trim().is_empty() || new == *old.borrow() => {
                Err("no new mysqld yet".to_owned())
            }
            _ => Ok(()),
        },
    );
}

#[test]
fn a_switchover_is_asked_for() {
    let Some(demo) = demo() else { return };
    let target = demo.ready(seconds(60)).replicas.swap_remove(0);
    let after = during(
        &demo,
        "a switchover",
        seconds(10),
        |_| promote(&demo, &target),
        |_| match demo.primary()? {
            primary if primary == target => Ok(()),
            other => Err(format!("the primary is {other}")),
        },
    );
    assert_eq!(after.primary, target);
    assert!(
        demo.events().contains(&target),
        "no Event names {target}:\n{}",
        demo.events()
    );
}

fn promote(demo: &Demo, target: &str) {
    let annotation = format!("mysql.mainstay.dev/promote={target}");
    demo.kubectl
        .must(&["annotate", "myc", "demo", "--overwrite", &annotation]);
}

#[test]
fn the_primarys_node_is_cut_off_and_healed() {
    let Some(demo) = demo() else { return };
    let Some(nodes) = nodes_script() else {
        tell!("skipped: only the cluster of tests/cluster can cut a node off");
        return;
    };
    // The writer must stand on another node to see what goes on.
    let ledger = demo.ledger();
    let state = demo.ready(seconds(60));
    if demo.node("writer") == demo.node(&state.primary) {
        let elsewhere = |pod: &&String| demo.node(pod) != demo.node("writer");
        let target = state
            .replicas
            .iter()
            .find(elsewhere)
            .expect("instances are spread over nodes")
            .clone();
        promote(&demo, &target);
        until(
            "the primary moves away from the writer's node",
            seconds(60),
            || match demo.state(3)? {
                state if state.primary == target => Ok(()),
                state => Err(format!("the primary is {}", state.primary)),
            },
        );
    }
    during(
        &demo,
        "the primary's node is cut off and healed",
        seconds(45),
        |before| {
            let node = demo.node(&before.primary);
            let _cut = Cut::off(&nodes, &node);
            let ((), took) = until("another primary", seconds(60), || match demo.primary()? {
                primary if primary == before.primary => Err(format!("it is still {primary}")),
                _ => Ok(()),
            });
            tell!(
                "cut off: the status names another primary after {:.1} s",
                took.as_secs_f64()
            );
            ledger.flows(seconds(30));
        },
        |_| Ok(()),
    );
}

/// A node of tests/cluster that is cut off the network, until this is dropped.
struct Cut<'a, N: Fn(&[&str]) -> String> {
    nodes: &'a N,
    number: &'a str,
}

impl<'a, N: Fn(&[&str]) -> String> Cut<'a, N> {
    fn off(nodes: &'a N, node: &'a str) -> Self {
        let number = node.trim_start_matches("node-");
        nodes(&["cut", number]);
        Self { nodes, number }
    }
}

impl<N: Fn(&[&str]) -> String> Drop for Cut<'_, N> {
    fn drop(&mut self) {
        (self.nodes)(&["heal", self.number]);
    }
}

#[test]
fn it_grows_to_five_and_shrinks_to_three() {
    let Some(demo) = demo() else { return };
    let ledger = demo.ledger();
    let mark = ledger.mark();
    for (instances, limit) in [(5, 180), (3, 120)] {
        let replicas = format!("--replicas={instances}");
        demo.kubectl.must(&["scale", "myc", "demo", &replicas]);
        let (_, took) = until("it has that many instances", seconds(limit), || {
            demo.state(instances)
        });
        tell!("scaled to {instances} in {:.1} s", took.as_secs_f64());
    }
    ledger.settle("scaled 3 → 5 → 3", mark, seconds(10));
}
