use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

fn sight(executed: &str, fresh: bool) -> Sight {
    let status = json!({
        "name": "x", "podUid": "u", "term": 1, "phase": "Running", "message": "", "starts": 2,
        "promoted": false, "stopping": false, "configHash": "", "appHash": "",
        "server": {
            "version": "9.7.0", "serverUuid": UUID, "superReadOnly": true, "gtidPurged": "",
            "gtidExecuted": format!("{UUID}:{executed}"), "semiSyncSource": false,
            "semiSyncWaitFor": 1, "semiSyncClients": 0, "semiSyncWaiting": 0,
            "semiSyncReplica": true,
            "replication": {
                "sourceHost": "demo-0", "receiver": {"state": "connecting", "error": ""},
                "applier": "on", "received": "", "sourceSilentMs": 0, "lagSeconds": 2.5,
            },
        },
    });
    Sight {
        pod_uid: "u".into(),
        status: Some(serde_json::from_value(status).unwrap()),
        read_at: Some(Instant::now()),
        asked_at: None,
        fresh,
        since: Instant::now(),
        mute_since: None,
        error: String::new(),
        told_to_follow: None,
        told_to_clone: None,
        suspicion: None,
    }
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn pod(name: &str, role: &str) -> Arc<Pod> {
    object(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {ROLE_LABEL: role}},
        "status": {"phase": "Running"},
    }))
}

/// The primary, and a replica that was read `later` and has executed that.
fn facts_of(replica: &str, later: i32) -> Facts {
    let (primary, mut replica) = (sight("1-10", true), sight(replica, true));
    let step = Duration::from_secs(1);
    let read_at = primary
        .read_at
        .map(|at| if later < 0 { at - step } else { at + step });
    replica.read_at = read_at;
    let mut facts = facts();
    facts.sights = [
        ("demo-0".to_owned(), primary),
        ("demo-1".to_owned(), replica),
    ]
    .into();
    facts.readings.note(Some("demo-0"), &facts.sights);
    facts
}

fn facts() -> Facts {
    let row = |name: &str, ready: bool, state: &str| json!({"name": name, "ready": ready, "state": state});
    Facts {
        cluster: Some(object(json!({
            "metadata": {"name": "demo", "generation": 2},
            "spec": {"instances": 3},
            "status": {
                "observedGeneration": 1, "phase": "Degraded", "reason": "why", "ready": "2/3",
                "currentPrimary": "demo-0", "targetPrimary": "demo-1",
                "quorum": {
                    "current": {"primary": "demo-0", "members": ["demo-1"], "acks": 1},
                    "next": {"primary": "demo-0", "members": [], "acks": 0},
                },
                "operation": {
                    "type": "Failover", "step": "proving", "startedAt": "", "reason": "",
                },
                "instances": [
                    row("demo-0", true, ""), row("demo-1", true, ""), row("demo-2", false, "lost"),
                ],
            },
        }))),
        pods: vec![pod("demo-0", "primary"), pod("demo-1", "replica")],
        ..Facts::default()
    }
}

#[test]
fn a_cluster_in_words() {
    let view = cluster(facts().cluster.as_ref().unwrap());
    assert_eq!(
        (view.generation, view.observed_generation, view.wanted),
        (2, 1, 3)
    );
    assert_eq!(
        (view.phase.as_str(), view.primary.as_str()),
        ("Degraded", "demo-0")
    );
    assert_eq!(view.quorum, "1 of demo-1 → nobody");
    assert_eq!(view.operation, "Failover: proving");
}

#[test]
fn instances_are_what_operator_api_and_managers_say_of_them() {
    let views = instances(&facts_of("1-7", 1));
    let names: Vec<_> = views.iter().map(|view| view.pod.as_str()).collect();
    assert_eq!(names, ["demo-0", "demo-1", "demo-2"]);
    let replica = &views[1];
    assert_eq!(
        (replica.role.as_str(), replica.uid.as_str()),
        ("replica", "uid-demo-1")
    );
    let lag = Lag {
        transactions: 3,
        seconds: Some(2.5),
    };
    assert_eq!((replica.lag, replica.starts), (Some(lag), Some(2)));
    assert_eq!(replica.state, "receiver of demo-0: connecting");
    assert_eq!((views[2].state.as_str(), views[2].heard), ("no pod", false));
}

#[test]
fn a_replica_lags_by_what_the_primary_had_when_it_was_read() {
    let lag = |facts: &Facts| instances(facts)[1].lag.map(|lag| lag.transactions);
    assert_eq!(lag(&facts_of("1-10", 1)), Some(0));
    // What the primary has done since is nothing that the replica lacked.
    assert_eq!(lag(&facts_of("1-7", -1)), None);
    let mut facts = facts_of("1-7", 1);
    facts.readings.note(Some("demo-1"), &facts.sights);
    assert_eq!(lag(&facts), Some(0), "of another primary");
}

#[test]
fn an_instance_that_is_not_heard_has_no_position() {
    let mut facts = facts_of("1-7", 1);
    facts.sights.insert("demo-1".into(), sight("1-7", false));
    let replica = &instances(&facts)[1];
    assert!(!replica.heard && replica.gtid.is_empty() && replica.lag.is_none());
}

#[test]
fn the_leader_is_the_replica_that_runs_and_holds_the_lease() {
    let lease: Arc<Lease> = object(json!({
        "metadata": {}, "spec": {"holderIdentity": "mainstay-1_a_7_1700000000000", "leaseTransitions": 2},
    }));
    let now = Instant::now();
    let mut state = OperatorState {
        identity: "mainstay-1_a".into(),
        process: Ok(7),
        since: now,
    };
    let view = replica("mainstay-1", &state, Some(&lease), now);
    assert_eq!((view.leads, view.term, view.pid), (true, Some(3), Some(7)));
    state.process = Err("killed".into());
    let view = replica("mainstay-1", &state, Some(&lease), now);
    assert_eq!(
        (view.leads, view.term, view.why.as_str()),
        (false, None, "killed")
    );
    state.process = Ok(7);
    state.identity = "mainstay-1_ab".into();
    assert!(!replica("mainstay-1", &state, Some(&lease), now).leads);
    state.identity = String::new();
    assert!(!replica("mainstay-1", &state, Some(&lease), now).leads);
    assert_eq!(holder(Some(&lease)), "mainstay-1_a_7_1700000000000");
    assert_eq!(holder(None), "");
}

#[test]
fn the_latest_event_is_first() {
    let event = |name: &str, second: u32, count: u32| -> Arc<Event> {
        object(json!({
            "metadata": {"name": name, "uid": name},
            "type": "Warning", "reason": "R", "note": "n", "regarding": {"name": "demo"},
            "series": {"count": count, "lastObservedTime": format!("2026-11-30T10:00:{second:02}Z")},
        }))
    };
    let all = [event("a", 1, 1), event("b", 9, 4), event("c", 5, 1)];
    let now = "2026-11-30T10:00:08Z".parse().unwrap();
    let views = events(all.iter().map(|event| &**event), now);
    let shown: Vec<_> = views
        .iter()
        .map(|v| (v.key.as_str(), v.age.as_secs()))
        .collect();
    assert_eq!(shown, [("b", 0), ("c", 3), ("a", 7)]);
    assert!(views[0].warning && views[0].count == 4);
}
