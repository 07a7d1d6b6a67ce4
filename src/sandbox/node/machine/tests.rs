//! The machine alone, with a time of its own.

mod recover;

use super::*;
use serde_json::{Value, json};

/// A machine with its pod, and the time.
struct Bench {
    pod: Pod,
    machine: Machine,
    facts: Facts,
    now: Now,
    gone: bool,
}

fn pod(spec: &Value) -> Pod {
    let mut all = json!({
        "metadata": { "name": "demo-0", "namespace": "ns", "uid": "u", "generation": 2 },
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 120,
            "containers": [{ "name": "mysql", "image": "mysql:9" }],
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        all["spec"][key] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

fn mysql(probes: &Value) -> Value {
    let mut container = json!({ "name": "mysql", "image": "mysql:9" });
    for (key, value) in probes.as_object().unwrap() {
        container[key] = value.clone();
    }
    json!({
        "initContainers": [{ "name": "install", "image": "mainstay" }],
        "containers": [container],
    })
}

impl Bench {
    fn new(pod: Pod) -> Self {
        let now = Now {
            instant: Instant::now(),
            wall: "2026-01-01T00:00:00Z".parse().unwrap(),
        };
        let ip = "10.0.0.1".parse().unwrap();
        Self {
            machine: Machine::new(&pod, ip, ip, &BTreeMap::new(), now),
            pod,
            facts: Facts::default(),
            now,
            gone: false,
        }
    }

    fn pass(&mut self, millis: u64) -> &mut Self {
        let time = Duration::from_millis(millis);
        self.now.instant += time;
        self.now.wall += jiff::SignedDuration::try_from(time).unwrap();
        self
    }

    /// Steps; what is said to people is left out.
    fn step(&mut self) -> Vec<Action> {
        let actions = self
            .machine
            .step(&self.pod, self.gone, &self.facts, self.now);
        let quiet = |action: &Action| !matches!(action, Action::Tell(..));
        actions.into_iter().filter(quiet).collect()
    }

    fn event(&mut self, event: &Event) -> Vec<Action> {
        self.machine.event(event, self.now)
    }

    fn status(&mut self) -> Value {
        serde_json::to_value(self.machine.status(&self.pod, self.now)).unwrap()
    }

    fn condition(&mut self, name: &str) -> String {
        let status = self.status();
        let all = status["conditions"].as_array().unwrap();
        let one = all.iter().find(|c| c["type"] == name).unwrap();
        one["status"].as_str().unwrap().to_owned()
    }

    fn started(&mut self, container: &str, number: u32) {
        self.event(&Event::Started(run(container, number), Ok(())));
    }

    fn exited(&mut self, container: &str, number: u32, code: i32) {
        self.event(&Event::Exited(run(container, number), code));
    }

    fn probed(&mut self, kind: ProbeKind, passed: bool) -> Vec<Action> {
        let result = if passed { Ok(()) } else { Err("no".to_owned()) };
        let run = self.machine.containers.last().unwrap().this_run();
        self.event(&Event::Probed(run, kind, result))
    }

    /// Until its last container runs.
    fn running(pod: Pod) -> Self {
        let mut bench = Self::new(pod);
        assert_eq!(bench.step(), [Action::Mount]);
        bench.event(&Event::Mounted(Ok(())));
        if bench.machine.containers.len() > 1 {
            assert_eq!(bench.step(), [Action::Start(run("install", 0))]);
            bench.started("install", 0);
            assert_eq!(bench.step(), []);
            bench.exited("install", 0, 0);
        }
        assert_eq!(bench.step(), [Action::Start(run("mysql", 0))]);
        bench.started("mysql", 0);
        bench
    }
}

fn run(container: &str, run: u32) -> ContainerRun {
    ContainerRun {
        container: container.to_owned(),
        run,
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_comes_up_in_order_and_is_ready_once_its_probes_say_so() {
    let probes = json!({
        "startupProbe": { "periodSeconds": 1, "failureThreshold": 3600 },
        "readinessProbe": { "periodSeconds": 2, "failureThreshold": 2 },
        "livenessProbe": { "periodSeconds": 10, "failureThreshold": 6 },
    });
    let mut bench = Bench::new(pod(&mysql(&probes)));
    let status = bench.status();
    assert_eq!(status["phase"], "Pending");
    assert_eq!(
        status.get("podIP"),
        None,
        "no address before there is a network"
    );
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"]["reason"],
        "PodInitializing"
    );
    bench = Bench::running(pod(&mysql(&probes)));
    let status = bench.status();
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["podIP"], "10.0.0.1");
    assert_eq!(status["qosClass"], "BestEffort");
    assert_eq!(status["observedGeneration"], 2);
    assert_eq!(status["containerStatuses"][0]["started"], false);
    assert_eq!(
        status["initContainerStatuses"][0]["state"]["terminated"]["reason"],
        "Completed"
    );
    assert_eq!(bench.condition("Initialized"), "True");
    assert_eq!(bench.condition("Ready"), "False");
    let startup = Action::Probe(run("mysql", 0), ProbeKind::Startup);
    assert_eq!(bench.step(), std::slice::from_ref(&startup));
    bench.probed(ProbeKind::Startup, false);
    assert_eq!(bench.step(), []);
    assert_eq!(
        bench.machine.wake(bench.now),
        Some(bench.now.instant + Duration::from_secs(1))
    );
    assert_eq!(bench.pass(1000).step(), [startup]);
    bench.probed(ProbeKind::Startup, true);
    let others = [ProbeKind::Readiness, ProbeKind::Liveness];
    assert_eq!(
        bench.step(),
        others.map(|kind| Action::Probe(run("mysql", 0), kind))
    );
    bench.probed(ProbeKind::Liveness, true);
    assert_eq!(bench.condition("Ready"), "False");
    bench.probed(ProbeKind::Readiness, true);
    bench.pass(1500);
    let ready = bench.status()["conditions"][2].clone();
    assert_eq!(ready["status"], "True");
    bench.pass(9000);
    assert_eq!(
        bench.status()["conditions"][2],
        ready,
        "the transition keeps its time"
    );
    assert_eq!(ready["lastTransitionTime"], "2026-01-01T00:00:02Z");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_keeps_ending_is_started_at_growing_distances() {
    let mut bench = Bench::running(pod(&json!({})));
    let mut waits = Vec::new();
    for number in 0..7 {
        bench.exited("mysql", number, 1);
        let ended = bench.now.instant;
        let mut actions = bench.step();
        while actions.is_empty() {
            let status = bench.status();
            let container = &status["containerStatuses"][0];
            assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
            assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
            assert_eq!(container["restartCount"], number);
            assert_eq!(status["phase"], "Running");
            let wake = bench.machine.wake(bench.now).unwrap();
            bench.pass(u64::try_from((wake - bench.now.instant).as_millis()).unwrap());
            actions = bench.step();
        }
        waits.push((bench.now.instant - ended).as_secs());
        assert_eq!(actions, [Action::Start(run("mysql", number + 1))]);
        bench.started("mysql", number + 1);
    }
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300]);
    bench.pass(700_000).exited("mysql", 7, 1);
    assert_eq!(
        bench.step(),
        [Action::Start(run("mysql", 8))],
        "it ran long enough"
    );
}

#[tokio::test(start_paused = true)]
async fn a_liveness_probe_that_fails_restarts_the_container() {
    let probes = json!({ "livenessProbe": { "periodSeconds": 10, "failureThreshold": 2 } });
    let mut bench = Bench::running(pod(&mysql(&probes)));
    assert_eq!(bench.condition("Ready"), "True");
    bench.step();
    assert!(
        !bench
            .probed(ProbeKind::Liveness, false)
            .contains(&Action::Terminate(run("mysql", 0)))
    );
    bench.pass(10_000).step();
    let actions = bench.probed(ProbeKind::Liveness, false);
    assert!(
        actions.contains(&Action::Terminate(run("mysql", 0))),
        "{actions:?}"
    );
    assert_eq!(bench.pass(119_000).step(), []);
    assert_eq!(
        bench.pass(1000).step(),
        [Action::Kill(run("mysql", 0))],
        "the pod's grace"
    );
    assert_eq!(bench.pass(1000).step(), [], "once");
    bench.exited("mysql", 0, 137);
    assert_eq!(bench.step(), [Action::Start(run("mysql", 1))]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_stopped_released_and_removed_in_this_order() {
    let mut bench = Bench::running(pod(&mysql(&json!({}))));
    bench.pod.metadata.meta.deletion_timestamp = Some("2026-01-01T00:02:00Z".into());
    bench.pod.metadata.deletion_grace_period_seconds = Some(120);
    assert_eq!(bench.step(), [Action::Terminate(run("mysql", 0))]);
    assert_eq!(
        bench.condition("Ready"),
        "True",
        "it serves until it has stopped"
    );
    assert_eq!(bench.pass(60_000).step(), []);
    // Deleted once more, with less patience.
    bench.pod.metadata.deletion_grace_period_seconds = Some(5);
    assert_eq!(bench.step(), []);
    assert_eq!(bench.pass(5000).step(), [Action::Kill(run("mysql", 0))]);
    bench.exited("mysql", 0, 137);
    assert_eq!(bench.step(), [Action::Unmount]);
    assert!(!bench.machine.is_finished());
    bench.event(&Event::Unmounted);
    assert_eq!(bench.step(), [Action::Finish]);
    assert!(bench.machine.is_finished());
    let status = bench.status();
    assert_eq!(status["phase"], "Failed");
    assert_eq!(
        status["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        137
    );
    assert_eq!(bench.condition("PodReadyToStartContainers"), "False");
    assert_eq!(bench.step(), []);
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_while_a_container_starts_is_stopped_once_it_runs() {
    let mut bench = Bench::new(pod(&json!({})));
    bench.step();
    bench.event(&Event::Mounted(Ok(())));
    bench.step();
    bench.gone = true;
    assert_eq!(bench.step(), [], "not before it is known to run");
    bench.started("mysql", 0);
    assert_eq!(bench.step(), [Action::Terminate(run("mysql", 0))]);
    bench.exited("mysql", 0, 0);
    assert_eq!(bench.step(), [Action::Unmount]);
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_said_and_waited_for() {
    let mut bench = Bench::new(pod(&json!({})));
    bench.facts.mount = Some("secret \"demo-tls\" not found".to_owned());
    let actions = bench
        .machine
        .step(&bench.pod, false, &bench.facts, bench.now);
    let told = Action::Tell(
        EventType::Warning,
        "FailedMount",
        "secret \"demo-tls\" not found".into(),
    );
    assert_eq!(actions, [told]);
    assert_eq!(
        bench
            .machine
            .step(&bench.pod, false, &bench.facts, bench.now),
        []
    );
    bench.facts.mount = None;
    assert_eq!(bench.step(), [Action::Mount]);
    bench.event(&Event::Mounted(Err("no space".to_owned())));
    assert_eq!(bench.step(), []);
    assert_eq!(bench.pass(500).step(), [Action::Mount]);
    bench.event(&Event::Mounted(Ok(())));
    bench
        .facts
        .config
        .insert("mysql".to_owned(), "secret \"x\" not found".to_owned());
    assert_eq!(bench.step(), []);
    let waiting = bench.status()["containerStatuses"][0]["state"]["waiting"].clone();
    assert_eq!(waiting["reason"], "CreateContainerConfigError");
    bench.facts = Facts::default();
    assert_eq!(bench.step(), [Action::Start(run("mysql", 0))]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_restarted_succeeds_or_fails() {
    for (code, policy, phase) in [
        (0, "Never", "Succeeded"),
        (1, "Never", "Failed"),
        (0, "OnFailure", "Succeeded"),
        (1, "OnFailure", "Running"),
    ] {
        let mut bench = Bench::running(pod(&json!({ "restartPolicy": policy })));
        bench.exited("mysql", 0, code);
        assert_eq!(bench.status()["phase"], phase, "{code} {policy}");
        let over = phase != "Running";
        assert_eq!(bench.step() == [Action::Unmount], over, "{code} {policy}");
    }
    let mut bench = Bench::new(pod(&mysql(&json!({}))));
    bench.pod.spec.restart_policy = Some("Never".to_owned());
    bench.step();
    bench.event(&Event::Mounted(Ok(())));
    bench.step();
    bench.started("install", 0);
    bench.exited("install", 0, 2);
    assert_eq!(bench.step(), [Action::Unmount]);
    assert_eq!(bench.status()["phase"], "Failed");
}
