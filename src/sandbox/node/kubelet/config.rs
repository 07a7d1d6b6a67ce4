//! What a container is configured with: environment, command, volumes. Pure, but for the look-ups.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Container, EnvVarSource, KeyToPath, Probe, ResourceFieldSelector, Volume,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::api::Quantity;
use crate::runtime::Kind as _;
use crate::sandbox::node::kinds::{Claim, ConfigMap, Pod, Secret};
use crate::sandbox::node::runtime::{Check, Content, Mount, PodRef, PodVolume};

/// Mode of files where a volume names none.
const DEFAULT_MODE: i32 = 0o644;
/// Memory and CPU of a node, for a container without a limit that asks for its own.
const NODE_MEMORY: &str = "16Gi";
const NODE_CPU: &str = "16";

/// Where Secrets, ConfigMaps and claims of the pod's namespace are found.
pub(in super::super) trait Lookup {
    fn secret(&self, namespace: &str, name: &str) -> Option<Arc<Secret>>;
    fn config_map(&self, namespace: &str, name: &str) -> Option<Arc<ConfigMap>>;
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<Claim>>;
}

/// A problem, in kubelet's words.
type Problem = String;

/// The container's environment.
pub(super) fn environment(
    pod: &Pod,
    container: &Container,
    place: &PodRef,
    lookup: &impl Lookup,
) -> Result<BTreeMap<String, String>, Problem> {
    let namespace = &pod.meta().namespace;
    let mut env = BTreeMap::new();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let values = if let Some(secret) = &from.secret_ref {
            values_of_secret(
                lookup,
                namespace,
                &secret.name,
                secret.optional == Some(true),
            )?
        } else if let Some(map) = &from.config_map_ref {
            values_of_config_map(lookup, namespace, &map.name, map.optional == Some(true))?
        } else {
            BTreeMap::new()
        };
        for (key, value) in values {
            env.insert(
                format!("{prefix}{key}"),
                String::from_utf8_lossy(&value).into_owned(),
            );
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), _) => Some(expand(value, &env)),
            (None, Some(source)) => value_from(pod, container, place, source, lookup)?,
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            env.insert(variable.name.clone(), value);
        }
    }
    Ok(env)
}

/// Command and arguments; empty for those of the image.
pub(super) fn command(container: &Container, env: &BTreeMap<String, String>) -> Vec<String> {
    let command = container.command.iter().flatten();
    let args = container.args.iter().flatten();
    command.chain(args).map(|word| expand(word, env)).collect()
}

/// Where the container finds its volumes.
pub(super) fn mounts(container: &Container) -> Vec<Mount> {
    let mounts = container.volume_mounts.iter().flatten();
    mounts
        .map(|mount| Mount {
            path: mount.mount_path.trim_end_matches('/').to_owned(),
            volume: mount.name.clone(),
        })
        .collect()
}

/// The pod's volumes as they are to be mounted now.
pub(super) fn volumes(pod: &Pod, lookup: &impl Lookup) -> Result<Vec<PodVolume>, Problem> {
    let volumes = pod.spec.volumes.iter().flatten();
    let mount = |volume: &Volume| {
        let content = content(pod, volume, lookup).map_err(|why| {
            format!(
                "MountVolume.SetUp failed for volume {:?} : {why}",
                volume.name
            )
        })?;
        Ok(PodVolume {
            name: volume.name.clone(),
            content,
        })
    };
    volumes.map(mount).collect()
}

/// What a probe asks, with its port looked up by name.
pub(super) fn check(container: &Container, probe: &Probe) -> Result<Check, Problem> {
    let number = |port: &IntOrString| {
        let found = match port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let mut ports = container.ports.iter().flatten();
                let named = ports.find(|port| port.name.as_ref() == Some(name));
                named.map(|port| port.container_port)
            }
        };
        let found = found.and_then(|number| u16::try_from(number).ok());
        found.ok_or_else(|| format!("couldn't find port: {port:?}"))
    };
    if let Some(get) = &probe.http_get {
        return Ok(Check::Http {
            port: number(&get.port)?,
            path: get.path.clone().unwrap_or_else(|| "/".to_owned()),
            tls: get.scheme.as_deref() == Some("HTTPS"),
        });
    }
    if let Some(tcp) = &probe.tcp_socket {
        return Ok(Check::Tcp {
            port: number(&tcp.port)?,
        });
    }
    Err("this node probes by httpGet and tcpSocket only".to_owned())
}

