//! Paths and queries.

use std::borrow::Cow;

use crate::apiserver::ApiError;
use crate::apiserver::request::{Options, Target};

/// What a path means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// A resource, a collection, or a subresource.
    Resource(Target),
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
        [] | ["api" | "apis"] | ["api", _] | ["apis", _] | ["apis", _, _] | ["openapi", ..] => {
            Some(Route::Document)
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

/// Undoes percent-encoding; in queries a plus is a space.
pub(super) fn decode(text: &str, query: bool) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |byte: u8| {
            char::from(byte)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        };
        let escaped = (bytes[at] == b'%' && at + 2 < bytes.len())
            .then(|| Some(hex(bytes[at + 1])? * 16 + hex(bytes[at + 2])?))
            .flatten();
        match (bytes[at], escaped) {
            (_, Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', None) if query => out.push(b' '),
            (byte, None) => out.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// The pairs of a query.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true), decode(value, true))
        })
}

/// Understands a query. The first value of a key counts, as in Go. Also says whether it asks to watch.
pub(super) fn options(query: &str) -> Result<(Options, bool), ApiError> {
    let mut options = Options::default();
    let mut watch = false;
    let mut seen: Vec<Cow<'_, str>> = Vec::new();
    for (key, value) in pairs(query) {
        if seen.contains(&key) && key != "dryRun" {
            continue;
        }
        let text = || value.clone().into_owned();
        match &*key {
            "labelSelector" => options.label_selector = text(),
            "fieldSelector" => options.field_selector = text(),
            "limit" => {
                options.limit =
                    number(&key, &value)?.and_then(|limit: i64| u64::try_from(limit).ok())
            }
            "continue" => options.continue_token = text(),
            "resourceVersion" => options.resource_version = text(),
            "resourceVersionMatch" => options.resource_version_match = text(),
            "allowWatchBookmarks" => options.allow_bookmarks = boolean(&value),
            "sendInitialEvents" => options.send_initial_events = Some(boolean(&value)),
            "timeoutSeconds" => options.timeout_seconds = number(&key, &value)?,
            "watch" => watch = boolean(&value),
            "dryRun" if value.is_empty() => {}
            "dryRun" if value == "All" => options.dry_run.push(text()),
            "dryRun" => {
                return Err(invalid(&format!(
                    "dryRun: Unsupported value: [{value:?}]: supported values: \"All\""
                )));
            }
            "fieldManager" => options.field_manager = Some(text()),
            "fieldValidation" => {
                if !matches!(&*value, "" | "Ignore" | "Warn" | "Strict") {
                    return Err(invalid(&format!(
                        "fieldValidation: Unsupported value: {value:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
                    )));
                }
                options.field_validation = text();
            }
            "force" => options.force = Some(boolean(&value)),
            "propagationPolicy" => options.propagation_policy = Some(text()),
            "gracePeriodSeconds" => options.grace_period_seconds = number(&key, &value)?,
            "orphanDependents" => options.orphan_dependents = Some(boolean(&value)),
            _ => {}
        }
        seen.push(key);
    }
    Ok((options, watch))
}

fn invalid(problem: &str) -> ApiError {
    ApiError::new(
        422,
        "Invalid",
        format!("PatchOptions.meta.k8s.io \"\" is invalid: {problem}"),
    )
}

/// As Kubernetes reads booleans in queries: anything but `false` and `0` is true.
fn boolean(value: &str) -> bool {
    !matches!(value.to_lowercase().as_str(), "false" | "0")
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<Option<T>, ApiError> {
    if value.is_empty() {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|_| {
        ApiError::bad_request(format!(
            "strconv.ParseInt: parsing {value:?}: invalid syntax ({key})"
        ))
    })
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
        assert_eq!(route("/nothing"), None);
    }

    #[test]
    fn queries_are_decoded() {
        let (options, watch) = options(
            "watch=1&labelSelector=a%3Db%2Cc+in+(d)&limit=5&allowWatchBookmarks=true&dryRun=All",
        )
        .unwrap();
        assert!(watch && options.allow_bookmarks && options.is_dry_run());
        assert_eq!(options.label_selector, "a=b,c in (d)");
        assert_eq!(options.limit, Some(5));
    }
}
