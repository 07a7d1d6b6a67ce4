//! Kubernetes' verbs on typed resources.

use bytes::Bytes;
use http::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::answer::decode;
use super::call::{Call, Subject, Verb, Wanted, check_names};
use super::request::ReplyBody;
use super::watch::WatchStream;
use super::{Client, DeleteOptions, Error, ListOptions, Patch, Resource, WatchOptions};

/// Largest page of a list.
const LIST_LIMIT: usize = 64 << 20;
/// Largest single object: etcd stores 1.5 MiB, its JSON with managed fields is a few times that.
const OBJECT_LIMIT: usize = 16 << 20;
/// Who owns the fields that we write.
const FIELD_MANAGER: &str = "mainstay";
const JSON: &str = "application/json";

/// One page of a list; items undecoded.
#[derive(Debug)]
pub struct ListPage {
    /// The version that the list is of; watch from here once all pages are read.
    pub resource_version: String,
    /// Where the next page begins; `None` on the last.
    pub continue_token: Option<String>,
    /// The objects, each as its JSON (`apiVersion` and `kind` may be left out, as servers do).
    pub items: Vec<Box<RawValue>>,
}

impl Client {
    /// The object `name`.
    ///
    /// # Errors
    /// [`Error::NotFound`], among others.
    pub async fn get<T: DeserializeOwned>(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<T, Error> {
        let call = on_object(Verb::Get, Method::GET, resource, namespace, name, None)?;
        self.run_and_decode(&call).await
    }

    /// One page of the objects in a namespace, or (with `None`) in all.
    ///
    /// # Errors
    /// [`Error::Gone`] when the continue token is too old, among others.
    pub async fn list(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<ListPage, Error> {
        #[derive(Deserialize)]
        struct List {
            metadata: Metadata,
            items: Option<Vec<Box<RawValue>>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            #[serde(default)]
            resource_version: String,
            #[serde(rename = "continue")]
            continue_token: Option<String>,
        }
        let limit = options.limit.map(|limit| limit.to_string());
        let call = on_collection(Verb::List, Method::GET, resource, namespace, LIST_LIMIT)?
            .with_optional("labelSelector", options.label_selector.as_deref())
            .with_optional("fieldSelector", options.field_selector.as_deref())
            .with_optional("limit", limit.as_deref())
            .with_optional("continue", options.continue_token.as_deref())
            .with_optional("resourceVersion", options.resource_version.as_deref());
        let list: List = self.run_and_decode(&call).await?;
        Ok(ListPage {
            resource_version: list.metadata.resource_version,
            continue_token: list
                .metadata
                .continue_token
                .filter(|token| !token.is_empty()),
            items: list.items.unwrap_or_default(),
        })
    }

    /// Opens a watch. The deadline holds until the server has accepted it; how long it may then be
    /// silent is for the caller to judge.
    ///
    /// # Errors
    /// [`Error::Gone`] when the resource version is too old, among others.
    pub async fn watch(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        options: &WatchOptions,
    ) -> Result<WatchStream, Error> {
        let timeout = options
            .timeout
            .map(|timeout| timeout.as_secs().max(1).to_string());
        let mut call = on_collection(Verb::Watch, Method::GET, resource, namespace, 0)?
            .with_query("watch", "true")
            .with_query("allowWatchBookmarks", "true")
            .with_optional("labelSelector", options.label_selector.as_deref())
            .with_optional("fieldSelector", options.field_selector.as_deref())
            .with_optional("resourceVersion", options.resource_version.as_deref())
            .with_optional("timeoutSeconds", timeout.as_deref());
        if options.send_initial_events {
            call = call
                .with_query("sendInitialEvents", "true")
                .with_query("resourceVersionMatch", "NotOlderThan");
        }
        call.wanted = Wanted::Stream;
        match self.run(&call).await?.body {
            ReplyBody::Stream(body) => Ok(WatchStream::new(body, call.subject)),
            ReplyBody::Whole(_) => unreachable!("a stream was wanted"),
        }
    }

    /// Creates an object; never sent a second time unless the server can't have taken the first.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`], among others.
    pub async fn create<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        body: &B,
    ) -> Result<T, Error> {
        let call = on_collection(
            Verb::Create,
            Method::POST,
            resource,
            namespace,
            OBJECT_LIMIT,
        )?;
        let body = json_bytes(&call.subject, body)?;
        let call = call
            .with_query("fieldManager", FIELD_MANAGER)
            .with_body(JSON, body);
        self.run_and_decode(&call).await
    }

    /// PUT; the body carries the resourceVersion it was read at.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the object has changed since, among others. A repetition after a
    /// broken connection may also conflict with its own first try.
    pub async fn replace<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&str>,
        body: &B,
    ) -> Result<T, Error> {
        let call = on_object(
            Verb::Update,
            Method::PUT,
            resource,
            namespace,
            name,
            subresource,
        )?;
        let body = json_bytes(&call.subject, body)?;
        let repeatable = has_resource_version(&body);
        let mut call = call
            .with_query("fieldManager", FIELD_MANAGER)
            .with_body(JSON, body);
        call.repeatable = repeatable;
        self.run_and_decode(&call).await
    }