fn content(pod: &Pod, volume: &Volume, lookup: &impl Lookup) -> Result<Content, Problem> {
    let namespace = &pod.meta().namespace;
    let mode = |mode: Option<i32>| u32::try_from(mode.unwrap_or(DEFAULT_MODE)).unwrap_or(0);
    if let Some(claim) = &volume.persistent_volume_claim {
        let name = &claim.claim_name;
        let claim = lookup.claim(namespace, name);
        let claim = claim.ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
        if claim.status.phase.as_deref() != Some("Bound") {
            return Err(format!("persistentvolumeclaim {name:?} is not bound"));
        }
        let volume = claim.spec.volume_name.clone();
        return volume
            .map(Content::Persistent)
            .ok_or_else(|| format!("persistentvolumeclaim {name:?} has no volume"));
    }
    if let Some(secret) = &volume.secret {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        let optional = secret.optional == Some(true);
        let values = values_of_secret(lookup, namespace, name, optional)?;
        let files = chosen(values, secret.items.as_deref(), optional)?;
        return Ok(Content::Files(files, mode(secret.default_mode)));
    }
    if let Some(map) = &volume.config_map {
        let optional = map.optional == Some(true);
        let values = values_of_config_map(lookup, namespace, &map.name, optional)?;
        let files = chosen(values, map.items.as_deref(), optional)?;
        return Ok(Content::Files(files, mode(map.default_mode)));
    }
    if volume.empty_dir.is_some() {
        return Ok(Content::Empty);
    }
    Err("this node has no volumes of that type".to_owned())
}

/// The items that are asked for, at their paths; all of them where none is named.
fn chosen(
    mut values: BTreeMap<String, Vec<u8>>,
    items: Option<&[KeyToPath]>,
    optional: bool,
) -> Result<BTreeMap<String, Vec<u8>>, Problem> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return Ok(values);
    };
    let mut files = BTreeMap::new();
    for item in items {
        match values.remove(&item.key) {
            Some(value) => {
                files.insert(item.path.clone(), value);
            }
            None if optional => {}
            None => return Err(format!("references non-existent key: {}", item.key)),
        }
    }
    Ok(files)
}

fn values_of_secret(
    lookup: &impl Lookup,
    namespace: &str,
    name: &str,
    optional: bool,
) -> Result<BTreeMap<String, Vec<u8>>, Problem> {
    let Some(secret) = lookup.secret(namespace, name) else {
        return missing("secret", name, optional);
    };
    let data = secret.data.iter().flatten();
    Ok(data
        .map(|(key, value)| (key.clone(), value.0.clone()))
        .collect())
}

fn values_of_config_map(
    lookup: &impl Lookup,
    namespace: &str,
    name: &str,
    optional: bool,
) -> Result<BTreeMap<String, Vec<u8>>, Problem> {
    let Some(map) = lookup.config_map(namespace, name) else {
        return missing("configmap", name, optional);
    };
    let text = map.data.iter().flatten();
    let text = text.map(|(key, value)| (key.clone(), value.clone().into_bytes()));
    let binary = map.binary_data.iter().flatten();
    let binary = binary.map(|(key, value)| (key.clone(), value.0.clone()));
    Ok(text.chain(binary).collect())
}

fn missing<T: Default>(what: &str, name: &str, optional: bool) -> Result<T, Problem> {
    if optional {
        return Ok(T::default());
    }
    Err(format!("{what} {name:?} not found"))
}

