//! Settings beside what is made of them: options of the parts, the sample, the Deployment.

use super::tests::{load, load_from};
use super::*;

/// `just config` writes it.
#[test]
fn the_sample_is_what_is_printed() {
    let sample = include_str!("../../../manifests/samples/config.yaml");
    let printed = load_from(&[], &[], None).unwrap().print();
    assert_eq!(sample, printed, "`just config` makes it current");
    assert_eq!(
        load(&[], &[], sample).unwrap().settings,
        Settings::default()
    );
}

/// Each option, and to another value than by default.
const ALL: &str = "
kubeconfig: /k
context: c
namespace: [n]
qps: 2.5
burst: 3
maxInFlight: 4
requestDeadline: 5s
breakerCalls: 6
breakerConnections: 7
breakerPause: 8s
breakerPauseMax: 9s
listPageSize: 10
watchTimeout: 11s
watchPatience: 2s
staleAfter: 13s
workers: 1
reconcileDeadline: 15s
coalescingWindow: 3s
stalledAfter: 4s
backoffInitial: 17s
backoffMax: 18s
resyncInterval: 19s
instanceAccess: proxy
operatorImage: i
leaseNamespace: ln
leaseName: l
leaseDuration: 26s
renewDeadline: 20s
renewInterval: 3s
leaderElectMigrateFrom: endpoints/e
eventQueue: 29
eventInterval: 30s
eventWindow: 31s
eventBurst: 32
eventRefill: 33s
listen: 127.0.0.1:32
shutdownGrace: 33s
logFormat: json
log: debug
logRepeatInterval: 36s
";

/// Each option is set, and each must arrive.
#[test]
fn cert_manager_9158_what_is_configured_is_what_is_used() {
    let loaded = load(&[], &[], ALL).unwrap();
    let (all, set) = (table::entries().count(), loaded.differences());
    assert_eq!(
        set.matches(" (").count(),
        all,
        "each, and to another value: {set}"
    );
    let s = Duration::from_secs;
    let options = loaded.options(&Replica {
        identity: "me".to_owned(),
        ..Replica::default()
    });
    assert_eq!(options.source.kubeconfig, Some(PathBuf::from("/k")));
    assert_eq!(options.source.context.as_deref(), Some("c"));
    assert_eq!(options.listen, "127.0.0.1:32".parse().unwrap());
    let client = options.client;
    assert!((client.qps - 2.5).abs() < f64::EPSILON);
    assert_eq!(
        (client.burst, client.max_in_flight, client.deadline),
        (3, 4, s(5))
    );
    let breaker = client.breaker;
    assert_eq!((breaker.calls, breaker.connections), (6, 7));
    assert_eq!((breaker.pause, breaker.pause_max), (s(8), s(9)));
    let operator = options.operator;
    assert_eq!(
        (
            operator.namespaces.first().map(String::as_str),
            operator.workers
        ),
        (Some("n"), 1)
    );
    let election = ElectionOptions {
        migrate_from: Some("endpoints/e".parse().unwrap()),
        lease_duration: s(26),
        renew_deadline: s(20),
        renew_interval: s(3),
        ..ElectionOptions::new("ln", "l", "me")
    };
    assert_eq!(operator.election, election);
    assert_eq!(operator.shutdown_grace, s(33));
    assert_eq!(operator.instance_access, Access::Proxy);
    assert_eq!(operator.operator_image, "i");
    let tuning = Tuning {
        reconcile_deadline: s(15),
        window: s(3),
        stalled_after: s(4),
        backoff_initial: s(17),
        backoff_max: s(18),
        resync: Some(s(19)),
        watch: WatchLimits {
            page_size: 10,
            timeout: s(11),
            patience: s(2),
            stale_after: s(13),
        },
        events: EventLimits {
            queue: 29,
            interval: s(30),
            window: s(31),
            burst: 32,
            refill: s(33),
        },
    };
    assert_eq!(operator.tuning, tuning);
    assert_eq!(loaded.log(), (LogFormat::Json, "debug", s(36)));
}

/// What is done after the grace: Events (2 s) and the lease (one request of 5 s).
#[test]
fn the_deployment_leaves_time_for_the_shutdown() {
    let text = include_str!("../../../manifests/operator/deployment.yaml");
    let deployment: serde_yaml::Value = serde_yaml::from_str(text).unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let period = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    let arguments = pod["containers"][0]["args"].as_sequence().unwrap();
    let flags: Vec<_> = arguments[1..]
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let settings = load_from(&flags, &[], None).unwrap().settings;
    let needed = settings.shutdown_grace + Duration::from_secs(10);
    assert!(
        Duration::from_secs(period) >= needed,
        "{period} s, {needed:?} are needed"
    );
}
