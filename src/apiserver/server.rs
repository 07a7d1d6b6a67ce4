//! The server: a state behind a lock, and what is around it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use super::ApiError;
use super::audit::{Audit, AuditEvent};
use super::faults::Faults;
use super::http;
use super::options::{ApiServerOptions, Client};
use super::pods::PodDial;
use super::request::{Options, Request, Target, Verb};
use super::state::{Answer, Context, Conversions, Halt, State};
use super::webhook::{self, Webhooks};

/// Namespaces that every cluster has.
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];
/// Objects that the garbage collector looks at before it lets others have the lock.
const TIDY_STEP: usize = 64;
/// Longest chain of conversions that one write may need.
const CONVERSION_ROUNDS: usize = 16;

/// A Kubernetes API server in memory. Clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

struct Shared {
    options: ApiServerOptions,
    /// Who may come in now.
    tokens: RwLock<Arc<BTreeMap<String, Client>>>,
    /// Never held across an await.
    state: RwLock<State>,
    faults: Faults,
    audit: Audit,
    writes: AtomicU64,
    requests: AtomicU64,
    /// Whether a task cleans up at the moment.
    tidying: AtomicBool,
    dialer: RwLock<Option<Arc<dyn PodDial>>>,
    webhooks: Webhooks,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl ApiServer {
    /// A server that has nothing yet but what every cluster has. It listens nowhere.
    #[must_use]
    pub fn new(options: ApiServerOptions) -> Self {
        let state = State::new(options.seed, options.history);
        let server = Self {
            shared: Arc::new(Shared {
                state: RwLock::new(state),
                faults: Faults::new(options.seed),
                audit: Audit::new(options.audit),
                writes: AtomicU64::new(0),
                requests: AtomicU64::new(0),
                tidying: AtomicBool::new(false),
                dialer: RwLock::default(),
                webhooks: Webhooks::default(),
                tokens: RwLock::new(Arc::new(options.tokens.clone())),
                options,
            }),
        };
        if server.shared.options.bootstrap {
            server.bootstrap();
        }
        server
    }

    /// Serves one connection, HTTP/1.1 or 2, until it ends.
    pub async fn serve_stream<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        http::connection(self, stream).await;
    }

