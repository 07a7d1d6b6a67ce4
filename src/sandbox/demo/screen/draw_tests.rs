use std::time::Duration;

use super::draw;
use crate::sandbox::demo::screen::{Line, Style};
use crate::sandbox::demo::snapshot::{
    ClusterView, EventView, InstanceView, Lag, Rates, ReplicaView, Snapshot,
};

const UUIDS: [&str; 2] = [
    "3f2afa47-71ca-11e1-9e33-c80aa9429562",
    "91bcfa47-71ca-11e1-9e33-c80aa9429562",
];

fn instance(pod: &str, role: &str, transactions: u64) -> InstanceView {
    InstanceView {
        pod: pod.into(),
        uid: format!("uid-{pod}"),
        role: role.into(),
        ready: true,
        gtid: format!("{}:1-5,{}:1-7", UUIDS[0], UUIDS[1]),
        lag: Some(Lag {
            transactions,
            seconds: Some(3.2),
        }),
        heard: true,
        starts: Some(1),
        state: String::new(),
    }
}

fn operator(number: u32, leads: bool) -> ReplicaView {
    ReplicaView {
        name: format!("mainstay-{number}"),
        identity: format!("mainstay-{number}_u"),
        pid: Some(4000 + number),
        age: Duration::from_secs(75),
        leads,
        term: leads.then_some(4),
        why: String::new(),
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        age: Duration::from_secs(72),
        mysql: "modelled, in memory".into(),
        kubeconfig: "/tmp/demo/kubeconfig".into(),
        cluster: ClusterView {
            name: "demo".into(),
            phase: "Running".into(),
            ready: "3/3".into(),
            wanted: 3,
            primary: "demo-1".into(),
            version: "9.7.4".into(),
            quorum: "1 of demo-0, demo-2".into(),
            reason: "3 of 3 instances are ready".into(),
            ..ClusterView::default()
        },
        instances: vec![
            instance("demo-0", "replica", 1200),
            instance("demo-1", "primary", 0),
            instance("demo-2", "replica", 0),
        ],
        replicas: vec![operator(1, false), operator(2, true), operator(3, false)],
        lease_holder: "mainstay-2_u".into(),
        events: (0..9)
            .map(|n| EventView {
                key: format!("e{n}"),
                age: Duration::from_secs(n),
                reason: "Promoted".into(),
                about: "demo".into(),
                note: format!("note {n}"),
                count: 1,
                warning: false,
            })
            .collect(),
        rates: Rates {
            writing: true,
            writes: 198.2,
            acknowledged: 12_345,
            pause: Some(Duration::from_millis(4)),
            longest: Some(Duration::from_millis(1920)),
            lost: Some(0),
            requests: 41.6,
        },
        ..Snapshot::default()
    }
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(Line::text).collect::<Vec<_>>().join("\n")
}

fn style_of(lines: &[Line], piece: &str) -> Style {
    let mut spans = lines.iter().flat_map(|line| &line.spans);
    let found = spans.find(|span| span.text.trim() == piece);
    found.unwrap_or_else(|| panic!("no {piece}")).style
}

#[test]
fn a_healthy_cluster_at_a_glance() {
    let lines = draw(&snapshot(), 100, 26);
    assert_eq!(
        text(&lines),
        "\
mainstay demo  1m12s  MySQL 9.7.4 is modelled, in memory  --kubeconfig /tmp/demo/kubeconfig

CLUSTER  demo  Running 3/3  primary demo-1  quorum 1 of demo-0, demo-2
         3 of 3 instances are ready

INSTANCE  ROLE     READY  GTID               LAG       STATE
demo-0    replica  yes    3f2a:1-5 91bc:1-7  1,200 3s
demo-1    primary  yes    3f2a:1-5 91bc:1-7  -
demo-2    replica  yes    3f2a:1-5 91bc:1-7  0

OPERATOR    ROLE     TERM   PID       AGE
mainstay-1  standby  -      4001      1m15s
mainstay-2  leader   4      4002      1m15s
mainstay-3  standby  -      4003      1m15s

WRITES   198/s  acknowledged 12,345  longest pause 1.92 s  lost 0  API 42 requests/s

AGE     EVENT     ABOUT
0s      Promoted  demo   note 0
1s      Promoted  demo   note 1
2s      Promoted  demo   note 2
3s      Promoted  demo   note 3
4s      Promoted  demo   note 4
5s      Promoted  demo   note 5
p kill primary  P delete its pod  l kill leader  c cut primary  h heal  s slow API  w writes
o switchover  + scale out  - scale in  q quit"
    );
    assert_eq!(style_of(&lines, "Running"), Style::Good);
    assert_eq!(style_of(&lines, "1,200 3s"), Style::Warn);
}

#[test]
fn what_is_wrong_stands_out_and_what_is_unknown_is_not_called_fine() {
    let mut snapshot = snapshot();
    snapshot.cluster.phase = "FailingOver".into();
    snapshot.cluster.target = "demo-2".into();
    snapshot.cluster.operation = "Failover: proving".into();
    let cut = &mut snapshot.instances[1];
    (cut.heard, cut.ready, cut.lag, cut.gtid) = (false, false, None, String::new());
    cut.state = "silent for 3s".into();
    snapshot.replicas[1] = ReplicaView {
        pid: None,
        leads: false,
        term: None,
        why: "killed".into(),
        ..operator(2, false)
    };
    snapshot.rates.pause = Some(Duration::from_millis(1500));
    snapshot.rates.lost = None;
    snapshot.faults = vec!["demo-1 is cut off".into()];
    snapshot.message = "cut primary: demo-1 hears nobody".into();
    let lines = draw(&snapshot, 100, 40);
    let text = text(&lines);
    for part in [
        "primary demo-1 → demo-2",
        "Failover: proving  3 of 3",
        "demo-1    primary  no     -                  -         not heard: silent for 3s",
        "mainstay-2  down     -      -         1m15s   killed",
        "nobody leads; the Lease is still mainstay-2_u's",
        "WRITES   none for 1.50 s",
        "lost -",
        "FAULTS   demo-1 is cut off",
        "» cut primary: demo-1 hears nobody",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert_eq!(style_of(&lines, "not heard: silent for 3s"), Style::Bad);
    assert_eq!(style_of(&lines, "none for 1.50 s"), Style::Bad);
}

#[test]
fn before_anything_is_there_it_can_be_drawn() {
    let lines = draw(&Snapshot::default(), 80, 24);
    let text = text(&lines);
    assert!(text.contains("CLUSTER  none"), "{text}");
    assert!(text.contains("nobody holds the Lease"), "{text}");
}

#[test]
fn no_terminal_is_too_small() {
    let mut snapshot = snapshot();
    snapshot.message = "kill leader: SIGKILL to 4002".into();
    for width in 0..130 {
        for height in 0..40 {
            let lines = draw(&snapshot, width, height);
            assert!(
                lines.len() <= usize::from(height.max(1)),
                "{width}x{height}"
            );
            let widest = lines.iter().map(Line::width).max().unwrap_or_default();
            assert!(widest <= usize::from(width), "{width}x{height}: {widest}");
        }
    }
    let small = text(&draw(&snapshot, 60, 12));
    assert!(small.starts_with("mainstay demo"), "{small}");
    assert!(small.ends_with("q quit"), "{small}");
    assert!(small.contains("demo-1    primary"), "{small}");
}
