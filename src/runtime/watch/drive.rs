//! The loop: does what the machine says, and puts what comes into the store.

use std::collections::BTreeSet;
use std::time::Duration;

use metrics::Gauge;
use tokio::time::{Instant, sleep, timeout};

use super::decode::{self, Undecodable};
use super::machine::Machine;
use super::source::{Frames, PageRequest, Source, WatchRequest};
use super::status::Status;
use super::words::{Action, End, Failure};
use super::{Change, Handler};
use crate::client::{Decoded, Error, ListPage, WatchFrame};
use crate::runtime::metric;
use crate::runtime::store::{Part, Upsert};
use crate::runtime::time::unix_seconds;
use crate::runtime::{Kind, Meta, ObjectKey};

/// Runs the loop; never ends. Cancelled at any await it leaves the store consistent.
pub(super) async fn drive<K: Kind, S: Source>(
    mut machine: Machine,
    source: &S,
    part: Part<K>,
    handler: &Handler<K>,
    status: &Status,
) {
    let mut sink = Sink::new(part, handler, status);
    loop {
        let step = machine.step();
        status.tick();
        if !step.wait.is_zero() {
            tokio::select! {
                biased;
                () = sleep(step.wait) => {}
                () = source.back() => sleep(machine.back()).await,
            }
            status.tick();
        }
        match step.action {
            Action::List { begin, request } => {
                if let Some(reason) = begin {
                    sink.begin_list(reason);
                }
                list(source, request, &mut machine, &mut sink).await;
            }
            Action::Watch { begin, request } => {
                if let Some(reason) = begin {
                    sink.begin_list(reason);
                }
                watch(source, request, &mut machine, &mut sink).await;
            }
        }
    }
}

async fn list<K: Kind, S: Source>(
    source: &S,
    request: PageRequest,
    machine: &mut Machine,
    sink: &mut Sink<'_, K>,
) {
    match source.page::<K>(request).await {
        Ok(ListPage {
            resource_version,
            continue_token,
            items,
        }) => {
            for item in items {
                sink.listed(item);
            }
            sink.contact();
            if let Some(version) = machine.page(Instant::now(), resource_version, continue_token) {
                sink.complete_list(&version);
            }
        }
        Err(error) => {
            sink.failed("list", &error);
            machine.list_failed(Instant::now(), Failure::from(&error));
        }
    }
}

async fn watch<K: Kind, S: Source>(
    source: &S,
    request: WatchRequest,
    machine: &mut Machine,
    sink: &mut Sink<'_, K>,
) {
    let timeout = request.timeout;
    let asked = Instant::now();
    let mut count = 0;
    let (opened, end) = match source.watch(request).await {
        Ok(mut frames) => {
            sink.contact();
            let end = follow(&mut frames, timeout, machine, sink, &mut count).await;
            (true, end)
        }
        Err(error) => (false, sink.watch_failed(&error)),
    };
    count_end::<K>(end);
    let now = Instant::now();
    machine.watch_ended(now, now - asked, count, opened, end);
}

/// Reads a watch to its end, which its server makes after `lasts`.
async fn follow<K: Kind, F: Frames>(
    frames: &mut F,
    lasts: Duration,
    machine: &mut Machine,
    sink: &mut Sink<'_, K>,
    count: &mut u64,
) -> End {
    loop {
        let initial = machine.awaits_objects();
        let next = tokio::select! {
            biased;
            next = timeout(machine.silence(lasts), frames.next::<K>()) => next,
            // It says nothing of what has happened: its connection lives, and it does not.
            () = sink.store.doubted(), if !initial => return End::Silent,
        };
        let frame = match next {
            Err(_) => return End::Silent,
            Ok(None) => return End::Closed,
            Ok(Some(Err(error) | Ok(WatchFrame::Error(error)))) => {
                return sink.watch_failed(&error);
            }
            Ok(Some(Ok(frame))) => frame,
        };
        *count += 1;
        let now = Instant::now();
        match &frame {
            WatchFrame::Bookmark(raw) if initial => {
                // The first bookmark is the one that ends the objects, or it never comes.
                let Some(version) = decode::end_of_objects(raw) else {
                    return End::Silent;
                };
                machine.streamed(now, &version);
                sink.complete_list(&version);
            }
            _ => {
                let version = sink.frame(frame);
                // Of the first objects each has a version of its own, in no order.
                if !initial {
                    sink.store.reached(&version);
                }
                machine.frame(now, &version);
            }
        }
        sink.contact();
    }
}

