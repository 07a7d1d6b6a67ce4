//! Paths.

use super::query::decode;
use crate::apiserver::request::Target;

/// What a path means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// A resource, a collection, or a subresource.
    Resource(Target),
    /// `/api/v1/watch/REST`, an older way to watch `/api/v1/REST`.
    Watch(Target),
    /// `/healthz`, `/livez`, `/readyz` and what is below them.
    Health(String),
    /// `/version`
    Version,
    /// `/faults`, `/faults/ID`, `/faults/freeze`, `/faults/thaw`, `/faults/compact`
    Faults(Vec<String>),
    /// `/metrics`
    Metrics,
    /// Discovery and OpenAPI: the path as it is.
    Document,
}

/// Parts of a path, decoded.
fn parts(path: &str) -> Vec<String> {
    path.split('/')
        .filter(|part| !part.is_empty())
        .map(|part| decode(part, false).into_owned())
        .collect()
}

/// Understands a path. `None`: there is no such thing.
pub(super) fn route(path: &str) -> Option<Route> {
    let all = parts(path);
    let parts: Vec<&str> = all.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => Some(Route::Health(parts[0].to_owned())),
        ["version"] => Some(Route::Version),
        ["metrics"] => Some(Route::Metrics),
        ["faults", rest @ ..] => Some(Route::Faults(
            rest.iter().map(|part| (*part).to_owned()).collect(),
        )),
        [] | ["api" | "apis"] | ["api" | "apis", _] | ["apis", _, _] | ["openapi", ..] => {
            Some(Route::Document)
        }
        ["api", version, "watch", rest @ ..] => target("", version, rest, path).map(Route::Watch),
        ["apis", group, version, "watch", rest @ ..] => {
            target(group, version, rest, path).map(Route::Watch)
        }
        ["api", version, rest @ ..] => target("", version, rest, path).map(Route::Resource),
        ["apis", group, version, rest @ ..] => {
            target(group, version, rest, path).map(Route::Resource)
        }
        _ => None,
    }
}

fn target(group: &str, version: &str, rest: &[&str], path: &str) -> Option<Target> {
    let mut target = Target {
        group: group.to_owned(),
        version: version.to_owned(),
        ..Target::default()
    };
    let rest = match rest {
        // Subresources of namespaces themselves.
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => rest,
        ["namespaces", namespace, rest @ ..] => {
            target.namespace = Some((*namespace).to_owned());
            rest
        }
        rest => rest,
    };
    let (resource, rest) = rest.split_first()?;
    target.resource = (*resource).to_owned();
    if let Some((name, rest)) = rest.split_first() {
        target.name = Some((*name).to_owned());
        if let Some((subresource, rest)) = rest.split_first() {
            target.subresource = Some((*subresource).to_owned());
            match *subresource {
                "proxy" => target.rest = Some(after_proxy(path)),
                _ if !rest.is_empty() => return None,
                _ => {}
            }
        }
    }
    Some(target)
}

/// What follows `/proxy` in a path, as it was written.
fn after_proxy(path: &str) -> String {
    let at = path
        .find("/proxy")
        .map_or(path.len(), |at| at + "/proxy".len());
    match &path[at..] {
        "" => "/".to_owned(),
        rest => rest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> Target {
        match route(path) {
            Some(Route::Resource(target)) => target,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn paths_name_resources() {
        let target = resource("/api/v1/namespaces/a/pods/b/status");
        assert_eq!(target.namespace.as_deref(), Some("a"));
        assert_eq!(
            (target.name.as_deref(), target.subresource.as_deref()),
            (Some("b"), Some("status"))
        );
        let target = resource("/api/v1/namespaces/a");
        assert_eq!(
            (target.resource.as_str(), target.name.as_deref()),
            ("namespaces", Some("a"))
        );
        assert_eq!(target.namespace, None);
        let target = resource("/apis/apps/v1/deployments");
        assert_eq!(
            (target.group.as_str(), target.resource.as_str()),
            ("apps", "deployments")
        );
        let target = resource("/api/v1/namespaces/a/pods/https:b:8443/proxy/v1/x%20y");
        assert_eq!(target.rest.as_deref(), Some("/v1/x%20y"));
        assert_eq!(route("/apis/apps/v1"), Some(Route::Document));
        assert_eq!(
            route("/api/v1/watch/namespaces/a/pods"),
            route("/api/v1/namespaces/a/pods").map(|route| match route {
                Route::Resource(target) => Route::Watch(target),
                other => other,
            })
        );
        assert_eq!(route("/nothing"), None);
    }
}
