//! What changes something: create, replace, patch, delete. All of it passes the fence.

use bytes::Bytes;
use http::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ours::is_ours;
use super::{OBJECT_LIMIT, on_collection, on_object};
use crate::client::answer::decode;
use crate::client::call::{Call, Subject, Verb};
use crate::client::stage::Stage;
use crate::client::{Client, DeleteOptions, Error, Patch, Resource};

/// Who owns the fields that we write.
const FIELD_MANAGER: &str = "mainstay";
const JSON: &str = "application/json";

impl Client {
    /// Creates an object; never sent a second time unless the server said that it did not take the
    /// first. Should it have taken it all the same (a proxy in between spoke too soon), the second finds
    /// the object there: one that holds all that was sent is ours, and its creation a success.
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
        let (stage, begun) = (Stage::new(), Instant::now());
        match self.run_through(&call, &stage).await {
            Err(error @ Error::AlreadyExists { .. }) if stage.was_repeated() => {
                let left = self.lane.deadline.saturating_sub(begun.elapsed());
                let ours = self.created_before(resource, namespace, &call);
                let ours = tokio::time::timeout(left, ours).await.ok().flatten();
                ours.map_or(Err(error), |object| {
                    decode(&call.subject, object.get().as_bytes())
                })
            }
            reply => self.decoded(&call, reply?),
        }
    }

    /// The object that `create` meant to create, if that is what exists.
    async fn created_before(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        create: &Call,
    ) -> Option<Box<RawValue>> {
        let sent: Value = serde_json::from_slice(&create.body).ok()?;
        let name = sent["metadata"]["name"].as_str()?;
        // Where it can't be read, that it exists is all that is known.
        let object: Box<RawValue> = self.get(resource, namespace, name).await.ok()?;
        let exists = serde_json::from_str(object.get()).ok()?;
        is_ours(&exists, &sent).then_some(object)
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

    #[tokio::test(start_paused = true)]
    async fn k2007_a_repeated_create_that_finds_its_own_object_has_succeeded() {
        let exists = |holder: &str| {
            Reply::json(format!(
                r#"{{"metadata":{{"name":"l","uid":"u"}},"spec":{{"holderIdentity":"{holder}"}}}}"#
            ))
        };
        let there = || {
            let status = r#"{"kind":"Status","code":409,"reason":"AlreadyExists"}"#;
            Reply::status(409, status)
        };
        let body = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
        let create = async |server: &FakeServer| {
            let client = server.client();
            client.create::<_, Value>(LEASE, Some("ns"), &body).await
        };
        let taken_all_the_same = Reply::retry_after(503, "1");
        let server = FakeServer::replying([taken_all_the_same, there(), exists("me")]);
        assert_eq!(create(&server).await.unwrap()["metadata"]["uid"], "u");
        assert_eq!(server.requests()[2].method, Method::GET);

        let raced = FakeServer::replying([Reply::retry_after(503, "1"), there(), exists("you")]);
        let error = create(&raced).await.unwrap_err();
        assert!(matches!(error, Error::AlreadyExists { .. }), "{error}");

        let server = FakeServer::replying([there(), exists("me")]);
        let error = create(&server).await.unwrap_err();
        assert!(matches!(error, Error::AlreadyExists { .. }), "{error}");
        assert_eq!(server.requests().len(), 1, "sent once, so not by this call");
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
