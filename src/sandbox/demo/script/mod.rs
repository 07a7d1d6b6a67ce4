//! What a demo is told to do: the actions that keys and scripts share, and scripts of them.

mod parse;
mod tour;

use std::fmt;
use std::time::Duration;

pub use parse::ScriptError;
pub(crate) use parse::parse;
pub(crate) use tour::tour;

/// Something done to the cluster, by a key or by a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// SIGKILL to the primary's `mysqld`; its manager and its pod stay.
    KillPrimary,
    /// SIGKILL to the operator replica that holds the Lease.
    KillLeader,
    /// Delete a pod through the API.
    DeletePod(Pod),
    /// Cut a pod off from everyone: the other instances, the operator, clients.
    Cut {
        /// The pod.
        pod: Pod,
        /// After this it is healed; `None` until [`Action::Heal`].
        heal_after: Option<Duration>,
    },
    /// Undo every cut and slowness.
    Heal,
    /// Hold up each request of the operator to the API server.
    SlowApi {
        /// By how much; zero ends it.
        delay: Duration,
        /// After this it ends; `None` until [`Action::Heal`].
        heal_after: Option<Duration>,
    },
    /// Begin or end the writes.
    Load(bool),
    /// Ask for so many instances.
    Scale(u32),
    /// Ask for another primary: this one, or the first replica that is ready.
    Switchover(Option<String>),
}

/// A pod that an action is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pod {
    /// Whichever is the primary by then.
    Primary,
    /// The one of that name.
    Named(String),
}

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Do something.
    Act(Action),
    /// Wait until what was done before is over, and all instances are ready.
    WaitReady {
        /// How many they are; `None` for as many as the spec asks for.
        instances: Option<u32>,
        /// Fails after this.
        within: Duration,
    },
    /// Do nothing for a while.
    Sleep(Duration),
    /// Fails unless this many acknowledged rows are missing, on the primary and on each replica.
    ExpectLost(u64),
    /// Fails unless another instance is the primary than before the last action.
    ExpectMoved,
    /// Fails if writes were not acknowledged for longer, since the last action.
    ExpectPause(Duration),
}

/// A step and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Line number, from 1.
    pub(crate) number: usize,
    /// The line as it was written, without comment.
    pub(crate) text: String,
    /// What it means.
    pub(crate) step: Step,
}

/// A parsed script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    /// Its file, or what else it is called.
    pub(crate) name: String,
    /// Its steps.
    pub(crate) lines: Vec<Line>,
}

impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primary => f.write_str("primary"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let for_a_while = |heal_after: &Option<Duration>| match heal_after {
            Some(duration) => format!(" {duration:?}"),
            None => String::new(),
        };
        match self {
            Self::KillPrimary => f.write_str("kill primary"),
            Self::KillLeader => f.write_str("kill leader"),
            Self::DeletePod(pod) => write!(f, "delete pod {pod}"),
            Self::Cut { pod, heal_after } => write!(f, "cut {pod}{}", for_a_while(heal_after)),
            Self::Heal => f.write_str("heal"),
            Self::SlowApi { delay, heal_after } => {
                write!(f, "slow api {delay:?}{}", for_a_while(heal_after))
            }
            Self::Load(on) => f.write_str(if *on { "load on" } else { "load off" }),
            Self::Scale(instances) => write!(f, "scale {instances}"),
            Self::Switchover(None) => f.write_str("switchover"),
            Self::Switchover(Some(pod)) => write!(f, "switchover {pod}"),
        }
    }
}