/// Where pages and frames go: the store, the handler, metrics and the log.
struct Sink<'a, K> {
    store: Part<K>,
    handler: &'a Handler<K>,
    status: &'a Status,
    last_contact: Gauge,
    quarantined: Gauge,
    /// What this loop has added to `quarantined`, which others of its kind share.
    counted: usize,
    /// Undecodable objects of the current list: they exist.
    odd: BTreeSet<ObjectKey>,
}

impl<'a, K: Kind> Sink<'a, K> {
    fn new(store: Part<K>, handler: &'a Handler<K>, status: &'a Status) -> Self {
        let kind = K::RESOURCE.plural;
        metric::begin_watch(kind);
        Self {
            store,
            handler,
            status,
            last_contact: metrics::gauge!(metric::WATCH_LAST_CONTACT, "kind" => kind),
            quarantined: metrics::gauge!(metric::WATCH_QUARANTINED, "kind" => kind),
            counted: 0,
            odd: BTreeSet::new(),
        }
    }

    fn count_quarantined(&mut self) {
        let count = self.status.quarantined();
        self.quarantined
            .increment(count as f64 - self.counted as f64);
        self.counted = count;
    }

    fn begin_list(&mut self, reason: &'static str) {
        let kind = K::RESOURCE.plural;
        tracing::debug!(kind, reason, "listing");
        metrics::counter!(metric::WATCH_LISTS, "kind" => kind, "reason" => reason).increment(1);
        self.odd.clear();
        self.store.begin_list();
    }

    fn listed(&mut self, object: Decoded<K>) {
        match object {
            Ok(object) => self.apply(object),
            Err(undecoded) => self.undecodable(&decode::undecodable::<K>(&undecoded)),
        }
    }

    fn complete_list(&mut self, version: &str) {
        for last in self.store.sweep() {
            (self.handler)(Change::Deleted { last });
        }
        let odd = std::mem::take(&mut self.odd);
        self.status.retain_quarantined(|key| odd.contains(key));
        self.count_quarantined();
        self.store.reached(version);
        self.store.mark_synced();
        self.status.synced();
        self.contact();
        tracing::debug!(
            kind = K::RESOURCE.plural,
            objects = self.store.len(),
            version,
            "listed"
        );
    }

    /// Takes a frame in. Returns its version, which the collection is at with it once the first objects
    /// are complete; empty if unknown.
    fn frame(&mut self, frame: WatchFrame<K>) -> String {
        let (kind, version) = match frame {
            WatchFrame::Added(object) => ("added", self.changed(object)),
            WatchFrame::Modified(object) => ("modified", self.changed(object)),
            WatchFrame::Deleted(object) => ("deleted", self.deleted(object)),
            WatchFrame::Bookmark(raw) => {
                let meta = decode::metadata(&raw).unwrap_or_default();
                ("bookmark", meta.resource_version.to_string())
            }
            // Told apart by the caller.
            WatchFrame::Error(_) => ("error", String::new()),
        };
        let plural = K::RESOURCE.plural;
        metrics::counter!(metric::WATCH_EVENTS, "kind" => plural, "type" => kind).increment(1);
        version
    }

