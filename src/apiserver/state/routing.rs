//! Which pod stands behind a Service, for those who can't resolve its name.

use serde_json::Value;

use super::State;
use super::object::key;

impl State {
    /// A ready pod behind a Service: its name, its address and the port that `port` leads to.
    pub(crate) fn backend(
        &self,
        namespace: &str,
        service: &str,
        port: u16,
    ) -> Option<(String, String, u16)> {
        let service = self
            .storage("services")?
            .get(&key(Some(namespace), service))?
            .value();
        let selector = service["spec"]["selector"].as_object()?;
        let target = service["spec"]["ports"]
            .as_array()?
            .iter()
            .find(|entry| entry["port"] == port)
            .map(|entry| entry["targetPort"].clone())?;
        self.storage("pods")?
            .objects(Some(namespace))
            .filter(|pod| {
                selector
                    .iter()
                    .all(|(key, value)| pod.label(key) == value.as_str())
            })
            .map(|pod| pod.value())
            .filter(is_ready)
            .find_map(|pod| {
                let port = number(&target, &pod)?;
                let text = |value: &Value| value.as_str().map(str::to_owned);
                Some((
                    text(&pod["metadata"]["name"])?,
                    text(&pod["status"]["podIP"])?,
                    port,
                ))
            })
    }
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// The number of a port that a Service names by number or name.
fn number(target: &Value, pod: &Value) -> Option<u16> {
    let number = match target {
        Value::String(name) => pod["spec"]["containers"]
            .as_array()?
            .iter()
            .flat_map(|container| container["ports"].as_array().into_iter().flatten())
            .find(|port| port["name"] == name.as_str())
            .and_then(|port| port["containerPort"].as_u64()),
        target => target.as_u64(),
    };
    number.and_then(|number| u16::try_from(number).ok())
}
