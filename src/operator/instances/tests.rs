use futures_util::future::BoxFuture;

use super::*;
use crate::client::Stream;
use crate::client::testing::FakeServer;
use crate::mysql::ServerState;

const A: &str = "aaaaaaaa-0000-0000-0000-000000000000";
const B: &str = "bbbbbbbb-0000-0000-0000-000000000000";

/// Reaches nobody: what instances say is told by the tests.
struct Nobody;

impl InstanceDial for Nobody {
    fn dial(&self, _: &Address) -> BoxFuture<'static, Result<Box<dyn Stream>, DialError>> {
        Box::pin(std::future::pending())
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

fn address(pod: &str) -> Address {
    Address {
        namespace: "shop".into(),
        pod: pod.into(),
        pod_uid: format!("uid of {pod}"),
        ip: "192.0.2.1".into(),
        host: String::new(),
        ca: Vec::new(),
        token: String::new(),
    }
}

struct Fixture {
    instances: Instances,
    /// The clusters that were woken.
    woken: Arc<Mutex<Vec<ObjectKey>>>,
}

fn fixture() -> Fixture {
    let woken = Arc::new(Mutex::new(Vec::new()));
    let wake = woken.clone();
    let instances = Instances::new(
        FakeServer::new(|_| unreachable!("nothing is asked of the API server")).client(),
        Fence::open(),
        Access::Direct,
        Arc::new(Nobody),
        move |cluster| wake.lock().unwrap().push(cluster),
    );
    Fixture { instances, woken }
}

impl Fixture {
    /// Watches these instances of a cluster.
    fn track(&self, cluster: &str, ordinals: &[u32]) {
        let pods = ordinals.iter().map(|o| address(&format!("{cluster}-{o}")));
        self.instances.track(&key(cluster), pods.collect());
    }

    fn line(&self, cluster: &str, pod: &str) -> Arc<Line> {
        self.instances.shared.lock()[&key(cluster)][pod]
            .line
            .clone()
    }

    /// The instance says what it has executed.
    fn speaks(&self, line: &Arc<Line>, uuid: &str, executed: &str) {
        let status = serde_json::json!({
            "name": line.address.pod, "podUid": line.address.pod_uid, "term": 1,
            "phase": "Running", "message": "", "starts": 1, "promoted": false, "stopping": false,
            "configHash": "", "appHash": "",
            "server": ServerState {
                server_uuid: uuid.to_owned(),
                gtid_executed: executed.to_owned(),
                ..ServerState::default()
            },
        });
        let status = serde_json::from_value(status).unwrap();
        self.instances.shared.heard(line, status, None);
    }

    /// Pods of a cluster, and whether each is heard.
    fn seen(&self, cluster: &str) -> Vec<(String, bool)> {
        let sights = self.instances.sights(&key(cluster), None);
        sights.into_iter().map(|(pod, s)| (pod, s.fresh)).collect()
    }