    /// Changes parts of an object; server-side apply also creates it.
    ///
    /// # Errors
    /// [`Error::Conflict`] when an unforced apply meets fields that others manage, among others.
    pub async fn patch<T: DeserializeOwned>(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&str>,
        patch: Patch<'_>,
    ) -> Result<T, Error> {
        let (content_type, body) = match patch {
            Patch::Apply { body, .. } => ("application/apply-patch+yaml", body),
            Patch::Merge(body) => ("application/merge-patch+json", body),
            Patch::Json(body) => ("application/json-patch+json", body),
        };
        let call = on_object(
            Verb::Patch,
            Method::PATCH,
            resource,
            namespace,
            name,
            subresource,
        )?;
        let body = json_bytes(&call.subject, body)?;
        let mut call = call
            .with_query("fieldManager", FIELD_MANAGER)
            .with_body(content_type, body);
        if let Patch::Apply { force, .. } = patch {
            call = call.with_query("force", if force { "true" } else { "false" });
            call.repeatable = true;
        }
        self.run_and_decode(&call).await
    }

    /// Deletes an object. Success means that the server has accepted it: finalizers and grace periods
    /// may keep the object a while.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Conflict`] when a precondition fails, among others.
    pub async fn delete(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(uid) = &options.uid {
            body["preconditions"]["uid"] = json!(uid);
        }
        if let Some(version) = &options.resource_version {
            body["preconditions"]["resourceVersion"] = json!(version);
        }
        if let Some(grace) = options.grace_period {
            body["gracePeriodSeconds"] = json!(grace.as_secs());
        }
        if let Some(policy) = options.propagation {
            body["propagationPolicy"] = json!(policy);
        }
        let call = on_object(
            Verb::Delete,
            Method::DELETE,
            resource,
            namespace,
            name,
            None,
        )?;
        let mut call = call.with_body(JSON, Bytes::from(body.to_string()));
        // Without a precondition a repetition might hit a new object of the same name.
        call.repeatable = options.uid.is_some() || options.resource_version.is_some();
        self.run(&call).await.map(drop)
    }

    /// GET /version: proves that server and credentials work.
    pub async fn server_version(&self) -> Result<String, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            git_version: String,
        }
        let subject = Subject {
            what: "get /version".to_owned(),
            verb: Verb::Get,
            label: "version",
            resource: "/version".to_owned(),
            namespace: None,
            key: String::new(),
            gvk: "version".to_owned(),
        };
        let call = Call::new(subject, Method::GET, "/version".to_owned(), OBJECT_LIMIT);
        let version: Version = self.run_and_decode(&call).await?;
        Ok(version.git_version)
    }

    async fn run_and_decode<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        match self.run(call).await?.body {
            ReplyBody::Whole(body) => decode(&call.subject, &body),
            ReplyBody::Stream(_) => unreachable!("a whole body was wanted"),
        }
    }
}

fn on_collection(
    verb: Verb,
    method: Method,
    resource: Resource,
    namespace: Option<&str>,
    limit: usize,
) -> Result<Call, Error> {
    let subject = Subject::collection(verb, resource, namespace);
    check_names(&subject, resource, namespace, None)?;
    Ok(Call::new(
        subject,
        method,
        resource.collection_path(namespace),
        limit,
    ))
}

fn on_object(
    verb: Verb,
    method: Method,
    resource: Resource,
    namespace: Option<&str>,
    name: &str,
    subresource: Option<&str>,
) -> Result<Call, Error> {
    let subject = Subject::object(verb, resource, namespace, name, subresource);
    check_names(&subject, resource, namespace, Some(name))?;
    let path = resource.object_path(namespace, name, subresource);
    Ok(Call::new(subject, method, path, OBJECT_LIMIT))
}

fn json_bytes<B: Serialize>(subject: &Subject, body: &B) -> Result<Bytes, Error> {
    let bytes = serde_json::to_vec(body).map_err(|error| Error::Request {
        what: subject.what.clone(),
        message: error.to_string(),
    })?;
    Ok(Bytes::from(bytes))
}

/// Whether a PUT of `body` is optimistic, and so harmless to repeat.
fn has_resource_version(body: &[u8]) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Slim {
        metadata: Metadata,
    }
    let slim: Slim = serde_json::from_slice(body).unwrap_or_default();
    !slim.metadata.resource_version.is_empty()
}
