//! One API request as data: what it is about, how it is sent, and whether it may be repeated.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};

use super::limiter::Priority;
use super::{Error, Resource};

/// Kubernetes' verbs, as RBAC and metrics name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
}

impl Verb {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    /// Whether it changes something, and so has to pass the fence.
    pub(super) fn mutates(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// What a request is about: what errors and metrics say of it.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// For messages: `get pods ns/name`.
    pub(super) what: String,
    pub(super) verb: Verb,
    /// Plural with subresource: the metrics' label.
    pub(super) label: &'static str,
    /// `plural.group`, as RBAC names it.
    pub(super) resource: String,
    pub(super) namespace: Option<String>,
    /// `namespace/name`, or empty for a collection.
    pub(super) key: String,
    /// `group/version Kind`.
    pub(super) gvk: String,
    /// Who goes first at the limiter.
    pub(super) priority: Priority,
}

/// What the caller wants of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A body of at most so many bytes, of a successful answer.
    Whole(usize),
    /// The stream of a successful answer.
    Stream,
    /// The stream, whatever the status is.
    AnyStatus,
}

/// One API request.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) subject: Subject,
    pub(super) method: Method,
    pub(super) path_and_query: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Whether carrying it out twice is the same as once.
    pub(super) repeatable: bool,
    pub(super) wanted: Wanted,
    /// Instead of the lane's.
    pub(super) deadline: Option<Duration>,
}

impl Subject {
    /// About the objects of `resource` in one namespace, or in all.
    pub(super) fn collection(verb: Verb, resource: Resource, namespace: Option<&str>) -> Self {
        let place = namespace
            .map(|namespace| format!(" in {namespace}"))
            .unwrap_or_default();
        Self {
            what: format!("{} {}{place}", verb.as_str(), resource.plural),
            verb,
            label: resource.plural,
            resource: if resource.group.is_empty() {
                resource.plural.to_owned()
            } else {
                format!("{}.{}", resource.plural, resource.group)
            },
            namespace: namespace.map(str::to_owned),
            key: String::new(),
            gvk: format!("{} {}", resource.api_version(), resource.kind),
            priority: if resource.plural == "events" {
                Priority::Low
            } else {
                Priority::Normal
            },
        }
    }

    /// About one object, or a subresource of it.
    pub(super) fn object(
        verb: Verb,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&str>,
    ) -> Self {
        let key = match namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        let part = subresource
            .map(|part| format!("/{part}"))
            .unwrap_or_default();
        let mut subject = Self::collection(verb, resource, namespace);
        subject.what = format!("{} {}{part} {key}", verb.as_str(), resource.plural);
        subject.resource.push_str(&part);
        if subresource == Some("status") {
            subject.priority = Priority::High;
        }
        subject.key = key;
        subject
    }

    /// Whether its content must not be quoted.
    pub(super) fn is_secret(&self) -> bool {
        self.resource == "secrets"
    }
}

impl Call {
    /// A request without body for a JSON answer of at most `limit` bytes; repeatable if it reads.
    pub(super) fn new(subject: Subject, method: Method, path: String, limit: usize) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        );
        Self {
            repeatable: !subject.verb.mutates(),
            subject,
            method,
            path_and_query: path,
            headers,
            body: Bytes::new(),
            wanted: Wanted::Whole(limit),
            deadline: None,
        }
    }

    /// With `body`, JSON or a kind of patch.
    pub(super) fn with_body(mut self, content_type: &'static str, body: Bytes) -> Self {
        let content_type = HeaderValue::from_static(content_type);
        self.headers.insert(header::CONTENT_TYPE, content_type);
        self.body = body;
        self
    }

    /// With `key=value` in the query, percent-encoded.
    pub(super) fn with_query(mut self, key: &str, value: &str) -> Self {
        let query = &mut self.path_and_query;
        query.push(if query.contains('?') { '&' } else { '?' });
        query.push_str(key);
        query.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                query.push(char::from(byte));
            } else {
                // Writing to a String can't fail.
                let _ = write!(query, "%{byte:02X}");
            }
        }
        self
    }

    /// With `key=value` where there is a value.
    pub(super) fn with_optional(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with_query(key, value),
            None => self,
        }
    }
}

/// Refuses names that would lead a path elsewhere: an empty name is the whole collection.
pub(super) fn check_names(
    subject: &Subject,
    resource: Resource,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<(), Error> {
    let refuse = |message: String| {
        let what = subject.what.clone();
        Err(Error::Request { what, message })
    };
    if resource.namespaced && namespace.is_none() && name.is_some() {
        return refuse(format!("{} need a namespace", resource.plural));
    }
    for part in [namespace, name].into_iter().flatten() {
        let clean = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if part.is_empty() || part == "." || part == ".." || !part.bytes().all(clean) {
            return refuse(format!("{part:?} can't be a name"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{LEASE, POD};

    #[test]
    fn subjects_read_as_kubectl_would_say_them() {
        let list = Subject::collection(Verb::List, LEASE, None);
        assert_eq!(list.what, "list leases");
        assert_eq!(list.resource, "leases.coordination.k8s.io");
        let status = Subject::object(Verb::Patch, POD, Some("ns"), "a", Some("status"));
        assert_eq!(status.what, "patch pods/status ns/a");
        assert_eq!(
            (status.resource.as_str(), status.label),
            ("pods/status", "pods")
        );
        assert_eq!(status.gvk, "v1 Pod");
    }

    #[test]
    fn query_values_are_percent_encoded() {
        let subject = Subject::collection(Verb::List, POD, None);
        let call = Call::new(subject, Method::GET, "/api/v1/pods".to_owned(), 1)
            .with_query("labelSelector", "a in (b,c),d=é&e")
            .with_query("limit", "5");
        assert_eq!(
            call.path_and_query,
            "/api/v1/pods?labelSelector=a%20in%20%28b%2Cc%29%2Cd%3D%C3%A9%26e&limit=5"
        );
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let subject = Subject::collection(Verb::Delete, POD, None);
        for name in ["", ".", "..", "a/b", "a?b", "a%2fb", "ä"] {
            assert!(
                check_names(&subject, POD, Some("ns"), Some(name)).is_err(),
                "{name}"
            );
        }
        assert!(
            check_names(&subject, POD, None, Some("a")).is_err(),
            "a pod without namespace"
        );
        assert!(check_names(&subject, POD, Some("ns"), Some("a-0.b")).is_ok());
        assert!(
            check_names(&subject, POD, None, None).is_ok(),
            "all of them"
        );
    }
}
