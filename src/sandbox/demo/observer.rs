//! What the demo knows: list-watches on the API, and a standing watch on each instance manager, as
//! the operator has them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::kinds::{Event, Lease};
use super::readings::Readings;
use crate::client::{Client, Fence};
use crate::operator::instances::{Access, Address, Direct, Instances};
use crate::operator::kinds::{Cluster, Pod, Secret, Service};
use crate::operator::observe::Sight;
use crate::operator::resources::{
    CLUSTER_LABEL, app_secret, host, internal_secret, read_write_service, tls_secret,
};
use crate::runtime::{Kind, ListWatch, ObjectKey, Scope, Shutdown, Store};

/// The watches of a demo.
pub(super) struct Observer {
    cluster: ObjectKey,
    lease: ObjectKey,
    clusters: Store<Cluster>,
    pods: Store<Pod>,
    secrets: Store<Secret>,
    services: Store<Service>,
    leases: Store<Lease>,
    events: Store<Event>,
    instances: Instances,
    readings: Mutex<Readings>,
}

/// What is known at one moment. Objects that are not there, or not known yet, are absent.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The cluster.
    pub(super) cluster: Option<Arc<Cluster>>,
    /// Its pods.
    pub(super) pods: Vec<Arc<Pod>>,
    /// What its instances say, by pod name.
    pub(super) sights: BTreeMap<String, Sight>,
    /// What the primary had executed, by the latest readings of it.
    pub(super) readings: Readings,
    /// The operators' Lease.
    pub(super) lease: Option<Arc<Lease>>,
    /// Events of the cluster's namespace.
    pub(super) events: Vec<Arc<Event>>,
}

/// The application's account.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Account {
    /// Account name.
    pub(super) username: String,
    /// Password.
    pub(super) password: String,
    /// Database.
    pub(super) database: String,
}

impl Observer {
    /// Starts the watches; they run until `stop`.
    pub(super) fn start(
        client: &Client,
        cluster: ObjectKey,
        lease: ObjectKey,
        stop: &Shutdown,
    ) -> Self {
        let observer = Self {
            instances: Instances::new(
                client.clone(),
                Fence::open(),
                Access::Proxy,
                Arc::new(Direct),
                |_| (),
            ),
            readings: Mutex::default(),
            clusters: Store::new(),
            pods: Store::new(),
            secrets: Store::new(),
            services: Store::new(),
            leases: Store::new(),
            events: Store::new(),
            cluster,
            lease,
        };
        let start = Starter { client, stop };
        let namespace = &*observer.cluster.namespace;
        start.watch(&observer.clusters, namespace);
        start.watch(&observer.pods, namespace);
        start.watch(&observer.secrets, namespace);
        start.watch(&observer.services, namespace);
        start.watch(&observer.events, namespace);
        start.watch(&observer.leases, &observer.lease.namespace);
        observer
    }

    /// Listens to the instances that there are now.
    pub(super) fn track(&self) {
        let (namespace, cluster) = (&self.cluster.namespace, &self.cluster.name);
        let entry = |secret: &str, key: &str| {
            let secret = self.secret(secret)?;
            secret.data.get(key).cloned()
        };
        let token = entry(&internal_secret(cluster), "token");
        let token = token.and_then(|token| String::from_utf8(token).ok());
        let (Some(token), Some(ca)) = (token, entry(&tls_secret(cluster), "ca.crt")) else {
            return;
        };
        let pods = self.pods();
        let there = pods.iter().filter(|pod| !pod.status.pod_ip.is_empty());
        let addresses = there.map(|pod| Address {
            namespace: namespace.to_string(),
            pod: pod.metadata.name.to_string(),
            pod_uid: pod.metadata.uid.to_string(),
            ip: pod.status.pod_ip.to_string(),
            host: host(cluster, namespace, &pod.metadata.name),
            ca: ca.clone(),
            token: token.trim().to_owned(),
        });
        self.instances.track(&self.cluster, addresses.collect());
    }

