//! Whether the suite runs at all, and the one cluster that its scenarios share.

use std::panic::catch_unwind;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::{Demo, tell};

/// Made by the first scenario; `None` where that failed, so that the others fail at once.
static DEMO: OnceLock<Option<Mutex<Demo>>> = OnceLock::new();

/// The cluster under test with all instances ready, for one scenario at a time; `None`, with a
/// printed reason, where the suite was not asked for.
#[track_caller]
pub(crate) fn demo() -> Option<MutexGuard<'static, Demo>> {
    if std::env::var("MAINSTAY_E2E").is_ok_and(|value| value == "1") {
        let demo = DEMO
            .get_or_init(|| catch_unwind(Demo::install).ok().map(Mutex::new))
            .as_ref()
            .expect("the operator and `demo` were installed (the first scenario says why not)");
        // A scenario that failed may have left the cluster well: `ready` tells.
        let mut demo = demo.lock().unwrap_or_else(PoisonError::into_inner);
        demo.recover();
        return Some(demo);
    }
    // Not wherever a cluster is reachable: it may be one that people use.
    tell!("skipped: MAINSTAY_E2E=1 is not set (`just e2e` runs it on the cluster of KUBECONFIG)");
    None
}
