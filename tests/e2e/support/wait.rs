//! Waiting for conditions.

use std::thread;
use std::time::{Duration, Instant};

/// Between two looks; the figures that are printed are this exact.
const INTERVAL: Duration = Duration::from_millis(100);

/// That many seconds.
pub(crate) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Looks again and again until `check` has a value. Returns it and the time that it took; fails the
/// scenario with what `check` said last when `limit` has passed.
#[track_caller]
pub(crate) fn until<T>(
    what: &str,
    limit: Duration,
    mut check: impl FnMut() -> Result<T, String>,
) -> (T, Duration) {
    let start = Instant::now();
    loop {
        match check() {
            Ok(value) => return (value, start.elapsed()),
            Err(why) if start.elapsed() > limit => {
                panic!("{what}: not within {} s; at last: {why}", limit.as_secs())
            }
            Err(_) => thread::sleep(INTERVAL),
        }
    }
}