    fn changed(&mut self, object: Decoded<K>) -> String {
        match object {
            Ok(object) => {
                let version = object.meta().resource_version.to_string();
                self.apply(object);
                version
            }
            Err(undecoded) => {
                let error = decode::undecodable::<K>(&undecoded);
                self.undecodable(&error);
                error.resource_version().to_owned()
            }
        }
    }

    /// For a deletion the metadata is enough.
    fn deleted(&mut self, object: Decoded<K>) -> String {
        let undecoded = match object {
            Ok(object) => return self.gone(object.meta()),
            Err(undecoded) => undecoded,
        };
        if let Some(meta) = decode::metadata(&undecoded.raw) {
            return self.gone(&meta);
        }
        self.undecodable(&Undecodable {
            meta: None,
            message: "a deleted object without readable metadata".to_owned(),
        });
        String::new()
    }

    fn gone(&mut self, meta: &Meta) -> String {
        let key = meta.key();
        self.heal(&key);
        if let Some(last) = self.store.remove(&key, Some(&meta.uid)) {
            (self.handler)(Change::Deleted { last });
        }
        meta.resource_version.to_string()
    }

    fn apply(&mut self, object: K) {
        if self.status.quarantined() > 0 {
            self.heal(&object.meta().key());
        }
        match self.store.apply(object) {
            Upsert::Unchanged => {}
            Upsert::Applied { old, new } => (self.handler)(Change::Applied { old, new }),
            Upsert::Replaced { last, new } => {
                (self.handler)(Change::Deleted { last });
                (self.handler)(Change::Applied { old: None, new });
            }
        }
    }

    /// What the store holds of it stays: an older state is better than none.
    fn undecodable(&mut self, error: &Undecodable) {
        let kind = K::RESOURCE.plural;
        metrics::counter!(metric::WATCH_DECODE_ERRORS, "kind" => kind).increment(1);
        let key = error.key();
        if let Some(key) = &key {
            self.store.touch(key);
            self.odd.insert(key.clone());
            if !self.status.quarantine(key.clone(), &error.message) {
                return;
            }
            self.count_quarantined();
        }
        tracing::warn!(
            gvk = format_args!("{}/{}", K::RESOURCE.api_version(), K::RESOURCE.kind),
            key = key.map_or_else(|| "unknown".to_owned(), |key| key.to_string()),
            resource_version = error.resource_version(),
            error = error.message,
            "an object can't be decoded; others go on"
        );
    }

    fn heal(&mut self, key: &ObjectKey) {
        if self.status.heal(key) {
            self.count_quarantined();
            tracing::info!(kind = K::RESOURCE.kind, %key, "the object can be decoded again, or is gone");
        }
    }

    fn contact(&self) {
        let oldest = self.status.contact(self.store.len(), unix_seconds());
        self.last_contact.set(oldest);
    }

    fn watch_failed(&self, error: &Error) -> End {
        let failure = Failure::from(error);
        // An expired version is routine: a list follows.
        if failure != Failure::Expired {
            self.failed("watch", error);
        }
        End::Failed(failure)
    }

    /// Logged once per kind of trouble, not per attempt.
    fn failed(&self, verb: &'static str, error: &Error) {
        if self.status.failed(error) {
            tracing::warn!(kind = K::RESOURCE.plural, verb, %error, "list-watch fails; trying again");
        }
    }
}

fn count_end<K: Kind>(end: End) {
    let reason = match end {
        End::Closed => "closed",
        End::Silent => "silent",
        End::Failed(Failure::Expired) => "expired",
        End::Failed(_) => "failed",
    };
    let kind = K::RESOURCE.plural;
    metrics::counter!(metric::WATCH_ENDS, "kind" => kind, "reason" => reason).increment(1);
    tracing::debug!(kind, reason, "watch ended");
}

#[cfg(test)]
#[path = "drive_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "namespaces_tests.rs"]
mod namespaces_tests;

#[cfg(test)]
#[path = "stream_tests.rs"]
mod stream_tests;