    /// All that is known now.
    pub(super) fn facts(&self) -> Facts {
        let cluster = self.clusters.get(&self.cluster).ok().flatten();
        let sights = self.instances.sights(&self.cluster, None);
        let primary = cluster
            .as_ref()
            .and_then(|c| c.status.current_primary.clone());
        let readings = {
            let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
            readings.note(primary.as_deref(), &sights);
            readings.clone()
        };
        Facts {
            cluster,
            pods: self.pods(),
            sights,
            readings,
            lease: self.leases.get(&self.lease).ok().flatten(),
            events: self.events.list().unwrap_or_default().into_iter().collect(),
        }
    }

    /// The pod that the read-write Service leads to: the first that it selects and that is ready, as
    /// the cluster network does it.
    pub(super) fn read_write_pod(&self) -> Option<Arc<Pod>> {
        let name = read_write_service(&self.cluster.name);
        let key = ObjectKey::new(&self.cluster.namespace, &name);
        let service = self.services.get(&key).ok().flatten()?;
        self.pods().into_iter().find(|pod| leads_to(&service, pod))
    }

    /// The application's account, once it has one.
    pub(super) fn account(&self) -> Option<Account> {
        let secret = self.secret(&app_secret(&self.cluster.name))?;
        Some(Account {
            username: secret.text("username")?.to_owned(),
            password: secret.text("password")?.to_owned(),
            database: secret.text("database")?.to_owned(),
        })
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        let ours =
            |pod: &Arc<Pod>| pod.metadata.labels.get(CLUSTER_LABEL) == Some(&*self.cluster.name);
        let pods = self.pods.list().unwrap_or_default();
        pods.into_iter().filter(ours).collect()
    }

    fn secret(&self, name: &str) -> Option<Arc<Secret>> {
        let key = ObjectKey::new(&self.cluster.namespace, name);
        self.secrets.get(&key).ok().flatten()
    }
}

/// Whether a Service's selector matches, and the pod is one that takes connections.
fn leads_to(service: &Service, pod: &Pod) -> bool {
    let selector = service
        .body
        .get("spec")
        .and_then(|spec| spec.get("selector"));
    let Some(selector) = selector.and_then(Value::as_object) else {
        return false; // such a Service selects nothing
    };
    let has = |(name, value): (&String, &Value)| pod.metadata.labels.get(name) == value.as_str();
    selector.iter().all(has) && !pod.metadata.is_terminating() && pod.status.conditions.ready
}

struct Starter<'a> {
    client: &'a Client,
    stop: &'a Shutdown,
}

impl Starter<'_> {
    fn watch<K: Kind>(&self, store: &Store<K>, namespace: &str) {
        let scope = Scope {
            namespaces: [namespace.to_owned()].into(),
            ..Scope::default()
        };
        let watch = ListWatch::new(self.client.clone(), scope, store.clone(), |_| ());
        tokio::spawn(watch.run(self.stop.clone()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_leads_to_ready_pods_that_have_all_its_labels() {
        let service = |selector: Value| -> Service {
            let spec = json!({"metadata": {"name": "demo-rw"}, "spec": {"selector": selector}});
            serde_json::from_value(spec).unwrap()
        };
        let pod = |role: &str, ready: &str, deleted: Option<&str>| -> Pod {
            let value = json!({
                "metadata": {"labels": {"a": "b", "role": role}, "deletionTimestamp": deleted},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            });
            serde_json::from_value(value).unwrap()
        };
        let primary = service(json!({"a": "b", "role": "primary"}));
        assert!(leads_to(&primary, &pod("primary", "True", None)));
        assert!(!leads_to(&primary, &pod("replica", "True", None)));
        assert!(!leads_to(&primary, &pod("primary", "False", None)));
        let now = Some("2026-11-30T10:00:00Z");
        assert!(!leads_to(&primary, &pod("primary", "True", now)));
        assert!(!leads_to(
            &service(json!({"x": "y"})),
            &pod("primary", "True", None)
        ));
        assert!(!leads_to(
            &service(Value::Null),
            &pod("primary", "True", None)
        ));
    }
}
