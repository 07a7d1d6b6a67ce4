//! The cluster under test.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::command::{Kubectl, repository};
use super::ledger::Ledger;
use super::{seconds, tell, until};

const NAMESPACE: &str = "mainstay-e2e";
const PODS: &str = "mysql.mainstay.dev/cluster=demo";
const ROLE: &str = "mysql.mainstay.dev/role";

/// The operator's own namespace.
pub(crate) const OPERATOR: Kubectl = Kubectl {
    namespace: "mainstay-system",
};

/// A MySQLCluster `demo` made from the sample.
#[derive(Debug)]
pub(crate) struct Demo {
    /// In the namespace of `demo`.
    pub(crate) kubectl: Kubectl,
    /// Time from applying the sample to all instances ready.
    pub(crate) took: Duration,
    /// A scenario left it broken.
    lost: bool,
}

/// `demo` as it was read at one moment.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// Name of the primary's pod.
    pub(crate) primary: String,
    /// UID of that pod.
    pub(crate) uid: String,
    /// Names of the other pods.
    pub(crate) replicas: Vec<String>,
}

impl Demo {
    /// Installs the operator as the README says, and `demo` in an empty namespace.
    pub(super) fn install() -> Self {
        let kubectl = Kubectl {
            namespace: NAMESPACE,
        };
        let start = Instant::now();
        let manifests = repository("manifests").to_string_lossy().into_owned();
        let version = kubectl.must(&["version"]);
        tell!("{}", version.lines().last().unwrap_or_default());
        OPERATOR.must(&["apply", "-k", &manifests]);
        until("the operator runs", seconds(120), || {
            OPERATOR.run(&["rollout", "status", "deployment/mainstay", "--timeout=5s"])
        });
        tell!(
            "operator: from apply to ready in {:.1} s",
            start.elapsed().as_secs_f64()
        );

        let delete = ["delete", "namespace", NAMESPACE, "--ignore-not-found"];
        kubectl
            .run_within(seconds(180), &delete, "")
            .expect("the namespace of an earlier run goes away");
        kubectl.must(&["create", "namespace", NAMESPACE]);
        let mut demo = Self {
            kubectl,
            took: Duration::ZERO,
            lost: false,
        };
        let start = Instant::now();
        demo.apply();
        demo.ready(seconds(180));
        demo.took = start.elapsed();
        tell!(
            "sample: from apply to READY 3/3 in {:.1} s",
            demo.took.as_secs_f64()
        );
        demo
    }

    /// Applies the sample.
    pub(crate) fn apply(&self) {
        let sample = repository("manifests/samples/mysqlcluster.yaml");
        self.kubectl
            .must(&["apply", "-f", &sample.to_string_lossy()]);
    }

    /// Waits for all instances at the start of a scenario.
    #[track_caller]
    pub(super) fn recover(&mut self) {
        assert!(!self.lost, "an earlier scenario left `demo` broken");
        self.lost = true;
        self.ready(seconds(90));
        self.lost = false;
    }

    /// Waits until all three instances are ready.
    #[track_caller]
    pub(crate) fn ready(&self, limit: Duration) -> State {
        until("demo has READY 3/3", limit, || self.state(3)).0
    }

    /// The cluster, if exactly that many instances are there and ready and the labels agree.
    pub(crate) fn state(&self, instances: usize) -> Result<State, String> {
        let cluster = self
            .kubectl
            .get("mysqlcluster", "demo")?
            .ok_or("no MySQLCluster demo")?;
        let status = &cluster["status"];
        let told = format!(
            "{} ({}): {}",
            text(&status["phase"]),
            text(&status["ready"]),
            text(&status["reason"])
        );
        if cluster["metadata"]["generation"] != status["observedGeneration"]
            || text(&status["ready"]) != format!("{instances}/{instances}")
            || condition(&cluster, "Ready").is_none_or(|ready| text(&ready["status"]) != "True")
        {
            return Err(told);
        }
        let mut pods = self.kubectl.list("pods", PODS)?;
        for pod in &pods {
            let ready =
                condition(pod, "Ready").is_some_and(|ready| text(&ready["status"]) == "True");
            if !ready || pod["metadata"].get("deletionTimestamp").is_some() {
                return Err(format!("pod {} is not ready, or going away", name(pod)));
            }
        }
        if pods.len() != instances {
            return Err(format!("{told}; {} pods", pods.len()));
        }
        let primary = text(&status["currentPrimary"]);
        let labelled: Vec<_> = pods
            .iter()
            .filter(|pod| pod["metadata"]["labels"][ROLE] == "primary")
            .collect();
        let [labelled] = labelled[..] else {
            return Err(format!(
                "{told}; {} pods are labelled primary",
                labelled.len()
            ));
        };
        if name(labelled) != primary {
            return Err(format!(
                "{told}; the primary is {primary}, and {} is labelled so",
                name(labelled)
            ));
        }
        let uid = text(&labelled["metadata"]["uid"]).to_owned();
        pods.retain(|pod| name(pod) != primary);
        let replicas = pods.iter().map(|pod| name(pod).to_owned()).collect();
        Ok(State {
            primary: primary.to_owned(),
            uid,
            replicas,
        })
    }

    /// What the status names as the primary.
    pub(crate) fn primary(&self) -> Result<String, String> {
        let cluster = self
            .kubectl
            .get("mysqlcluster", "demo")?
            .ok_or("no MySQLCluster demo")?;
        Ok(text(&cluster["status"]["currentPrimary"]).to_owned())
    }

    /// UID of a pod; empty where there is none.
    pub(crate) fn uid(&self, pod: &str) -> Result<String, String> {
        let pod = self.kubectl.get("pod", pod)?.unwrap_or_default();
        Ok(text(&pod["metadata"]["uid"]).to_owned())
    }

    /// Node of a pod.
    pub(crate) fn node(&self, pod: &str) -> String {
        self.kubectl
            .must(&["get", "pod", pod, "-o", "jsonpath={.spec.nodeName}"])
    }

    /// Messages of the Events about `demo`.
    pub(crate) fn events(&self) -> String {
        let selector = "--field-selector=involvedObject.kind=MySQLCluster,involvedObject.name=demo";
        self.kubectl.must(&[
            "get",
            "events",
            selector,
            "-o",
            "jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}",
        ])
    }

    /// The writer, which is started where it does not run yet.
    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::start(self.kubectl)
    }
}

/// The condition of that type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// A text, empty where there is none.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
