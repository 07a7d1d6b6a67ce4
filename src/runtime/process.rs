//! What `/proc` says of this process, as Prometheus' standard process metrics.

use std::fmt::Write as _;
use std::fs;

use super::metric;
use super::metric::{Metric, MetricKind, RUNTIME_METRICS};

/// Ticks a second in `/proc` (USER_HZ): 100 on every architecture that Kubernetes runs on (proc(5)).
const TICKS_PER_SECOND: f64 = 100.0;

/// Appends the process metrics; one that can't be read is left out rather than zero.
pub(super) fn render(out: &mut String) {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let stat = stat.as_deref().and_then(parse_stat);
    let values = [
        (metric::PROCESS_CPU, stat.map(|stat| stat.cpu_seconds)),
        (metric::PROCESS_MEMORY, resident_bytes()),
        (
            metric::PROCESS_FDS,
            fs::read_dir("/proc/self/fd")
                .ok()
                .map(|dir| dir.count() as f64),
        ),
        (
            metric::PROCESS_START,
            stat.zip(boot_time())
                .map(|(stat, boot)| boot + stat.start_seconds),
        ),
    ];
    for (name, value) in values {
        if let Some(value) = value {
            render_one(out, name, value);
        }
    }
}

fn render_one(out: &mut String, name: &str, value: f64) {
    let Some(Metric { kind, help, .. }) = RUNTIME_METRICS.iter().find(|m| m.name == name) else {
        return;
    };
    let kind = match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge | MetricKind::Histogram => "gauge",
    };
    // Writing to a String can't fail.
    let _ = write!(
        out,
        "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n\n"
    );
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    /// Since boot.
    start_seconds: f64,
}

/// Reads utime, stime (fields 14, 15) and starttime (22). The command name in field 2 may hold
/// anything, so fields are counted from its closing bracket.
fn parse_stat(stat: &str) -> Option<Stat> {
    let (_, rest) = stat.rsplit_once(')')?;
    let field = |number: usize| -> Option<f64> {
        rest.split_ascii_whitespace().nth(number - 3)?.parse().ok()
    };
    Some(Stat {
        cpu_seconds: (field(14)? + field(15)?) / TICKS_PER_SECOND,
        start_seconds: field(22)? / TICKS_PER_SECOND,
    })
}

fn resident_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024.0)
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
        let stat = "7 (a) (b c) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 3 0 12345 1 1";
        let expected = Stat {
            cpu_seconds: 3.0,
            start_seconds: 123.45,
        };
        assert_eq!(parse_stat(stat), Some(expected));
        assert_eq!(parse_stat("nonsense"), None);
    }

    #[test]
    fn this_process_has_all_of_them() {
        let mut out = String::new();
        render(&mut out);
        for name in [
            metric::PROCESS_CPU,
            metric::PROCESS_MEMORY,
            metric::PROCESS_FDS,
            metric::PROCESS_START,
        ] {
            assert!(out.contains(&format!("\n{name} ")), "{name} in {out}");
        }
    }
}
