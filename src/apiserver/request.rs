//! A request as the object logic sees it: no headers, no sockets.

use serde_json::Value;

use super::registry::qualified;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch(PatchKind),
    Delete,
    DeleteCollection,
}

impl Verb {
    /// As RBAC, audit and faults name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch(_) => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether it may change something.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// Kinds of patches, by content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// What a path names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Empty for core.
    pub(crate) group: String,
    pub(crate) version: String,
    /// Plural.
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// What follows the subresource (`pods/NAME/proxy/REST`).
    pub(crate) rest: Option<String>,
}

impl Target {
    /// The resource with its subresource: `pods/status`.
    pub(crate) fn plural(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource),
            None => self.resource.clone(),
        }
    }

    /// The same with its group, as rules name it: `pods/status`, `deployments.apps`.
    pub(crate) fn qualified(&self) -> String {
        qualified(&self.plural(), &self.group)
    }
}

/// The query of a request, understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) limit: Option<u64>,
    pub(crate) continue_token: String,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    pub(crate) allow_bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) dry_run: Vec<String>,
    /// `None` where it was not given.
    pub(crate) field_manager: Option<String>,
    pub(crate) field_validation: String,
    pub(crate) force: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) orphan_dependents: Option<bool>,
}

impl Options {
    /// Whether nothing is to be stored.
    pub(crate) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }
}

/// A request for a resource.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) target: Target,
    pub(crate) options: Options,
    /// Null for none.
    pub(crate) body: Value,
    /// Fields that the body named twice, as strict decoding says it.
    pub(crate) duplicates: Vec<String>,
    /// Field manager where none is named: the beginning of the user agent.
    pub(crate) agent: String,
}

impl Request {
    /// Who manages the fields that it writes.
    pub(crate) fn manager(&self) -> &str {
        match self.options.field_manager.as_deref() {
            None | Some("") => &self.agent,
            Some(manager) => manager,
        }
    }
}
