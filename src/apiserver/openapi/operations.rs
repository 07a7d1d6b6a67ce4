//! The paths of a resource and what can be done there.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::schemas::{meta, name, reference};
use super::{camel, prefix};
use crate::apiserver::ResourceInfo;
use crate::apiserver::discovery::{is_builtin, verbs};

static PARAMETERS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("parameters.json")).expect("the file is well formed")
});

const BODIES: [&str; 2] = ["application/json", "application/yaml"];
const PATCHES: [&str; 3] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
];
const LIST: [&str; 11] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
const WRITE: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];
const PATCH: [&str; 4] = [
    "dryRun",
    "fieldManager of patches",
    "fieldValidation",
    "force",
];
const DELETE: [&str; 5] = [
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];

/// Adds the paths of a resource.
pub(super) fn add(info: &ResourceInfo, paths: &mut BTreeMap<String, Value>) {
    let it = Resource::new(info);
    let base = prefix(&info.group, &info.version);
    let plural = &info.plural;
    let collection = if info.namespaced {
        if it.verbs.contains(&"list") {
            let all = Resource::path(it.list("ForAllNamespaces"), &[], &LIST);
            paths.insert(format!("{base}/{plural}"), all);
        }
        format!("{base}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{base}/{plural}")
    };
    let scope: &[&str] = if info.namespaced { &["namespace"] } else { &[] };
    paths.insert(
        collection.clone(),
        Resource::path(it.collection(), scope, &[]),
    );
    if !it.verbs.contains(&"get") {
        return;
    }
    let item: Vec<&str> = ["name"].iter().chain(scope).copied().collect();
    let at = format!("{collection}/{{name}}");
    paths.insert(at.clone(), Resource::path(it.item(), &item, &[]));
    if info.status {
        let status = it.changes("status", &name(info), &it.gvk());
        paths.insert(format!("{at}/status"), Resource::path(status, &item, &[]));
    }
    if info.scale.is_some() {
        let gvk = if is_builtin(&info.group) {
            json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
        } else {
            it.gvk()
        };
        let scale = it.changes("scale", "io.k8s.api.autoscaling.v1.Scale", &gvk);
        paths.insert(format!("{at}/scale"), Resource::path(scale, &item, &[]));
    }
}

/// A resource with what its operations are named by.
struct Resource<'a> {
    info: &'a ResourceInfo,
    verbs: &'static [&'static str],
    /// As in `AppsV1`.
    version: String,
    /// As in `NamespacedDeployment`.
    kind: String,
    tag: String,
}

/// One operation.
struct Operation<'a> {
    /// `read`, `list`, …: how its name starts.
    does: &'a str,
    action: &'a str,
    description: String,
    id: String,
    parameters: &'a [&'a str],
    body: Option<Value>,
    /// The schema that is answered, by status.
    answers: &'a [(&'a str, &'a str)],
    schema: Value,
    gvk: Value,
}

impl<'a> Resource<'a> {
    fn new(info: &'a ResourceInfo) -> Self {
        let group = info.group.strip_suffix(".k8s.io").unwrap_or(&info.group);
        let group = if group.is_empty() { "core" } else { group };
        let camel_group = camel(group);
        let mut tag = camel_group.clone();
        if let Some(first) = tag.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        let scope = if info.namespaced { "Namespaced" } else { "" };
        Self {
            info,
            verbs: verbs(info),
            version: format!("{camel_group}{}", camel(&info.version)),
            kind: format!("{scope}{}", info.kind),
            tag: format!("{tag}_{}", info.version),
        }
    }

    fn gvk(&self) -> Value {
        let info = self.info;
        json!({"group": info.group, "version": info.version, "kind": info.kind})
    }

    fn own(&self) -> Value {
        reference(&name(self.info))
    }

    /// A path with its operations and the parameters of all of them.
    fn path(operations: Map<String, Value>, places: &[&str], also: &[&str]) -> Value {
        let mut path = operations;
        let mut shared: Vec<&str> = places.iter().chain(also).copied().collect();
        shared.push("pretty");
        path.insert("parameters".to_owned(), parameters(&shared));
        path.into()
    }