    fn clusters(&self) -> usize {
        self.instances.shared.lock().len()
    }
}

fn of(pods: &[(&str, bool)]) -> Vec<(String, bool)> {
    let pods = pods.iter().map(|(pod, heard)| ((*pod).to_owned(), *heard));
    pods.collect()
}

/// `demo-0` is a cluster, and the name of a pod of `demo`; `demo-0-0` is a pod of the other.
#[tokio::test]
async fn clusters_whose_names_begin_alike_are_told_apart() {
    let test = fixture();
    test.track("demo", &[0, 1]);
    test.track("demo-0", &[0]);
    test.speaks(&test.line("demo-0", "demo-0-0"), A, "");
    assert_eq!(*test.woken.lock().unwrap(), [key("demo-0")]);
    let demo = of(&[("demo-0", false), ("demo-1", false)]);
    let other = of(&[("demo-0-0", true)]);
    assert_eq!(
        (test.seen("demo"), test.seen("demo-0")),
        (demo, other.clone())
    );

    test.track("demo", &[1]);
    assert_eq!(test.seen("demo"), of(&[("demo-1", false)]));
    assert_eq!(test.seen("demo-0"), other);
    test.instances.forget(&key("demo"));
    assert_eq!((test.seen("demo"), test.seen("demo-0")), (vec![], other));
    test.track("demo-0", &[]);
    assert_eq!(test.clusters(), 0, "nothing is left of either");
}

#[tokio::test]
async fn a_watch_that_was_replaced_or_ended_is_not_listened_to_any_more() {
    let test = fixture();
    test.track("demo", &[0]);
    let old = test.line("demo", "demo-0");
    let mut moved = address("demo-0");
    moved.ip = "192.0.2.2".into();
    test.instances.track(&key("demo"), vec![moved]);
    test.speaks(&old, A, "");
    test.instances.shared.lost(&old, "late".into());
    assert_eq!(test.seen("demo"), of(&[("demo-0", false)]));
    let sights = test.instances.sights(&key("demo"), None);
    assert_eq!(sights["demo-0"].error, "not heard of yet");

    let new = test.line("demo", "demo-0");
    test.speaks(&new, A, "");
    assert_eq!(test.seen("demo"), of(&[("demo-0", true)]));
    test.instances.forget(&key("demo"));
    test.instances.shared.lost(&new, "late".into());
    assert_eq!(*test.woken.lock().unwrap(), [key("demo")], "once");
}

#[tokio::test]
async fn the_primary_accuses_the_others_of_its_own_cluster() {
    let test = fixture();
    let surplus = format!("{A}:1-5,{B}:1");
    for cluster in ["demo", "other"] {
        test.track(cluster, &[0, 1]);
        test.speaks(&test.line(cluster, &format!("{cluster}-1")), B, &surplus);
        let primary = format!("{cluster}-0");
        let _ = test.instances.sights(&key(cluster), Some(&primary));
    }
    test.speaks(&test.line("demo", "demo-0"), A, &format!("{A}:1-5"));
    let suspected = |cluster: &str| {
        let sights = test.instances.sights(&key(cluster), None);
        let suspected = sights.into_iter().filter(|(_, s)| s.suspicion.is_some());
        suspected.map(|(pod, _)| pod).collect::<Vec<_>>()
    };
    assert_eq!(suspected("demo"), ["demo-1"]);
    assert_eq!(suspected("other"), Vec::<String>::new());
}

/// More than are looked at under one lock, in clusters that do not add up to just as many.
#[tokio::test]
async fn every_voice_is_counted_once_in_its_own_cluster() {
    let test = fixture();
    let many = u32::try_from(LOOKED_AT).unwrap() + 44;
    let sizes = (0..200).map(|i| (format!("demo-{i}"), 1 + i % 4));
    let sizes: Vec<_> = sizes.chain([("many".to_owned(), many)]).collect();
    for (cluster, size) in &sizes {
        test.track(cluster, &(0..*size).collect::<Vec<_>>());
        for ordinal in 1..*size {
            let line = test.line(cluster, &format!("{cluster}-{ordinal}"));
            test.speaks(&line, A, "");
        }
    }
    let voices = test.instances.voices();
    assert_eq!(voices.len(), sizes.len());
    for (cluster, size) in &sizes {
        assert_eq!(voices[&key(cluster)].heard, size - 1, "{cluster}");
    }
}

#[tokio::test]
async fn a_command_finds_the_pod_in_its_cluster_only() {
    let test = fixture();
    test.track("demo", &[0]);
    let told = |cluster: &str| {
        let (instances, cluster) = (&test.instances, key(cluster));
        async move {
            let command = instances.command(&cluster, "demo-0", &Command::Demote, 1);
            // Nobody answers: it ends only when the pod is not found.
            futures_util::poll!(Box::pin(command)).is_ready()
        }
    };
    assert!(told("demo-0").await);
    assert!(!told("demo").await);
}
