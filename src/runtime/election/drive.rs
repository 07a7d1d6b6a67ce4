//! The elector's I/O: sends what the machine asks for, and tells everyone what it decides.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sync::watch;
use metrics::Gauge;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};

use super::machine::{Machine, Request};
use super::record::Lease;
use super::{
    ElectionOptions, Leadership, LeadershipWatch, LegacyLock, Published, holder, legacy, publish,
};
use crate::client::{Client, Environment, Error, Fence, FenceKeeper, LEASE, POD};
use crate::runtime::Shutdown;
use crate::runtime::metric;
use crate::runtime::time::micro_time;

/// The longest a request for the lease may take; less where the renew deadline is short.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// How often a release is tried: a renewal that was in flight may land in between.
const RELEASE_ATTEMPTS: u32 = 3;
/// The longest pause of a live elector is a request plus an interval; this is far more.
const STUCK_AFTER: Duration = Duration::from_mins(1);

/// The Lease at an API server. Tests fake it.
pub(super) trait LeaseApi: Send + Sync {
    fn send(&self, request: &Request) -> impl Future<Output = Result<Lease, Error>> + Send;

    /// The object of the former version's lock, if it exists.
    fn legacy(
        &self,
        lock: &LegacyLock,
    ) -> impl Future<Output = Result<Option<Value>, Error>> + Send;

    /// Whether the process of that identity is proven to have ended.
    fn has_ended(&self, holder: &str) -> impl Future<Output = bool> + Send;
}

/// The Lease behind the client.
pub(super) struct Remote {
    client: Client,
    namespace: String,
    name: String,
    pod_namespace: String,
}

impl Remote {
    pub(super) fn new(client: Client, options: &ElectionOptions) -> Self {
        Self {
            client,
            namespace: options.namespace.clone(),
            name: options.name.clone(),
            pod_namespace: options.pod_namespace.clone(),
        }
    }
}

impl LeaseApi for Remote {
    async fn send(&self, request: &Request) -> Result<Lease, Error> {
        let namespace = Some(self.namespace.as_str());
        match request {
            Request::Get => self.client.get(LEASE, namespace, &self.name).await,
            Request::Create(lease) => self.client.create(LEASE, namespace, lease).await,
            Request::Update(lease) => {
                self.client
                    .replace(LEASE, namespace, &self.name, None, lease)
                    .await
            }
        }
    }

    async fn legacy(&self, lock: &LegacyLock) -> Result<Option<Value>, Error> {
        let namespace = Some(self.namespace.as_str());
        match self.client.get(lock.resource, namespace, &lock.name).await {
            Err(error) if error.is_not_found() => Ok(None),
            read => read.map(Some),
        }
    }

    async fn has_ended(&self, holder: &str) -> bool {
        let Some((pod, uid)) = holder::pod(holder) else {
            return false;
        };
        let namespace = Some(self.pod_namespace.as_str());
        match self.client.get(POD, namespace, pod).await {
            Ok(pod) => holder::has_ended(&pod, uid),
            Err(error) => {
                tracing::debug!(holder, %error, "it can't be seen whether the leader has ended");
                false
            }
        }
    }
}

/// Where the elector reports.
pub(super) struct Desk {
    fence: FenceKeeper,
    readers: watch::Sender<Published>,
    raise: watch::Receiver<u64>,
    pub(super) status: Arc<Status>,
    leader: Gauge,
    term: Gauge,
}

impl Desk {
    pub(super) fn new() -> (Self, LeadershipWatch, Fence) {
        let (keeper, fence) = FenceKeeper::new();
        let (readers, published) = watch::channel(Published::START);
        let (raise, raised) = watch::channel(0);
        let desk = Self {
            fence: keeper,
            readers,
            raise: raised,
            status: Arc::new(Status::new()),
            leader: metrics::gauge!(metric::LEADER),
            term: metrics::gauge!(metric::LEADER_TERM),
        };
        (desk, LeadershipWatch { published, raise }, fence)
    }

