//! Services and their addresses.

use std::net::Ipv4Addr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{items, set};
use crate::apiserver::state::{Entry, State, object::text};
use crate::apiserver::{ApiError, Cause};

/// First address of the range that Services are allotted from, as clusters have it by default: 10.96.0.0/12.
const RANGE: u32 = u32::from_be_bytes([10, 96, 0, 0]);
/// Size of that range.
const RANGE_SIZE: u32 = 1 << 20;

/// First port that Services are given on nodes, and how many there are.
const NODE_PORTS: u64 = 30000;
const NODE_PORTS_SIZE: u64 = 2768;

pub(super) fn default(service: &mut Value) {
    let spec = &mut service["spec"];
    if !spec.is_object() {
        return;
    }
    set(spec, "type", "ClusterIP");
    set(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP" {
        set(
            &mut spec["sessionAffinityConfig"]["clientIP"],
            "timeoutSeconds",
            10800,
        );
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
    if kind != "ExternalName" {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    for port in items(spec, "ports") {
        set(port, "protocol", "TCP");
        let number = port["port"].clone();
        if port["targetPort"] == json!(0) || port["targetPort"] == "" {
            port["targetPort"] = Value::Null;
        }
        set(port, "targetPort", number);
    }
}

/// What a new Service is given beside its address.
pub(super) fn create(service: &mut Value) {
    let spec = &mut service["spec"];
    if spec["type"] == "ExternalName" || !spec.is_object() {
        return;
    }
    set(spec, "ipFamilyPolicy", "SingleStack");
    set(spec, "ipFamilies", json!(["IPv4"]));
    if let Some(address) = spec["clusterIP"].as_str().filter(|address| !address.is_empty()) {
        let addresses = json!([address]);
        set(spec, "clusterIPs", addresses);
    }
}

/// Keeps the address that a Service has.
pub(super) fn update(new: &mut Value, old: &Value) {
    if new["spec"]["type"] == "ExternalName" {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"] {
        let missing = match &new["spec"][field] {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        if missing && !old["spec"][field].is_null() {
            new["spec"][field] = old["spec"][field].clone();
        }
    }
    if !exposed(&new["spec"]) {
        return;
    }
    let ports: Vec<Value> = old["spec"]["ports"].as_array().cloned().unwrap_or_default();
    for port in items(&mut new["spec"], "ports") {
        let before = ports.iter().find(|before| {
            before["port"] == port["port"] && before["protocol"] == port["protocol"]
        });
        if let Some(number) = before.map(|before| before["nodePort"].clone()).filter(|number| !number.is_null()) {
            set(port, "nodePort", number);
        }
    }
}

/// Whether a Service has ports on each node.
fn exposed(spec: &Value) -> bool {
    matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"))
}

impl State {
    /// Gives a new Service its address.
    pub(in crate::apiserver::state) fn allot(
        &mut self,
        storage: &str,
        mut object: Value,
    ) -> Result<Value, ApiError> {
        if storage != "services" || object["spec"]["type"] == "ExternalName" {
            return Ok(object);
        }
        let asked = object["spec"]["clusterIP"].as_str().unwrap_or_default();
        let number = match asked {
            "None" => return Ok(object),
            "" => self.free_address()?,
            asked => {
                let refuse = |why: &str| {
                    let cause = Cause::invalid("spec.clusterIPs", &json!([asked]), why);
                    ApiError::invalid("", "Service", text(&object, "name"), &[cause])
                };
                let number: u32 = asked
                    .parse::<Ipv4Addr>()
                    .map_err(|_| refuse("must be a valid IP address"))?
                    .into();
                if !(RANGE..RANGE + RANGE_SIZE).contains(&number) {
                    return Err(refuse(
                        "failed to allocate IP: the provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/12",
                    ));
                }
                if self.addresses.contains(&number) {
                    return Err(refuse(
                        "failed to allocate IP: provided IP is already allocated",
                    ));
                }
                number
            }
        };
        self.addresses.insert(number);
        let address = Ipv4Addr::from(number).to_string();
        object["spec"]["clusterIPs"] = json!([address]);
        object["spec"]["clusterIP"] = address.into();
        self.open_node_ports(&mut object["spec"]);
        Ok(object)
    }

    /// Gives the ports of an exposed Service their numbers on the nodes. Nobody else has them, as far
    /// as chance can tell: nothing listens there.
    pub(in crate::apiserver::state) fn open_node_ports(&mut self, spec: &mut Value) {
        if exposed(spec) {
            for port in items(spec, "ports") {
                let number = NODE_PORTS + self.dice.next() % NODE_PORTS_SIZE;
                set(port, "nodePort", number);
            }
        }
    }

    fn free_address(&mut self) -> Result<u32, ApiError> {
        // The lower sixteenth is left to those who ask for an address by name.
        let (low, size) = (RANGE + RANGE_SIZE / 16, RANGE_SIZE - RANGE_SIZE / 16 - 1);
        let start = u32::try_from(self.dice.next() % u64::from(size)).expect("below 2^20");
        (0..size)
            .map(|step| low + (start + step) % size)
            .find(|number| !self.addresses.contains(number))
            .ok_or_else(|| ApiError::internal("failed to allocate a serviceIP: range is full"))
    }

    /// Takes the address of a Service back.
    pub(in crate::apiserver::state) fn release_address(
        &mut self,
        storage: &Arc<str>,
        entry: &Entry,
    ) {
        if storage.as_ref() == "services"
            && let Some(address) = entry.value()["spec"]["clusterIP"].as_str()
            && let Ok(address) = address.parse::<Ipv4Addr>()
        {
            self.addresses.remove(&u32::from(address));
        }
    }
}
