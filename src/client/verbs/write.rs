//! What changes something: create, replace, patch, delete. All of it passes the fence.

use bytes::Bytes;
use http::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{OBJECT_LIMIT, on_collection, on_object};
use crate::client::call::{Subject, Verb};
use crate::client::{Client, DeleteOptions, Error, Patch, Resource};

/// Who owns the fields that we write.
const FIELD_MANAGER: &str = "mainstay";
const JSON: &str = "application/json";

impl Client {
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
            Patch::Strategic(body) => ("application/strategic-merge-patch+json", body),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::{FakeServer, Reply};
    use crate::client::{LEASE, POD};
    use serde_json::Value;
    use std::time::Duration;

    #[tokio::test]
    async fn verbs_are_sent_as_the_api_conventions_say() {
        let server = FakeServer::new(|_| Reply::json(r#"{"gitVersion":"v1.33.0"}"#));
        let client = server.client();
        let body = json!({"a": 1});
        let apply = Patch::Apply {
            body: &body,
            force: true,
        };
        let _: Value = client.get(POD, Some("ns"), "a").await.unwrap();
        let _: Value = client.create(POD, Some("ns"), &body).await.unwrap();
        let _: Value = client
            .replace(LEASE, Some("ns"), "l", None, &body)
            .await
            .unwrap();
        let _: Value = client
            .patch(POD, Some("ns"), "a", Some("status"), apply)
            .await
            .unwrap();
        let list = json!([{"op": "test"}]);
        let _: Value = client
            .patch(POD, Some("ns"), "a", None, Patch::Json(&list))
            .await
            .unwrap();
        let _: Value = client
            .patch(POD, Some("ns"), "a", None, Patch::Merge(&body))
            .await
            .unwrap();
        let _: Value = client
            .patch(
                POD,
                Some("ns"),
                "a",
                Some("status"),
                Patch::Strategic(&body),
            )
            .await
            .unwrap();
        assert_eq!(client.server_version().await.unwrap(), "v1.33.0");
        let seen: Vec<_> = server
            .requests()
            .iter()
            .map(|r| format!("{} {}", r.method, r.path_and_query))
            .collect();
        assert_eq!(
            seen,
            [
                "GET /api/v1/namespaces/ns/pods/a",
                "POST /api/v1/namespaces/ns/pods?fieldManager=mainstay",
                "PUT /apis/coordination.k8s.io/v1/namespaces/ns/leases/l?fieldManager=mainstay",
                "PATCH /api/v1/namespaces/ns/pods/a/status?fieldManager=mainstay&force=true",
                "PATCH /api/v1/namespaces/ns/pods/a?fieldManager=mainstay",
                "PATCH /api/v1/namespaces/ns/pods/a?fieldManager=mainstay",
                "PATCH /api/v1/namespaces/ns/pods/a/status?fieldManager=mainstay",
                "GET /version",
            ]
        );
        let types: Vec<_> = server
            .requests()
            .iter()
            .filter_map(|r| Some(r.headers.get("content-type")?.to_str().unwrap().to_owned()))
            .collect();
        assert_eq!(
            types,
            [
                "application/json",
                "application/json",
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
            ]
        );
        let first = &server.requests()[0];
        assert_eq!(
            first.headers["user-agent"],
            concat!("mainstay/", env!("CARGO_PKG_VERSION"))
        );
        assert_eq!(first.headers["accept-encoding"], "identity");
    }

    #[tokio::test]
    async fn a_delete_carries_its_preconditions() {
        let server = FakeServer::replying([Reply::json("{}")]);
        let options = DeleteOptions {
            uid: Some("u".to_owned()),
            resource_version: Some("7".to_owned()),
            grace_period: Some(Duration::ZERO),
            propagation: Some("Background"),
        };
        server
            .client()
            .delete(POD, Some("ns"), "a", &options)
            .await
            .unwrap();
        let body: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
        assert_eq!(
            body,
            json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                "propagationPolicy": "Background",
                "preconditions": {"uid": "u", "resourceVersion": "7"},
            })
        );
    }
}
