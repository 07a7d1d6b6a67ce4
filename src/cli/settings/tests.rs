use std::path::Path;

use clap::{Args as _, Command, FromArgMatches as _};

use super::*;

/// What the command line, an environment and a file's text come to.
pub(super) fn load(
    flags: &[&str],
    environment: &[(&str, &str)],
    file: &str,
) -> Result<Loaded, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, file).unwrap();
    let told = load_from(flags, environment, Some(&path));
    told.map_err(|told| told.replace(&path.display().to_string(), "FILE"))
}

pub(super) fn load_from(
    flags: &[&str],
    environment: &[(&str, &str)],
    config: Option<&Path>,
) -> Result<Loaded, String> {
    let command = Given::augment_args(Command::new("run").no_binary_name(true));
    let matches = command.try_get_matches_from(flags).unwrap();
    let given = Given::from_arg_matches(&matches).unwrap();
    let variable = |name: &str| {
        let mut found = environment.iter().filter(|(key, _)| *key == name);
        found.next().map(|(_, value)| OsString::from(value))
    };
    let loaded = Loaded::load(&given, config.map(Path::to_owned), variable);
    loaded.map_err(|problems| problems.to_string())
}

#[test]
fn a_flag_goes_before_the_environment_that_before_the_file_and_that_before_the_default() {
    let file = "workers: 2\nqps: 5\nburst: 7\n";
    let environment = [("MAINSTAY_WORKERS", "3"), ("MAINSTAY_QPS", "6")];
    let loaded = load(&["--workers", "4"], &environment, file).unwrap();
    let settings = &loaded.settings;
    assert_eq!(settings.workers, 4);
    assert!((settings.qps - 6.0).abs() < f64::EPSILON);
    assert_eq!((settings.burst, settings.max_in_flight), (7, 64));
    let differences = loaded.differences();
    assert!(
        differences.starts_with("qps=6 (MAINSTAY_QPS), burst=7 (")
            && differences.ends_with("config.yaml:3), workers=4 (flag --workers)"),
        "{differences}"
    );
}

#[test]
fn the_defaults_are_sound_and_an_empty_variable_is_none() {
    let loaded = load_from(
        &[],
        &[("MAINSTAY_NAMESPACE", ""), ("MAINSTAY_CONFIG", "")],
        None,
    )
    .unwrap();
    assert_eq!(loaded.settings, Settings::default());
    assert_eq!(loaded.differences(), "");
    let options = loaded.options(&replica("pod_uid"));
    assert!(options.operator.namespaces.is_empty());
    assert_eq!(options.operator.tuning, Tuning::default());
    assert_eq!(options.client.problems(), []);
    assert_eq!(
        options.operator.election,
        ElectionOptions::new("mainstay-system", "mainstay", "pod_uid")
    );
}

#[test]
fn the_file_can_be_named_by_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, "workers: 2").unwrap();
    let environment = [("MAINSTAY_CONFIG", path.to_str().unwrap())];
    assert_eq!(
        load_from(&[], &environment, None).unwrap().settings.workers,
        2
    );
}

/// Manifests that say plain seconds, and the demo, go on working.
#[test]
fn times_are_seconds_or_have_units_wherever_they_are_written() {
    let environment = [
        ("MAINSTAY_RENEW_DEADLINE", "1m30s"),
        ("MAINSTAY_REQUEST_DEADLINE", "4.5"),
    ];
    let file = "leaseDuration: 120\nshutdownGrace: 0.5\nbackoffInitial: 500ms\neventInterval: '7'";
    let settings = load(&["--renew-interval", "0.25"], &environment, file)
        .unwrap()
        .settings;
    let times = [
        settings.lease_duration,
        settings.renew_deadline,
        settings.renew_interval,
        settings.request_deadline,
        settings.shutdown_grace,
        settings.backoff_initial,
        settings.event_interval,
    ];
    let millis: Vec<_> = times.iter().map(Duration::as_millis).collect();
    assert_eq!(millis, [120_000, 90_000, 250, 4500, 500, 500, 7000]);
}

#[test]
fn everything_that_is_wrong_is_told_at_once_and_where() {
    let file = "leaseDurration: 15\nworkers: '8'\nqps: 5\nqps: 6\nlog: 5\nnamespace: {}\nburst:\n";
    let environment = [("MAINSTAY_LEASE_NAME", "A"), ("MAINSTAY_LISTEN", ":8080")];
    let flags = [
        "--renew-interval",
        "-1",
        "--max-in-flight",
        "x",
        "--log-format",
        "xml",
    ];
    let told = load(&flags, &environment, file).unwrap_err();
    for line in [
        "leaseDurration (FILE:1): is no option; did you mean leaseDuration?",
        "workers (FILE:2): \"8\" is text; a number is wanted, without quotes",
        "qps (FILE:4): is there already in line 3; keep one of the two",
        "log (FILE:5): 5 is a number; text is wanted, in quotes",
        "namespace (FILE:6): is a mapping; a list of texts is wanted",
        "burst (FILE:7): has no value; write a number, or remove the key for the default",
        "MAINSTAY_LEASE_NAME (environment): \"A\" is no name of an object",
        "MAINSTAY_LISTEN (environment): \":8080\" is not an IP address and port",
        "--renew-interval: \"-1\" is less than nothing",
        "--max-in-flight: \"x\" is not a whole number from 1 to 65535",
        "--log-format: \"xml\" is none of text, json",
    ] {
        assert!(told.contains(&format!("\n  {line}")), "{line} in {told}");
    }
    assert!(told.starts_with("11 options can't be used:"), "{told}");
}