    /// What readers see.
    pub(super) fn published(&self) -> watch::Receiver<Published> {
        self.readers.subscribe()
    }

    fn tell(&self, machine: &Machine) {
        self.status.tick();
        if !publish(machine, &self.fence, &self.readers) {
            return;
        }
        let leadership = machine.leadership();
        let term = match leadership {
            Leadership::Leader { term } => term,
            Leadership::Unknown | Leadership::Standby { .. } => 0,
        };
        metric::leadership_changed(&self.leader, &self.term, term);
        tracing::info!(%leadership, "leadership changed");
        self.status.leadership(leadership);
    }
}

/// Campaigns until shutdown, then releases.
pub(super) async fn run<A: LeaseApi>(
    api: &A,
    mut machine: Machine,
    options: &ElectionOptions,
    environment: &Environment,
    mut desk: Desk,
    shutdown: &Shutdown,
) {
    let limit = REQUEST_LIMIT.min(options.renew_deadline / 2);
    desk.leader.set(0.0);
    desk.term.set(0.0);
    tokio::select! {
        biased;
        () = shutdown.triggered() => {}
        () = campaign(api, &mut machine, options, environment, &mut desk, limit) => {}
    }
    let release = machine.stop();
    desk.tell(&machine);
    if release
        && timeout(
            REQUEST_LIMIT,
            give_up(api, &mut machine, environment, limit),
        )
        .await
        .is_err()
    {
        tracing::warn!("the lease could not be released in time; it expires by itself");
    }
}

