//! What a server is made with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a server is made with.
#[derive(Clone)]
pub struct ApiServerOptions {
    /// Events kept for each resource: how far back a watch can begin, and how far it may fall behind.
    pub history: usize,
    /// Who may come in at first, by bearer token. Empty: everybody may do everything.
    pub tokens: BTreeMap<String, Client>,
    /// The server that answers instead: this one only adds its faults.
    pub upstream: Option<crate::client::Client>,
    /// What `/version` answers.
    pub version: Value,
    /// Wall clock, for timestamps. Everything else runs on tokio's time.
    pub clock: Clock,
    /// Seed of UIDs, generated names, addresses and faults.
    pub seed: u64,
    /// Requests kept in the audit log.
    pub audit: usize,
    /// Whether the namespaces and the Service that every cluster has are made.
    pub bootstrap: bool,
    /// Whether dependents, namespaces and definitions are cleaned up, as kube-controller-manager does.
    pub garbage_collector: bool,
}

impl Default for ApiServerOptions {
    fn default() -> Self {
        Self {
            history: 8192,
            tokens: BTreeMap::new(),
            upstream: None,
            version: version(),
            clock: Arc::new(Timestamp::now),
            seed: 0,
            audit: 1024,
            bootstrap: true,
            garbage_collector: true,
        }
    }
}

impl fmt::Debug for ApiServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServerOptions")
            .field("history", &self.history)
            .field("tokens", &self.tokens.len())
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// The version of Kubernetes whose behaviour this server follows.
fn version() -> Value {
    json!({
        "major": "1",
        "minor": "37",
        "emulationMajor": "1",
        "emulationMinor": "37",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "36",
        "gitVersion": concat!("v1.37.2+mainstay.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// Somebody with a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// As messages and faults name it.
    pub name: String,
    /// Groups it is in.
    pub groups: Vec<String>,
    /// What it may do. `None`: everything.
    pub rules: Option<Vec<Permission>>,
}

/// What a client may do, as a rule of a ClusterRole says it. `*` stands for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permission {
    /// Verbs, such as `get`.
    pub verbs: Vec<String>,
    /// Resources with their groups, such as `pods`, `pods/status`, `deployments.apps`.
    pub resources: Vec<String>,
    /// Namespaces. Empty: all, and what lives in none.
    pub namespaces: Vec<String>,
}

impl Client {
    /// Somebody who may do everything.
    #[must_use]
    pub fn admin(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            groups: vec!["system:masters".to_owned()],
            rules: None,
        }
    }
}
