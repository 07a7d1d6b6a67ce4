//! Signatures that the client helper replaces with the real thing (split over config.rs, request.rs, ...).
#![allow(missing_docs, unused_variables, clippy::all, clippy::pedantic)]
use super::{Error, Fence, Resource};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::{path::PathBuf, time::Duration};

/// Where to look for the API server.
#[derive(Clone, Debug, Default)]
pub struct ConfigSource {
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`.
    pub context: Option<String>,
}
/// A resolved API server, its credentials and default namespace.
#[derive(Clone, Debug)]
pub struct Config {
    /// server URL
    pub server: String,
    /// default namespace of the context (or of the service account)
    pub namespace: String,
}
#[derive(Debug, thiserror::Error)]
#[error("config")]
pub struct ConfigError;
impl Config {
    /// --kubeconfig > KUBECONFIG > in-cluster (when the service account files and KUBERNETES_SERVICE_HOST exist) > ~/.kube/config
    pub async fn load(source: &ConfigSource) -> Result<Config, ConfigError> {
        todo!()
    }
}
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    pub qps: f64,
    pub burst: u32,
    pub max_in_flight: usize,
    pub deadline: Duration,
    pub user_agent: String,
}
#[derive(Clone)]
pub struct Client {}
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    pub limit: Option<u32>,
    pub continue_token: Option<String>,
    pub resource_version: Option<String>,
}
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    pub resource_version: Option<String>,
    pub send_initial_events: bool,
    pub timeout: Option<Duration>,
}
/// One page of a list; items undecoded.
pub struct ListPage {
    pub resource_version: String,
    pub continue_token: Option<String>,
    pub items: Vec<Box<RawValue>>,
}
/// A watch frame. `Status` is an ERROR event turned into the typed error.
pub enum WatchFrame {
    Added(Box<RawValue>),
    Modified(Box<RawValue>),
    Deleted(Box<RawValue>),
    Bookmark(Box<RawValue>),
    Error(Error),
}
pub struct WatchStream {}
impl WatchStream {
    /// None at a clean end of the stream. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<WatchFrame, Error>> {
        todo!()
    }
}
pub enum Patch<'a> {
    /// Server-side apply with field manager `mainstay`
    Apply {
        body: &'a serde_json::Value,
        force: bool,
    },
    Merge(&'a serde_json::Value),
    Json(&'a serde_json::Value),
}
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub grace_period: Option<Duration>,
    pub propagation: Option<&'static str>,
}
/// A raw request through the API server (the pod proxy), answered as a stream of chunks.
pub struct RawRequest {
    pub method: http::Method,
    pub path_and_query: String,
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    pub body: Bytes,
    /// deadline until the response head; None = client default
    pub deadline: Option<Duration>,
}
pub struct RawResponse {
    pub status: http::StatusCode,
    pub headers: http::HeaderMap,
    pub body: RawBody,
}
pub struct RawBody {}
impl RawBody {
    /// next chunk; None at the end
    pub async fn chunk(&mut self) -> Option<Result<Bytes, Error>> {
        todo!()
    }
    /// whole body, refused over `limit` bytes
    pub async fn collect(self, limit: usize) -> Result<Bytes, Error> {
        todo!()
    }
}
impl Client {
    pub fn new(config: Config, options: ClientOptions) -> Result<Client, ConfigError> {
        todo!()
    }
    /// The same client with its mutating requests behind `fence`.
    pub fn with_fence(&self, fence: Fence) -> Client {
        todo!()
    }
    /// The election lane: own connection, 5 s deadline, no shared limiter.
    pub fn election_lane(&self) -> Client {
        todo!()
    }
    pub fn namespace(&self) -> &str {
        todo!()
    }
    pub async fn get<T: DeserializeOwned>(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<T, Error> {
        todo!()
    }
    pub async fn list(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<ListPage, Error> {
        todo!()
    }
    pub async fn watch(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        options: &WatchOptions,
    ) -> Result<WatchStream, Error> {
        todo!()
    }
    pub async fn create<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        body: &B,
    ) -> Result<T, Error> {
        todo!()
    }
    /// PUT; the body carries the resourceVersion it was read at.
    pub async fn replace<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&str>,
        body: &B,
    ) -> Result<T, Error> {
        todo!()
    }
    pub async fn patch<T: DeserializeOwned>(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&str>,
        patch: Patch<'_>,
    ) -> Result<T, Error> {
        todo!()
    }
    pub async fn delete(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        todo!()
    }
    pub async fn raw(&self, request: RawRequest) -> Result<RawResponse, Error> {
        todo!()
    }
    /// GET /version: proves that server and credentials work.
    pub async fn server_version(&self) -> Result<String, Error> {
        todo!()
    }
}