    /// Serves a listener until `stop`. Connections that are open then are given up.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        stop: impl Future<Output = ()>,
    ) {
        http::listen(self, listener, tls, stop).await;
    }

    /// Faults to inject.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Lets in only who has one of these tokens from now on, as when others have expired; with none of
    /// them, everybody.
    pub fn set_tokens(&self, tokens: BTreeMap<String, Client>) {
        let mut current = self
            .shared
            .tokens
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(tokens);
    }

    pub(super) fn tokens(&self) -> Arc<BTreeMap<String, Client>> {
        let tokens = self.shared.tokens.read();
        Arc::clone(&tokens.unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets how pods are reached.
    pub fn set_pod_dialer(&self, dialer: Arc<dyn PodDial>) {
        *self
            .shared
            .dialer
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(dialer);
    }

    /// Sets how conversion webhooks are reached, in place of TCP and the cluster's DNS names.
    pub fn set_webhook_dialer(&self, dialer: Arc<dyn webhook::WebhookDial>) {
        self.shared.webhooks.set_dialer(dialer);
    }

    /// Writes so far that changed something, the server's own cleaning up left aside.
    #[must_use]
    pub fn write_count(&self) -> u64 {
        self.shared.writes.load(Ordering::Relaxed)
    }

    /// Requests for resources so far.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// The log of requests from number `since` on, as far back as it goes.
    #[must_use]
    pub fn audit(&self, since: u64) -> Vec<AuditEvent> {
        self.shared.audit.since(since)
    }

    /// The last resource version that was given out.
    #[must_use]
    pub fn resource_version(&self) -> u64 {
        self.state().version()
    }

    /// How many objects there are of each resource that has any, such as `pods`, and their bytes.
    #[must_use]
    pub fn sizes(&self) -> BTreeMap<String, (usize, usize)> {
        self.state()
            .storages()
            .filter(|storage| storage.len() > 0)
            .map(|storage| (storage.name.to_string(), (storage.len(), storage.bytes())))
            .collect()
    }

    /// All objects of a resource, such as `pods`, as they are stored, without a request. For tests and
    /// screens that look at the truth while faults lie to clients.
    #[must_use]
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        let state = self.state();
        let entries: Vec<_> = state
            .storage(resource)
            .map(|storage| storage.objects(None).cloned().collect())
            .unwrap_or_default();
        drop(state);
        entries.iter().map(|entry| entry.value()).collect()
    }

    /// Forgets the history: watches and lists of the past get 410, as after etcd's compaction.
    pub fn compact(&self) {
        self.state_mut().compact();
    }

    pub(super) fn options(&self) -> &ApiServerOptions {
        &self.shared.options
    }

    pub(super) fn dialer(&self) -> Option<Arc<dyn PodDial>> {
        self.shared
            .dialer
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// A pod behind a Service: its name, its address and the port that `port` leads to.
    pub(super) fn backend(
        &self,
        namespace: &str,
        service: &str,
        port: u16,
    ) -> Option<(String, String, u16)> {
        self.state().backend(namespace, service, port)
    }

    pub(super) fn webhooks(&self) -> &Webhooks {
        &self.shared.webhooks
    }

    pub(super) fn count_request(&self) {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn record(&self, event: AuditEvent) {
        self.shared.audit.record(event);
    }

    pub(super) fn now(&self) -> jiff::Timestamp {
        (self.shared.options.clock)()
    }

    pub(super) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.shared
            .state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.shared
            .state
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a write; also says whether it changed anything.
    pub(super) async fn write(&self, request: &Request) -> Result<(Answer, bool), ApiError> {
        let now = self.now();
        let mut known = Conversions::default();
        for _ in 0..CONVERSION_ROUNDS {
            let (outcome, wrote, untidy) = {
                let mut state = self.state_mut();
                let before = state.version();
                let outcome = state.write(
                    request,
                    Context {
                        now,
                        conversions: &known,
                    },
                );
                (outcome, state.version() != before, state.untidy())
            };
            if untidy {
                self.tidy();
            }
            match outcome {
                Ok(answer) => {
                    self.shared
                        .writes
                        .fetch_add(u64::from(wrote), Ordering::Relaxed);
                    return Ok((answer, wrote));
                }
                Err(Halt::Refused(error)) => return Err(error),
                Err(Halt::Convert(need)) => {
                    let objects = vec![need.object.clone()];
                    let converted =
                        webhook::convert(self, objects, &need.desired, &need.webhook).await?;
                    for converted in converted {
                        known.learn(&need, converted);
                    }
                }
            }
        }
        Err(ApiError::internal("conversion does not come to an end"))
    }

    /// Sees to it that a task cleans up.
    fn tidy(&self) {
        if !self.shared.options.garbage_collector
            || self.shared.tidying.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let server = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::task::yield_now().await;
                let known = Conversions::default();
                let context = Context {
                    now: server.now(),
                    conversions: &known,
                };
                let mut state = server.state_mut();
                state.tidy(context, TIDY_STEP);
                if !state.untidy() {
                    // Still under the lock, so that no write is missed.
                    server.shared.tidying.store(false, Ordering::Release);
                    return;
                }
            }
        });
    }

    fn bootstrap(&self) {
        let known = Conversions::default();
        let context = Context {
            now: self.now(),
            conversions: &known,
        };
        let mut state = self.state_mut();
        let mut create = |resource: &str, namespace: Option<&str>, body: Value| {
            let request = Request {
                verb: Verb::Create,
                target: Target {
                    version: "v1".to_owned(),
                    resource: resource.to_owned(),
                    namespace: namespace.map(str::to_owned),
                    ..Target::default()
                },
                options: Options::default(),
                body,
                duplicates: Vec::new(),
                agent: "kube-apiserver".to_owned(),
            };
            state
                .write(&request, context)
                .expect("what every cluster has is valid");
        };
        for name in NAMESPACES {
            create("namespaces", None, json!({"metadata": {"name": name}}));
        }
        for name in NAMESPACES {
            create(
                "serviceaccounts",
                Some(name),
                json!({"metadata": {"name": "default"}}),
            );
        }
        let service = json!({
            "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
        });
        create("services", Some("default"), service);
    }
}
