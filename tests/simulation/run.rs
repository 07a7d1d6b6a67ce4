//! Runs histories: each on a runtime of its own with paused time, several threads side by side.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::time::Instant;

thread_local! {
    /// Panics of this thread's tasks. A panic is contained by the operator, but it is a mistake.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// How one history went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// What was wrong; empty if nothing.
    pub(crate) broken: Vec<String>,
    /// To be read.
    pub(crate) history: String,
    /// Messages on the network, and a digest of who sent them to whom and when.
    pub(crate) digest: (u64, u64),
    /// Faults done, by kind.
    pub(crate) faults: BTreeMap<&'static str, u64>,
    /// Simulated seconds.
    pub(crate) seconds: f64,
    /// What was counted for those who enumerate.
    pub(crate) steps: u64,
}

/// Runs one history to its end.
pub(crate) fn run<F: Future<Output = Outcome>>(history: impl FnOnce() -> F) -> Outcome {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let named = std::thread::current().name() == Some(THREAD);
            if named {
                PANICS.with_borrow_mut(|panics| panics.push(panic.to_string()));
            } else {
                usual(panic);
            }
        }));
    });
    PANICS.take();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O");
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async { history().await })
    }));
    // Zombies and all.
    drop(runtime);
    let mut outcome = ended.unwrap_or_else(|panic| Outcome {
        broken: vec![message(&*panic)],
        ..Outcome::default()
    });
    let panics = PANICS.take();
    outcome
        .broken
        .extend(panics.into_iter().map(|panic| format!("panic: {panic}")));
    outcome
}

const THREAD: &str = "simulation";

/// Runs one history for each of `jobs`, on as many threads as there are processors. Ends early once
/// `enough` failures are known. Outcomes are in the order of `jobs`; `None` for what was not run.
pub(crate) fn all<J: Sync>(
    jobs: &[J],
    enough: usize,
    one: impl Fn(&J) -> Outcome + Sync,
) -> Vec<Option<Outcome>> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let (next, failures) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outcomes = Mutex::new(vec![None; jobs.len()]);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            let work = || {
                while failures.load(Ordering::Relaxed) < enough {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(number) else {
                        return;
                    };
                    let outcome = one(job);
                    let failed = !outcome.broken.is_empty();
                    failures.fetch_add(usize::from(failed), Ordering::Relaxed);
                    outcomes.lock().unwrap()[number] = Some(outcome);
                }
            };
            let thread = std::thread::Builder::new().name(THREAD.to_owned());
            thread.spawn_scoped(scope, work).expect("a thread");
        }
    });
    outcomes.into_inner().unwrap()
}

/// The number in an environment variable, where there is one.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse::<u64>();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Failures after which no more are looked for: `MAINSTAY_ENOUGH`, else three.
pub(crate) fn enough() -> usize {
    number("MAINSTAY_ENOUGH").map_or(3, |enough| usize::try_from(enough).unwrap_or(usize::MAX))
}

/// Seeds to run: `MAINSTAY_SEED` one, `MAINSTAY_SEEDS` so many, else `default`.
pub(crate) fn seeds(default: u64) -> Vec<u64> {
    match number("MAINSTAY_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("MAINSTAY_SEEDS").unwrap_or(default)).collect(),
    }
}

/// Whether one history is wanted, to be read.
pub(crate) fn replays() -> bool {
    std::env::var_os("MAINSTAY_SEED").is_some()
}

/// Prints what came of a set of histories, and fails for those that were broken.
pub(crate) fn report(what: &str, names: &[String], outcomes: &[Option<Outcome>], begun: Instant) {
    let ran: Vec<_> = names
        .iter()
        .zip(outcomes)
        .filter_map(|(name, outcome)| Some((name, outcome.as_ref()?)))
        .collect();
    let mut faults = BTreeMap::<&str, u64>::new();
    for (kind, count) in ran.iter().flat_map(|(_, outcome)| &outcome.faults) {
        *faults.entry(kind).or_default() += count;
    }
    let took = begun.elapsed().as_secs_f64();
    let simulated: f64 = ran.iter().map(|(_, outcome)| outcome.seconds).sum();
    println!(
        "{what}: {} histories in {took:.1} s ({:.0} a minute), {:.1} simulated hours; faults: {faults:?}",
        ran.len(),
        ran.len() as f64 / took * 60.0,
        simulated / 3600.0,
    );
    let mut failures = String::new();
    for (name, outcome) in ran {
        if outcome.broken.is_empty() {
            continue;
        }
        let place = keep(name, &outcome.history);
        let _ = writeln!(failures, "\n{name}: {}", outcome.broken.join("; "));
        let _ = writeln!(failures, "  its history: {}", place.display());
    }
    assert!(failures.is_empty(), "{what}: broken histories{failures}");
}

/// Writes a history where it can be read.
pub(crate) fn keep(name: &str, history: &str) -> PathBuf {
    static MADE: AtomicBool = AtomicBool::new(false);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("simulation");
    if !MADE.swap(true, Ordering::Relaxed) {
        std::fs::create_dir_all(&folder).expect("a folder in target");
    }
    let place = folder.join(format!("{name}.txt"));
    std::fs::write(&place, history).expect("a file in target");
    place
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