    fn operation(&self, of: Operation<'_>) -> Value {
        let mut responses: Map<String, Value> = of
            .answers
            .iter()
            .map(|(code, description)| {
                let answer = json!({
                    "description": description,
                    "content": content(&BODIES, &of.schema),
                });
                ((*code).to_owned(), answer)
            })
            .collect();
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        let mut operation = json!({
            "tags": [self.tag],
            "description": of.description,
            "operationId": format!("{}{}{}", of.does, self.version, of.id),
            "responses": responses,
            "x-kubernetes-action": of.action,
            "x-kubernetes-group-version-kind": of.gvk,
        });
        if !of.parameters.is_empty() {
            operation["parameters"] = parameters(of.parameters);
        }
        if let Some(body) = of.body {
            operation["requestBody"] = body;
        }
        operation
    }

    fn list(&self, suffix: &str) -> Map<String, Value> {
        let list = reference(&format!("{}List", name(self.info)));
        let kind = if suffix.is_empty() {
            &self.kind
        } else {
            &self.info.kind
        };
        let list = self.operation(Operation {
            does: "list",
            action: "list",
            description: format!("list objects of kind {}", self.info.kind),
            id: format!("{kind}{suffix}"),
            parameters: if suffix.is_empty() { &LIST } else { &[] },
            body: None,
            answers: &[("200", "OK")],
            schema: list,
            gvk: self.gvk(),
        });
        Map::from_iter([("get".to_owned(), list)])
    }

    fn collection(&self) -> Map<String, Value> {
        let mut operations = Map::new();
        if self.verbs.contains(&"list") {
            operations = self.list("");
        }
        let create = self.operation(Operation {
            does: "create",
            action: "post",
            description: format!("create a {}", self.info.kind),
            id: self.kind.clone(),
            parameters: &WRITE,
            body: Some(body(&BODIES, &self.own())),
            answers: &[("200", "OK"), ("201", "Created"), ("202", "Accepted")],
            schema: self.own(),
            gvk: self.gvk(),
        });
        operations.insert("post".to_owned(), create);
        if self.verbs.contains(&"deletecollection") {
            let delete = self.operation(Operation {
                does: "delete",
                action: "deletecollection",
                description: format!("delete collection of {}", self.info.kind),
                id: format!("Collection{}", self.kind),
                parameters: &LIST,
                body: None,
                answers: &[("200", "OK")],
                schema: meta("Status"),
                gvk: self.gvk(),
            });
            operations.insert("delete".to_owned(), delete);
        }
        operations
    }

    fn item(&self) -> Map<String, Value> {
        let mut operations = self.changes("", &name(self.info), &self.gvk());
        let delete = self.operation(Operation {
            does: "delete",
            action: "delete",
            description: format!("delete a {}", self.info.kind),
            id: self.kind.clone(),
            parameters: &DELETE,
            body: Some(json!({"content": content(&BODIES, &meta("DeleteOptions"))})),
            answers: &[("200", "OK"), ("202", "Accepted")],
            schema: meta("Status"),
            gvk: self.gvk(),
        });
        operations.insert("delete".to_owned(), delete);
        operations
    }

    /// What can be read, replaced and patched: an object, or a subresource of it.
    fn changes(&self, subresource: &str, schema: &str, gvk: &Value) -> Map<String, Value> {
        let of = match subresource {
            "" => String::new(),
            name => format!("{name} of "),
        };
        let make = |does: &'static str, action: &'static str, verb: &str| Operation {
            does,
            action,
            description: format!("{verb} {of}the specified {}", self.info.kind),
            id: format!("{}{}", self.kind, camel(subresource)),
            parameters: &["resourceVersion"],
            body: None,
            answers: &[("200", "OK")],
            schema: reference(schema),
            gvk: gvk.clone(),
        };
        let read = make("read", "get", "read");
        let replace = Operation {
            parameters: &WRITE,
            body: Some(body(&BODIES, &reference(schema))),
            answers: &[("200", "OK"), ("201", "Created")],
            ..make("replace", "put", "replace")
        };
        let patch = Operation {
            parameters: &PATCH,
            body: Some(body(&PATCHES, &meta("Patch"))),
            ..make("patch", "patch", "partially update")
        };
        [("get", read), ("put", replace), ("patch", patch)]
            .into_iter()
            .map(|(method, operation)| (method.to_owned(), self.operation(operation)))
            .collect()
    }
}

fn content(types: &[&str], schema: &Value) -> Value {
    let of = |media: &&str| ((*media).to_owned(), json!({"schema": schema}));
    types.iter().map(of).collect::<Map<_, _>>().into()
}

fn body(types: &[&str], schema: &Value) -> Value {
    json!({"content": content(types, schema), "required": true})
}

fn parameters(names: &[&str]) -> Value {
    names.iter().map(|name| PARAMETERS[*name].clone()).collect()
}
