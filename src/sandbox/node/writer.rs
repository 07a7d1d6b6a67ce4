//! Writes that wait until the cache shows them, so that the next look does not repeat them.

use serde::Deserialize;
use serde_json::Value;

use crate::client::{Client, DeleteOptions, Error, Patch};
use crate::runtime::{Kind, Meta, ObjectKey, Store};

/// Writes objects of the kinds that are cached. A write that was decided on an old state is no error:
/// it is decided again once the cache shows the new one.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) client: Client,
}

/// An answer to a write: enough to wait for it in the cache.
#[derive(Deserialize)]
struct Written {
    metadata: Meta,
}

impl Writer {
    pub(super) async fn create<K: Kind>(
        &self,
        store: &Store<K>,
        namespace: &str,
        body: &Value,
    ) -> Result<(), Error> {
        let written = self
            .client
            .create(K::RESOURCE, scope(namespace), body)
            .await;
        settle(store, written).await
    }

    /// The body holds the resource version that it was decided on.
    pub(super) async fn replace<K: Kind>(
        &self,
        store: &Store<K>,
        key: &ObjectKey,
        body: &Value,
    ) -> Result<(), Error> {
        let namespace = scope(&key.namespace);
        let replaced = self
            .client
            .replace(K::RESOURCE, namespace, &key.name, None, body);
        settle(store, replaced.await).await
    }

    pub(super) async fn patch<K: Kind>(
        &self,
        store: &Store<K>,
        key: &ObjectKey,
        subresource: Option<&str>,
        patch: Patch<'_>,
    ) -> Result<(), Error> {
        let namespace = scope(&key.namespace);
        let patched = self
            .client
            .patch(K::RESOURCE, namespace, &key.name, subresource, patch);
        settle(store, patched.await).await
    }

    /// Deletes the object of that UID.
    pub(super) async fn delete<K: Kind>(
        &self,
        store: &Store<K>,
        key: &ObjectKey,
        uid: &str,
    ) -> Result<(), Error> {
        let options = DeleteOptions {
            uid: Some(uid.to_owned()),
            ..DeleteOptions::default()
        };
        let deleted = self
            .client
            .delete(K::RESOURCE, scope(&key.namespace), &key.name, &options);
        match deleted.await {
            Err(error) if !is_stale(&error) => Err(error),
            Ok(()) | Err(_) => {
                store.expect_deleted(key, uid);
                store.caught_up(key).await;
                Ok(())
            }
        }
    }
}

fn scope(namespace: &str) -> Option<&str> {
    Some(namespace).filter(|namespace| !namespace.is_empty())
}

async fn settle<K: Kind>(store: &Store<K>, written: Result<Written, Error>) -> Result<(), Error> {
    match written {
        Ok(Written { metadata }) => {
            let key = metadata.key();
            store.expect(&key, &metadata.uid, &metadata.resource_version);
            store.caught_up(&key).await;
            Ok(())
        }
        Err(error) if is_stale(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_stale(error: &Error) -> bool {
    error.is_conflict() || error.is_not_found() || matches!(error, Error::AlreadyExists { .. })
}
