//! Endpoints of Services, as kube-controller-manager keeps them: pods by selector and readiness. Pure.
//!
//! One EndpointSlice a Service is enough for a node of this size; the older Endpoints object beside it
//! is what `kubectl get endpoints` shows. Nothing is written for a Service without a selector.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Map, Value, json};

use super::kinds::{EndpointSlice, Endpoints, Pod, Service};
use crate::runtime::{Kind as _, ObjectKey};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// One write that is due.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// Create an EndpointSlice.
    CreateSlice(ObjectKey, Value),
    /// Replace one.
    ReplaceSlice(ObjectKey, Value),
    /// Create an Endpoints.
    Create(ObjectKey, Value),
    /// Replace one.
    Replace(ObjectKey, Value),
}

/// What there is. What goes with its Service is left to the garbage collector.
pub(super) struct World<'a> {
    pub(super) services: &'a [&'a Service],
    pub(super) pods: &'a [&'a Pod],
    pub(super) slices: &'a [&'a EndpointSlice],
    pub(super) endpoints: &'a [&'a Endpoints],
}

/// What is to be written next.
pub(super) fn decide(world: &World<'_>) -> Vec<Write> {
    let mut writes = Vec::new();
    for service in world.services {
        let Some(selector) = service.spec.selector.as_ref().filter(|s| !s.is_empty()) else {
            continue;
        };
        if service.meta().is_terminating() {
            continue;
        }
        let selected: Vec<&Pod> = (world.pods.iter().copied())
            .filter(|pod| is_member(pod, service, selector))
            .collect();
        let slice = slice(service, &selected);
        let key = ObjectKey::new(&service.meta().namespace, &slice_name(service));
        let live = world.slices.iter().find(|slice| slice.meta().key() == key);
        let changed = |body: &Map<String, Value>| {
            ["addressType", "endpoints", "ports"]
                .iter()
                .any(|field| !same(&slice[field], body.get(*field)))
        };
        match live {
            None => writes.push(Write::CreateSlice(key, slice)),
            Some(live) if changed(&live.body) => {
                writes.push(Write::ReplaceSlice(
                    key,
                    at(slice, &live.metadata.resource_version),
                ));
            }
            Some(_) => {}
        }
        let endpoints = endpoints(service, &selected);
        let key = service.meta().key();
        let live = world
            .endpoints
            .iter()
            .find(|endpoints| endpoints.meta().key() == key);
        match live {
            None => writes.push(Write::Create(key, endpoints)),
            Some(live) if !same(&endpoints["subsets"], live.body.get("subsets")) => {
                writes.push(Write::Replace(
                    key,
                    at(endpoints, &live.metadata.resource_version),
                ));
            }
            Some(_) => {}
        }
    }
    writes
}

/// Whether there is nothing to write: an empty list and none at all are the same.
fn same(desired: &Value, live: Option<&Value>) -> bool {
    let live = live.filter(|live| !live.is_null());
    match desired.as_array() {
        Some(list) if list.is_empty() => live.is_none_or(|live| live == desired),
        _ => live == Some(desired),
    }
}

fn at(mut object: Value, resource_version: &str) -> Value {
    object["metadata"]["resourceVersion"] = resource_version.into();
    object
}

fn is_member(pod: &Pod, service: &Service, selector: &BTreeMap<String, String>) -> bool {
    let meta = pod.meta();
    meta.namespace == service.meta().namespace
        && selector
            .iter()
            .all(|(key, value)| meta.labels.get(key) == Some(value.as_str()))
        && pod.status.pod_ip.is_some()
        && !pod.is_over()
}

fn slice_name(service: &Service) -> String {
    format!("{}-ipv4", service.meta().name)
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_published_unready(service: &Service) -> bool {
    service.spec.publish_not_ready_addresses == Some(true)
}

/// The ports by their numbers on these pods. A name that the pods do not have leaves its port out.
fn ports(service: &Service, pods: &[&Pod]) -> Vec<Value> {
    let number = |port: &k8s_openapi::api::core::v1::ServicePort| match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => pods.iter().find_map(|pod| {
            let containers = pod.spec.containers.iter();
            let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
            let named = ports.find(|port| port.name.as_ref() == Some(name))?;
            Some(named.container_port)
        }),
    };
    let ports = service.spec.ports.iter().flatten().filter_map(|port| {
        let mut target = json!({
            "port": number(port)?,
            "protocol": port.protocol.as_deref().unwrap_or("TCP"),
        });
        // Where there is one port it need not have a name.
        target["name"] = port.name.as_deref().unwrap_or_default().into();
        Some(target)
    });
    ports.collect()
}

fn target(pod: &Pod) -> Value {
    let meta = pod.meta();
    json!({ "kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid })
}

fn slice(service: &Service, pods: &[&Pod]) -> Value {
    let meta = service.meta();
    let endpoint = |pod: &&Pod| {
        let (serving, terminating) = (is_ready(pod), pod.meta().is_terminating());
        let mut endpoint = json!({
            "addresses": [pod.status.pod_ip],
            "conditions": {
                "ready": is_published_unready(service) || (serving && !terminating),
                "serving": serving,
                "terminating": terminating,
            },
            "targetRef": target(pod),
            "nodeName": pod.node(),
        });
        if let Some(hostname) = hostname(pod, service) {
            endpoint["hostname"] = hostname.into();
        }
        endpoint
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": slice_name(service),
            "namespace": meta.namespace,
            "labels": { SERVICE_NAME: meta.name, MANAGED_BY: MANAGER },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": meta.name, "uid": meta.uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4",
        "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": ports(service, pods),
    })
}

/// The name that the pod has in the domain of a headless Service.
fn hostname<'a>(pod: &'a Pod, service: &Service) -> Option<&'a str> {
    let in_domain = pod.spec.subdomain.as_deref() == Some(service.meta().name.as_str());
    pod.spec.hostname.as_deref().filter(|_| in_domain)
}

