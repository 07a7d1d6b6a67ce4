//! A kubelet that is started anew.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_starts_anew_finds_what_runs_and_restarts_what_is_gone() {
    let mut before = Bench::running(pod(&mysql(&json!({ "readinessProbe": {} }))));
    before.step();
    before.probed(ProbeKind::Readiness, true);
    let mut pod = before.pod.clone();
    pod.status = before.machine.status(&pod, before.now);
    let ip = "10.0.0.1".parse().unwrap();
    let anew = |running: &BTreeMap<String, u32>| {
        let mut bench = Bench::new(pod.clone());
        bench.now = before.now;
        bench.machine = Machine::new(&pod, ip, ip, running, before.now);
        bench
    };

    let mut found = anew(&BTreeMap::from([("mysql".to_owned(), 0)]));
    assert_eq!(
        found.machine.status(&pod, found.now),
        pod.status,
        "nothing is to be written"
    );
    assert_eq!(found.step()[0], Action::Mount);
    found.event(&Event::Mounted(Ok(())));
    assert_eq!(found.step(), [], "and nothing to be started");

    let mut lost = anew(&BTreeMap::new());
    lost.step();
    lost.event(&Event::Mounted(Ok(())));
    assert_eq!(
        lost.step(),
        [Action::Start(run("mysql", 1))],
        "the init container is done"
    );
    lost.started("mysql", 1);
    let status = lost.status();
    let container = &status["containerStatuses"][0];
    assert_eq!(container["restartCount"], 1);
    assert_eq!(
        container["lastState"]["terminated"]["reason"],
        "ContainerStatusUnknown"
    );

    // Killed between the last container's end and the pod's removal: the rest is done again.
    pod.metadata.meta.deletion_timestamp = Some("2026-01-01T00:02:00Z".into());
    let mut ending = Bench::new(pod);
    assert_eq!(ending.step(), [Action::Unmount]);
    ending.event(&Event::Unmounted);
    assert_eq!(ending.step(), [Action::Finish]);
}
