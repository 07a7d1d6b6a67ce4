//! The API as the loop sees it: a list by pages and a stream of frames. Tests script it.

use std::future::{Future, pending};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::client::{
    Client, Error, Jitter, ListOptions, ListPage, Resource, WatchFrame, WatchOptions, WatchStream,
};

/// What one page of a list is asked for with. Never with version `0`, which may be old and for which
/// servers ignore the limit: the whole collection would come at once, however large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageRequest {
    pub(super) continue_token: Option<String>,
    /// `None` asks for everything in one page.
    pub(super) limit: Option<u32>,
}

/// What a watch is asked for with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchRequest {
    /// Events after this version. `None` asks for all objects first, then a bookmark that says so,
    /// then events (`WatchList`).
    pub(super) resource_version: Option<String>,
    /// The server ends the watch after this.
    pub(super) timeout: Duration,
}

/// One collection of an API server.
pub(super) trait Source: Send + Sync {
    type Frames: Frames;

    fn page<T: DeserializeOwned + Send>(
        &self,
        request: PageRequest,
    ) -> impl Future<Output = Result<ListPage<T>, Error>> + Send;

    fn watch(
        &self,
        request: WatchRequest,
    ) -> impl Future<Output = Result<Self::Frames, Error>> + Send;

    /// Completes when the API server, having been away, is back. Cancel-safe.
    fn back(&self) -> impl Future<Output = ()> + Send;
}

/// Frames of one watch; `None` at its clean end. Cancel-safe.
pub(super) trait Frames: Send {
    fn next<T: DeserializeOwned + Send>(
        &mut self,
    ) -> impl Future<Output = Option<Result<WatchFrame<T>, Error>>> + Send;
}

/// What one loop keeps: a namespace or all, and the selectors.
#[derive(Clone, Debug)]
pub(super) struct PartScope {
    pub(super) namespace: Option<String>,
    pub(super) label_selector: Option<String>,
    pub(super) field_selector: Option<String>,
}

/// A collection behind the client.
pub(super) struct Remote {
    client: Client,
    resource: Resource,
    scope: PartScope,
}

impl Remote {
    pub(super) fn new(client: Client, resource: Resource, scope: PartScope) -> Self {
        Self {
            client,
            resource,
            scope,
        }
    }

    /// Chance for the loop's delays.
    pub(super) fn jitter(&self) -> Jitter {
        self.client.environment().jitter()
    }

    /// While the circuit breaker is open nothing is asked, and no failure counted; then this loop is
    /// one of those that try.
    async fn leave_alone(&self) {
        if let Some(mut breaker) = self.client.breaker() {
            breaker.not_open().await;
        }
    }
}

impl Source for Remote {
    type Frames = WatchStream;

    async fn page<T: DeserializeOwned + Send>(
        &self,
        request: PageRequest,
    ) -> Result<ListPage<T>, Error> {
        self.leave_alone().await;
        let options = ListOptions {
            label_selector: self.scope.label_selector.clone(),
            field_selector: self.scope.field_selector.clone(),
            limit: request.limit,
            continue_token: request.continue_token,
            resource_version: None,
        };
        let namespace = self.scope.namespace.as_deref();
        self.client.list(self.resource, namespace, &options).await
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream, Error> {
        self.leave_alone().await;
        let options = WatchOptions {
            label_selector: self.scope.label_selector.clone(),
            field_selector: self.scope.field_selector.clone(),
            send_initial_events: request.resource_version.is_none(),
            resource_version: request.resource_version,
            timeout: Some(request.timeout),
        };
        let namespace = self.scope.namespace.as_deref();
        self.client.watch(self.resource, namespace, &options).await
    }

    async fn back(&self) {
        match self.client.breaker() {
            Some(mut breaker) => breaker.closes().await,
            None => pending().await,
        }
    }
}

impl Frames for WatchStream {
    async fn next<T: DeserializeOwned + Send>(&mut self) -> Option<Result<WatchFrame<T>, Error>> {
        // The inherent method, which goes first.
        self.next().await
    }
}
