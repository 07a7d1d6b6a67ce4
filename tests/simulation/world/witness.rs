//! What is seen on the network: the operators' writes and commands, each held against its fence, and
//! counted for those who want to end a replica at one of them.

use std::sync::{Arc, Mutex, Weak};

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Shared;
use crate::network::{Answered, Departing, Fate, Witness};

/// When a replica is to die: at its `at`th write or command, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    pub(crate) at: u64,
    /// Whether the write still leaves: it is done, and its answer is lost.
    pub(crate) after: bool,
}

/// The network's witness.
pub(crate) struct Eyes {
    shared: Weak<Shared>,
    plan: Mutex<Plan>,
    crashed: Notify,
}

#[derive(Default)]
struct Plan {
    counting: bool,
    counted: u64,
    crash: Option<Crash>,
}

impl Eyes {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::downgrade(shared),
            plan: Mutex::default(),
            crashed: Notify::new(),
        }
    }

    /// Counts writes and commands from now on, and ends who does the one that `crash` says.
    pub(crate) fn count(&self, crash: Option<Crash>) {
        *self.plan.lock().unwrap() = Plan {
            counting: true,
            counted: 0,
            crash,
        };
    }

    /// How many were counted.
    pub(crate) fn counted(&self) -> u64 {
        self.plan.lock().unwrap().counted
    }

    /// Completes once somebody died as [`Self::count`] was told.
    pub(crate) async fn crashed(&self) {
        self.crashed.notified().await;
    }

    fn fate(&self) -> Fate {
        let mut plan = self.plan.lock().unwrap();
        if !plan.counting {
            return Fate::Lives;
        }
        plan.counted += 1;
        match plan.crash {
            Some(crash) if crash.at == plan.counted => {
                plan.crash = None;
                self.crashed.notify_one();
                if crash.after {
                    Fate::DiesAfter
                } else {
                    Fate::DiesBefore
                }
            }
            _ => Fate::Lives,
        }
    }
}

/// Whether it is the lease's: that does not pass the fence, and keeps no step of the operator's work.
fn is_lease(request: &Departing) -> bool {
    request.path.starts_with("/apis/coordination.k8s.io/")
}

fn is_event(request: &Departing) -> bool {
    request.path.starts_with("/apis/events.k8s.io/") || request.path.contains("/events")
}

/// For people: what is asked for.
fn gist(request: &Departing) -> String {
    let path = request.path.split('?').next().unwrap_or_default();
    let mut words: Vec<&str> = path.split('/').collect();
    if let Some(namespaces) = words.iter().position(|word| *word == "namespaces") {
        words.drain(..namespaces + 2);
    }
    let to = if &*request.to == "api" {
        ""
    } else {
        &*request.to
    };
    let what = format!("{} {to} {}", request.method, words.join("/"));
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let detail = match (
        &body["do"],
        &body["status"]["phase"],
        &body["metadata"]["labels"],
    ) {
        (Value::String(_), _, _) => body.to_string(),
        (_, Value::String(phase), _) => {
            let status = &body["status"];
            let text = |field: &str| status[field].as_str().unwrap_or("-").to_owned();
            format!(
                "{phase}: {} primary {} target {} ready {} quorum {}",
                text("reason"),
                text("currentPrimary"),
                text("targetPrimary"),
                text("ready"),
                status["quorum"]
            )
        }
        (_, _, Value::Object(_)) if request.path.contains("/pods/") && request.body.len() < 300 => {
            body["metadata"]["labels"].to_string()
        }
        _ if is_event(request) => format!("{}: {}", body["reason"], body["note"]),
        _ => String::new(),
    };
    format!("{what} {detail}")
}

impl Witness for Eyes {
    fn departs(&self, request: &Departing) -> Fate {
        let Some(shared) = self.shared.upgrade() else {
            return Fate::Lives;
        };
        shared.check_now();
        let replica = shared.replicas.lock().unwrap().get(&request.from).cloned();
        let Some(replica) = replica.filter(|_| request.method != "GET") else {
            return Fate::Lives;
        };
        if is_lease(request) {
            return Fate::Lives;
        }
        if !replica.fence.permits(Instant::now()) {
            let what = format!("{}: left after its fence: {}", request.from, gist(request));
            shared.history.violation(what);
        }
        shared.check_fences();
        shared.check_record(request);
        let fate = self.fate();
        shared.history.note(&request.from, gist(request));
        if fate != Fate::Lives {
            let how = if fate == Fate::DiesAfter {
                "after"
            } else {
                "before"
            };
            let what = format!("{} dies {how} it sent that", request.from);
            shared.history.fault("crash", what);
            replica.stop.trigger();
        }
        fate
    }

    fn answers(&self, answer: &Answered) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let request = &answer.request;
        let ours = shared.replicas.lock().unwrap().contains_key(&request.from);
        if ours && request.method != "GET" && !is_lease(request) {
            shared.check_roles();
            if answer.status >= 300 {
                let what = format!("{} to {}", answer.status, gist(request));
                shared.history.note(&request.from, what);
            }
        }
        shared.check_now();
    }
}