fn endpoints(service: &Service, pods: &[&Pod]) -> Value {
    let meta = service.meta();
    let ready = |pod: &Pod| {
        is_published_unready(service) || (is_ready(pod) && !pod.meta().is_terminating())
    };
    let list = |wanted: bool| {
        let address = |pod: &Pod| {
            let mut address = json!({
                "ip": pod.status.pod_ip,
                "nodeName": pod.node(),
                "targetRef": target(pod),
            });
            if let Some(hostname) = hostname(pod, service) {
                address["hostname"] = hostname.into();
            }
            address
        };
        let chosen = pods.iter().copied().filter(|pod| ready(pod) == wanted);
        chosen.map(address).collect::<Vec<_>>()
    };
    let mut subset = Map::new();
    for (field, list) in [
        ("addresses", list(true)),
        ("notReadyAddresses", list(false)),
    ] {
        if !list.is_empty() {
            subset.insert(field.to_owned(), list.into());
        }
    }
    let subsets = if subset.is_empty() {
        json!([])
    } else {
        let mut ports = ports(service, pods);
        for port in &mut ports {
            if port["name"] == "" {
                port.as_object_mut().map(|port| port.remove("name"));
            }
        }
        subset.insert("ports".to_owned(), ports.into());
        json!([subset])
    };
    json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            // The slice above is ours; nobody is to mirror this one into another.
            "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" },
        },
        "subsets": subsets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: &Value) -> Service {
        serde_json::from_value(json!({
            "metadata": { "name": "demo-rw", "namespace": "ns", "uid": "s" },
            "spec": spec,
        }))
        .unwrap()
    }

    fn pod(name: &str, labels: &Value, ready: bool) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "ns", "uid": name, "labels": labels },
            "spec": {
                "nodeName": "n", "hostname": name, "subdomain": "demo-rw",
                "containers": [{ "name": "mysql", "ports": [{ "name": "mysql", "containerPort": 3306 }] }],
            },
            "status": {
                "podIP": "10.0.0.1",
                "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
            },
        }))
        .unwrap()
    }

    fn writes(service: &Service, pods: &[Pod]) -> Vec<Write> {
        decide(&World {
            services: &[service],
            pods: &pods.iter().collect::<Vec<_>>(),
            slices: &[],
            endpoints: &[],
        })
    }

    fn primary() -> Service {
        service(&json!({
            "selector": { "role": "primary" },
            "ports": [{ "name": "mysql", "port": 3306, "targetPort": "mysql", "protocol": "TCP" }],
        }))
    }

    #[test]
    fn a_service_leads_to_the_ready_pods_that_it_selects() {
        let pods = [
            pod("a", &json!({ "role": "primary" }), true),
            pod("b", &json!({ "role": "replica" }), true),
            pod("c", &json!({ "role": "primary" }), false),
        ];
        let writes = writes(&primary(), &pods);
        let [Write::CreateSlice(key, slice), Write::Create(_, endpoints)] = &writes[..] else {
            panic!("{writes:?}")
        };
        assert_eq!(key.to_string(), "ns/demo-rw-ipv4");
        assert_eq!(
            slice["ports"][0],
            json!({ "name": "mysql", "port": 3306, "protocol": "TCP" })
        );
        let ready: Vec<_> = slice["endpoints"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| {
                (
                    e["targetRef"]["name"].as_str().unwrap(),
                    e["conditions"]["ready"] == true,
                )
            })
            .collect();
        assert_eq!(ready, [("a", true), ("c", false)]);
        assert_eq!(slice["endpoints"][0]["hostname"], "a");
        assert_eq!(
            endpoints["subsets"][0]["addresses"][0]["targetRef"]["name"],
            "a"
        );
        assert_eq!(
            endpoints["subsets"][0]["notReadyAddresses"][0]["targetRef"]["name"],
            "c"
        );
    }

    #[test]
    fn nothing_is_written_twice_nor_for_a_service_without_selector() {
        assert_eq!(writes(&service(&json!({})), &[]), []);
        let pods = [pod("a", &json!({ "role": "primary" }), true)];
        for pods in [&pods[..], &[]] {
            let service = primary();
            let (mut slices, mut endpoints) = (vec![], vec![]);
            for write in writes(&service, pods) {
                match write {
                    Write::CreateSlice(_, body) => {
                        slices.push(serde_json::from_value::<EndpointSlice>(body).unwrap());
                    }
                    Write::Create(_, body) => {
                        endpoints.push(serde_json::from_value::<Endpoints>(body).unwrap());
                    }
                    other => panic!("{other:?}"),
                }
            }
            let again = decide(&World {
                services: &[&service],
                pods: &pods.iter().collect::<Vec<_>>(),
                slices: &slices.iter().collect::<Vec<_>>(),
                endpoints: &endpoints.iter().collect::<Vec<_>>(),
            });
            assert_eq!(again, []);
        }
    }

    #[test]
    fn a_headless_service_may_publish_who_is_not_ready() {
        let service = service(&json!({
            "selector": { "role": "primary" }, "clusterIP": "None", "publishNotReadyAddresses": true,
        }));
        let pods = [pod("a", &json!({ "role": "primary" }), false)];
        let Write::CreateSlice(_, slice) = &writes(&service, &pods)[0] else {
            panic!()
        };
        assert_eq!(slice["endpoints"][0]["conditions"]["ready"], true);
        assert_eq!(slice["endpoints"][0]["conditions"]["serving"], false);
    }
}