#[test]
fn options_are_checked_together_and_each_names_the_other_and_its_place() {
    let environment = [
        ("MAINSTAY_RENEW_DEADLINE", "14"),
        ("MAINSTAY_WORKERS", "65"),
    ];
    let file =
        "renewInterval: 6s\nburst: 1\nbreakerPause: 1m\ncoalescingWindow: 5m\nresyncInterval: 1s\n";
    let flags = [
        "--qps",
        "500",
        "--request-deadline",
        "2m",
        "--event-interval",
        "10m",
    ];
    let told = load(&flags, &environment, file).unwrap_err();
    for part in [
        "MAINSTAY_RENEW_DEADLINE (environment): renew deadline 14s is more than 80 % of the lease duration 15s (lease-duration is 15s: default)",
        "renewInterval (FILE:1): renew interval 6s must be positive and fit twice in the renew deadline 14s (renew-deadline is 14s: MAINSTAY_RENEW_DEADLINE)",
        "burst (FILE:2): must be at least 5, or the rate could never be reached (qps is 500: flag --qps)",
        "MAINSTAY_WORKERS (environment): must be no more than max-in-flight",
        "breakerPause (FILE:3): must be no longer than breaker-pause-max (breaker-pause-max is 30s: default)",
        "coalescingWindow (FILE:4): must be shorter than reconcile-deadline",
        "resyncInterval (FILE:5): must be 0 for none, or at least 10s",
        "--request-deadline: must be shorter than reconcile-deadline",
        "--event-interval: must be shorter than event-window",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
}

#[test]
fn what_has_a_problem_of_its_own_is_not_compared() {
    let told = load(
        &["--lease-duration", "x", "--renew-deadline", "14"],
        &[],
        "",
    )
    .unwrap_err();
    assert!(
        told.starts_with("--lease-duration: \"x\" is no time;"),
        "{told}"
    );
    assert!(!told.contains("renew-deadline"), "{told}");
}

fn me() -> Replica {
    replica("me")
}

fn replica(identity: &str) -> Replica {
    Replica {
        identity: identity.to_owned(),
        ..Replica::default()
    }
}

#[test]
fn namespaces_are_a_list() {
    for (flags, file) in [
        (&["--namespace", "a,b"][..], ""),
        (&["--namespace", "a", "--namespace", "b"], ""),
        (&[], "namespace: [a, b]"),
        (&[], "namespace: a,b"),
    ] {
        let loaded = load(flags, &[], file).unwrap();
        let namespaces = loaded.options(&me()).operator.namespaces;
        assert_eq!(namespaces, ["a", "b"].map(str::to_owned).into());
    }
    let told = load(&["--namespace", "a,a"], &[], "").unwrap_err();
    assert!(told.contains("\"a\" is there twice"), "{told}");
}

#[test]
fn a_file_that_can_not_be_read_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let told = |path: &Path| load_from(&["--qps", "x"], &[], Some(path)).unwrap_err();
    let missing = folder.path().join("missing");
    let said = told(&missing);
    let start = format!(
        "\n  --config {}: can't be read: No such file",
        missing.display()
    );
    assert!(
        said.contains(&start) && said.contains("--qps: \"x\""),
        "{said}"
    );
    assert!(told(folder.path()).contains("can't be read: Is a directory"));
    let binary = folder.path().join("binary");
    std::fs::write(&binary, [b'a', 0xff]).unwrap();
    assert!(told(&binary).contains("is not UTF-8 text (byte 1)"));
    assert!(told(Path::new("/dev/zero")).contains("is larger than 1 MiB"));
}

#[test]
fn what_is_printed_is_a_file_that_comes_to_the_same() {
    let environment = [
        ("MAINSTAY_NAMESPACE", "team"),
        ("MAINSTAY_KUBECONFIG", "/a \"b\"\n#: c"),
    ];
    let file = "leaseDuration: 1m\nlog: 'info,mainstay::runtime=debug'\nqps: 12.5\nlogFormat: json\ninstanceAccess: proxy\nlisten: '[::]:80'";
    let loaded = load(&["--renew-interval", "0.0125"], &environment, file).unwrap();
    let printed = loaded.print();
    let again = load(&[], &[], &printed).unwrap();
    assert_eq!(again.settings, loaded.settings, "{printed}");
    for line in [
        "leaseDuration: 1m # ",
        "namespace: [\"team\"] # MAINSTAY_NAMESPACE",
        "renewInterval: 12ms500us # flag --renew-interval",
        "workers: 8 # default",
    ] {
        assert!(
            printed.contains(&format!("\n{line}")),
            "{line} in {printed}"
        );
    }
    assert_eq!(again.print().lines().count(), printed.lines().count());
}

#[test]
fn no_two_options_share_a_flag_variable_or_key() {
    let count = table::entries().count();
    let keys: std::collections::BTreeSet<_> = table::entries().map(Entry::key).collect();
    assert_eq!(keys.len(), count);
    for name in ["config", "print-config", "stop-with-stdin", "help"] {
        assert!(table::entries().all(|entry| entry.name != name), "{name}");
    }
}

#[test]
fn a_request_names_version_and_replica() {
    let version = env!("CARGO_PKG_VERSION");
    let agent = user_agent("mainstay-5c9f_7f3e");
    assert_eq!(agent, format!("mainstay/{version} (mainstay-5c9f_7f3e)"));
    assert_eq!(
        user_agent("a (b)\r\nX: ü"),
        format!("mainstay/{version} (a--b---X:--)")
    );
}
