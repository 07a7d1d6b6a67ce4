//! What `/proc` says of this process, as Prometheus' standard process metrics.

use std::fs;

use crate::metric::{Page, metric_table};

// Names and meanings are those of Prometheus' client libraries; the limit is ours.
metric_table! {
    /// What is known of the process.
    pub PROCESS_METRICS;
    CPU = Counter "process_cpu_seconds_total" []
        "CPU time used, user and system.";
    RESIDENT = Gauge "process_resident_memory_bytes" []
        "Resident memory.";
    VIRTUAL = Gauge "process_virtual_memory_bytes" []
        "Address space in use.";
    MEMORY_LIMIT = Gauge "mainstay_memory_limit_bytes" []
        "Memory that the container may take, as its control group says; no series where there is no limit.";
    OPEN_FDS = Gauge "process_open_fds" []
        "Open file descriptors.";
    MAX_FDS = Gauge "process_max_fds" []
        "File descriptors that may be open.";
    THREADS = Gauge "process_threads" []
        "Threads.";
    START = Gauge "process_start_time_seconds" []
        "Start of the process (unix time).";
    BUILD_INFO = Gauge "mainstay_build_info" ["version"]
        "1; its label says what runs.";
}

/// Ticks a second in `/proc` (USER_HZ): 100 on every architecture that Kubernetes runs on (proc(5)).
const TICKS_PER_SECOND: f64 = 100.0;

/// Where the limit of the own control group is: of the second version, or of the first.
const LIMITS: [&str; 2] = [
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
];

/// Writes the process metrics; one that can't be read is left out rather than zero.
pub(super) fn render(page: &mut Page) {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let stat = stat.as_deref().and_then(parse_stat);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = kib(&status, "VmRSS:");
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let fds = fs::read_dir("/proc/self/fd").ok();
    let limit = LIMITS
        .iter()
        .find_map(|file| parse_limit(&fs::read_to_string(file).ok()?));
    let start = stat
        .zip(boot_time())
        .map(|(stat, boot)| boot + stat.start_seconds);
    for (name, value) in [
        (CPU, stat.map(|stat| stat.cpu_seconds)),
        (RESIDENT, resident),
        (VIRTUAL, stat.map(|stat| stat.virtual_bytes)),
        (MEMORY_LIMIT, limit),
        (OPEN_FDS, fds.map(|dir| dir.count() as f64)),
        (MAX_FDS, parse_max_fds(&limits)),
        (THREADS, stat.map(|stat| stat.threads)),
        (START, start),
    ] {
        page.one(PROCESS_METRICS, name, value);
    }
    page.family(PROCESS_METRICS, BUILD_INFO)
        .sample(&[env!("CARGO_PKG_VERSION")], 1.0);
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    threads: f64,
    /// Since boot.
    start_seconds: f64,
    virtual_bytes: f64,
}

/// Reads utime, stime (fields 14, 15), num_threads (20), starttime (22) and vsize (23). The command
/// name in field 2 may hold anything, so fields are counted from its closing bracket.
fn parse_stat(stat: &str) -> Option<Stat> {
    let (_, rest) = stat.rsplit_once(')')?;
    let field = |number: usize| -> Option<f64> {
        rest.split_ascii_whitespace().nth(number - 3)?.parse().ok()
    };
    Some(Stat {
        cpu_seconds: (field(14)? + field(15)?) / TICKS_PER_SECOND,
        threads: field(20)?,
        start_seconds: field(22)? / TICKS_PER_SECOND,
        virtual_bytes: field(23)?,
    })
}

/// A line of `/proc/self/status` that is in kB, in bytes.
fn kib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024.0)
}

/// The soft limit: what counts. `unlimited` is none.
fn parse_max_fds(limits: &str) -> Option<f64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// `max`, or the largest number of pages that there is, is none.
fn parse_limit(text: &str) -> Option<f64> {
    let bytes: u64 = text.trim().parse().ok()?;
    (bytes < 1 << 62).then_some(bytes as f64)
}

fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_a_command_name_with_brackets() {
        let stat = "7 (a) (b c) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 3 0 12345 4096 1";
        let expected = Stat {
            cpu_seconds: 3.0,
            threads: 3.0,
            start_seconds: 123.45,
            virtual_bytes: 4096.0,
        };
        assert_eq!(parse_stat(stat), Some(expected));
        assert_eq!(parse_stat("nonsense"), None);
    }

    #[test]
    fn no_limit_is_no_number() {
        assert_eq!(parse_limit("536870912\n"), Some(536_870_912.0));
        assert_eq!(parse_limit("max\n"), None);
        assert_eq!(parse_limit("9223372036854771712\n"), None);
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  4096  files\n";
        assert_eq!(parse_max_fds(limits), Some(1024.0));
        assert_eq!(
            parse_max_fds("Max open files  unlimited  unlimited  files"),
            None
        );
    }

    #[test]
    fn this_process_has_all_of_them_but_perhaps_a_limit() {
        let mut page = Page::default();
        render(&mut page);
        let out = page.into_text();
        for metric in PROCESS_METRICS {
            let name = metric.name;
            let there = out.contains(&format!("\n{name} ")) || out.contains(&format!("\n{name}{{"));
            assert!(there || name == MEMORY_LIMIT, "{name} in {out}");
        }
    }
}
