//! What the two Rust programs share: runtimes, CPU time, keys, and how a value is printed.

use std::fs;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

/// Keys of a queue's work, and objects of a store's.
pub const KEYS: usize = 1_000;
pub const OBJECTS: usize = 100_000;
pub const PER_NAMESPACE: usize = 500;
/// How often a work is done for one value.
pub const CYCLES: usize = 300;
pub const LOOKUPS: usize = 2_000;
/// Events of a latency, and the pause between two.
pub const EVENTS: usize = 500;
pub const PAUSE: Duration = Duration::from_millis(2);

/// A runtime of one thread, and one with as many as all systems get.
pub fn runtimes() -> (Runtime, Runtime) {
    let alone = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let two = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    (alone, two)
}

/// CPU time of all threads that live, as the scheduler counts it.
pub fn cpu() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux has /proc");
    let nanoseconds = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// Runs `work` and returns CPU and wall nanoseconds for each of its `count` parts.
pub fn measured(count: usize, work: impl FnOnce()) -> (f64, f64) {
    let (cpu_before, began) = (cpu(), Instant::now());
    work();
    let (wall, used) = (began.elapsed(), cpu().saturating_sub(cpu_before));
    let each = |time: Duration| time.as_nanos() as f64 / count as f64;
    (each(used), each(wall))
}

pub fn print(work: &str, system: &str, value: f64, unit: &str) {
    println!(r#"{{"work": "{work}", "system": "{system}", "value": {value}, "unit": "{unit}"}}"#);
}

/// Nanoseconds within which 99 of 100 are.
pub fn p99(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() * 99 / 100].as_nanos() as f64
}

/// Namespace, name and owner of object `n`.
pub fn names(n: usize) -> (String, String, String) {
    (
        format!("ns-{:03}", n / PER_NAMESPACE),
        format!("pod-{n:07}"),
        format!("{:08x}-0000-4000-8000-000000000000", 0xa000_0000 + n / 3),
    )
}

/// All objects once, in an order that no cache foresees.
pub fn shuffled() -> impl Iterator<Item = usize> {
    // 61 403 and 100 000 have no common divisor.
    (0..OBJECTS).map(|n| n * 61_403 % OBJECTS)
}