/// Never ends.
async fn campaign<A: LeaseApi>(
    api: &A,
    machine: &mut Machine,
    options: &ElectionOptions,
    environment: &Environment,
    desk: &mut Desk,
    limit: Duration,
) {
    let mut former = legacy::Seen::default();
    loop {
        machine.expire(Instant::now());
        desk.tell(machine);
        let wall = micro_time(environment.now());
        let Some(request) = machine.request(Instant::now(), &wall) else {
            tokio::select! {
                biased;
                () = sleep_until(machine.next_wake()) => {}
                // The sending side lives as long as anyone who could raise.
                Ok(()) = desk.raise.changed() => {
                    let term = *desk.raise.borrow_and_update();
                    machine.raise(Instant::now(), term);
                }
            }
            continue;
        };
        if let Some(lock) = options
            .migrate_from
            .as_ref()
            .filter(|_| machine.takes(&request))
        {
            let read = timeout(limit, api.legacy(lock)).await;
            let holder = match read {
                Ok(Ok(object)) => {
                    former.holder(Instant::now(), object.as_ref(), options.lease_duration)
                }
                // It is not known to be free.
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("no answer within {limit:?}")),
            };
            if let Some(holder) = holder {
                desk.status.held_back(&format!("{lock}: {holder}"));
                machine.hold_back(Instant::now());
                continue;
            }
        }
        // Before the request leaves: leadership is counted from here.
        let sent = Instant::now();
        let call = send(api, &request, limit);
        tokio::pin!(call);
        let answer = loop {
            let demote = machine.demote_at();
            tokio::select! {
                biased;
                answer = &mut call => break answer,
                () = until(demote) => {
                    machine.expire(Instant::now());
                    desk.tell(machine);
                }
            }
        };
        desk.status.answered(answer.as_ref().err());
        machine.answer(Instant::now(), sent, &request, answer);
        if let Some(record) = machine.suspect(Instant::now()).cloned() {
            // Expiry is not to be missed for it.
            let looking = timeout(options.renew_interval, api.has_ended(record.holder()));
            if looking.await.unwrap_or(false) {
                tracing::info!(holder = record.holder(), "the leader has ended");
                machine.ended(Instant::now(), &record);
            }
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Hands the lease over, if it is ours: the record is read first, because a write that was in
/// flight may have changed it.
async fn give_up<A: LeaseApi>(
    api: &A,
    machine: &mut Machine,
    environment: &Environment,
    limit: Duration,
) {
    for _ in 0..RELEASE_ATTEMPTS {
        let sent = Instant::now();
        let answer = send(api, &Request::Get, limit).await;
        machine.answer(Instant::now(), sent, &Request::Get, answer);
        let Some(release) = machine.release(&micro_time(environment.now())) else {
            return;
        };
        match send(api, &release, limit).await {
            Ok(_) => {
                tracing::info!("released the lease");
                return;
            }
            Err(error) => tracing::debug!(%error, "the lease is not released yet"),
        }
    }
}

async fn send<A: LeaseApi>(api: &A, request: &Request, limit: Duration) -> Result<Lease, Error> {
    let verb = request.verb();
    let sent = Instant::now();
    let answer = timeout(limit, api.send(request)).await.unwrap_or_else(|_| {
        Err(Error::Timeout {
            what: format!("{verb} lease"),
            after: limit,
        })
    });
    let result = if answer.is_ok() { "ok" } else { "error" };
    metrics::counter!(metric::LEASE_REQUESTS, "verb" => verb, "result" => result).increment(1);
    metrics::histogram!(metric::LEASE_REQUEST_DURATION, "verb" => verb)
        .record(sent.elapsed().as_secs_f64());
    answer
}

/// How the elector does, for probes and the log.
pub(super) struct Status {
    inner: Mutex<Inner>,
}

struct Inner {
    tick: Instant,
    leadership: Leadership,
    error: Option<String>,
}

impl Status {
    fn new() -> Self {
        Self {
            inner: Mutex::new(Inner {
                tick: Instant::now(),
                leadership: Leadership::Unknown,
                error: None,
            }),
        }
    }

    fn tick(&self) {
        self.lock().tick = Instant::now();
    }

    fn leadership(&self, leadership: Leadership) {
        self.lock().leadership = leadership;
    }

    /// Notes that the former version's lock is held. Logged when it is by another than before.
    fn held_back(&self, by: &str) {
        let error = Some(format!("the former version's lock is held: {by}"));
        let mut inner = self.lock();
        if inner.error != error {
            tracing::info!(
                by,
                "the former version's lock is held; not taking the lease"
            );
            inner.error = error;
        }
    }

    /// Notes the answer's error. Lost races are none. Logged when it is another than before.
    fn answered(&self, error: Option<&Error>) {
        let routine = |error: &&Error| {
            !matches!(error, Error::Conflict { .. } | Error::AlreadyExists { .. })
                && !error.is_not_found()
        };
        let error = error.filter(routine).map(ToString::to_string);
        let mut inner = self.lock();
        if inner.error == error {
            return;
        }
        if let Some(error) = &error {
            tracing::warn!(error, "the lease can't be read or written");
        } else {
            tracing::info!("the lease can be read and written again");
        }
        inner.error = error;
    }

    /// Ready: it is known who leads.
    pub(super) fn readiness(&self) -> Result<String, String> {
        let inner = self.lock();
        let error = inner
            .error
            .as_ref()
            .map_or_else(String::new, |error| format!(": {error}"));
        match &inner.leadership {
            Leadership::Unknown => Err(format!("{}{error}", inner.leadership)),
            known => Ok(format!("{known}{error}")),
        }
    }

    /// For people.
    pub(super) fn debug(&self) -> Value {
        let inner = self.lock();
        let idle = Instant::now().saturating_duration_since(inner.tick);
        json!({"lastActivitySeconds": idle.as_secs_f64(), "error": inner.error})
    }

    /// Alive: the elector does something, be it in vain.
    pub(super) fn liveness(&self) -> Result<String, String> {
        let idle = Instant::now().saturating_duration_since(self.lock().tick);
        if idle > STUCK_AFTER {
            Err(format!("the elector has done nothing for {idle:.0?}"))
        } else {
            Ok(format!("active {idle:.0?} ago"))
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "drive_tests.rs"]
mod tests;