/// The value of a variable; `None` for one that is optional and not there.
fn value_from(
    pod: &Pod,
    container: &Container,
    place: &PodRef,
    source: &EnvVarSource,
    lookup: &impl Lookup,
) -> Result<Option<String>, Problem> {
    let namespace = &pod.meta().namespace;
    if let Some(field) = &source.field_ref {
        return field_value(pod, place, &field.field_path).map(Some);
    }
    if let Some(resource) = &source.resource_field_ref {
        return resource_value(pod, container, resource).map(Some);
    }
    let (values, key, what, optional) = if let Some(secret) = &source.secret_key_ref {
        let optional = secret.optional == Some(true);
        let values = values_of_secret(lookup, namespace, &secret.name, optional)?;
        (
            values,
            &secret.key,
            format!("Secret {namespace}/{}", secret.name),
            optional,
        )
    } else if let Some(map) = &source.config_map_key_ref {
        let optional = map.optional == Some(true);
        let values = values_of_config_map(lookup, namespace, &map.name, optional)?;
        (
            values,
            &map.key,
            format!("ConfigMap {namespace}/{}", map.name),
            optional,
        )
    } else {
        return Err("this node has no such source of a variable".to_owned());
    };
    match values.get(key) {
        Some(value) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
        None if optional => Ok(None),
        None => Err(format!("couldn't find key {key} in {what}")),
    }
}

fn field_value(pod: &Pod, place: &PodRef, path: &str) -> Result<String, Problem> {
    let meta = pod.meta();
    let spec = &pod.spec;
    let quoted = |prefix: &str| {
        let key = path
            .strip_prefix(prefix)?
            .strip_prefix("['")?
            .strip_suffix("']")?;
        Some(key.to_owned())
    };
    if let Some(key) = quoted("metadata.labels") {
        return Ok(meta.labels.get(&key).unwrap_or_default().to_owned());
    }
    if let Some(key) = quoted("metadata.annotations") {
        return Ok(meta.annotations.get(&key).unwrap_or_default().to_owned());
    }
    Ok(match path {
        "metadata.name" => meta.name.to_string(),
        "metadata.namespace" => meta.namespace.to_string(),
        "metadata.uid" => meta.uid.to_string(),
        "spec.nodeName" => pod.node().to_owned(),
        "spec.serviceAccountName" => spec.service_account_name.clone().unwrap_or_default(),
        "status.podIP" | "status.podIPs" => place.ip.to_string(),
        "status.hostIP" | "status.hostIPs" => pod.status.host_ip.clone().unwrap_or_default(),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// A limit or request in units of the divisor, rounded up.
fn resource_value(
    pod: &Pod,
    container: &Container,
    field: &ResourceFieldSelector,
) -> Result<String, Problem> {
    let name = field.container_name.as_ref();
    let mut containers = pod.spec.containers.iter();
    let container = match name {
        Some(name) => containers
            .find(|container| container.name == *name)
            .ok_or_else(|| format!("container {name} not found"))?,
        None => container,
    };
    let resources = container.resources.clone().unwrap_or_default();
    let (list, resource) = field
        .resource
        .split_once('.')
        .ok_or_else(|| format!("unsupported resource: {}", field.resource))?;
    let amounts = if list == "limits" {
        resources.limits
    } else {
        resources.requests
    };
    let amount = amounts.and_then(|amounts| amounts.get(resource).map(|q| q.0.clone()));
    let amount = amount.unwrap_or_else(|| match (list, resource) {
        ("limits", "memory") => NODE_MEMORY.to_owned(),
        ("limits", "cpu") => NODE_CPU.to_owned(),
        _ => "0".to_owned(),
    });
    let divisor = field.divisor.as_ref().map(|divisor| divisor.0.as_str());
    let divisor = divisor
        .filter(|divisor| !matches!(*divisor, "" | "0"))
        .unwrap_or("1");
    let parse = |text: &str| text.parse::<Quantity>().map(Quantity::nanos);
    let (amount, divisor) = (
        parse(&amount).map_err(|error| error.to_string())?,
        parse(divisor).map_err(|error| error.to_string())?,
    );
    Ok((amount / divisor + i128::from(amount % divisor != 0)).to_string())
}

/// Replaces `$(NAME)` by the variable, where there is one; `$$` is a dollar sign.
fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest
            .strip_prefix('(')
            .and_then(|inner| inner.split_once(')'))
        {
            if let Some(value) = env.get(name) {
                out.push_str(value);
            } else {
                out.push_str("$(");
                out.push_str(name);
                out.push(')');
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
