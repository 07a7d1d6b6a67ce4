//! Watches: a place in the history, and what is sent from there.
//!
//! A watch is pulled: it takes what it can send, whenever it can send. What it has not taken stays in
//! the bounded history of its resource, and a watch that falls behind that ends.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Notify;

use super::read::{parse_version, prefix};
use super::selector::{Fields, Labels};
use super::storage::Event;
use super::{Entry, Served, State};
use crate::apiserver::request::Request;
use crate::apiserver::{ApiError, Cause};

/// What a frame says of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Added,
    Modified,
    Deleted,
}

impl FrameKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One thing that a watch sends.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    /// An object, as it is said to be.
    Object(FrameKind, Arc<Entry>),
    /// All up to this version was sent; `initial` ends the initial events.
    Bookmark { rv: u64, initial: bool },
}

/// An open watch.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) served: Arc<Served>,
    pub(crate) allow_bookmarks: bool,
    labels: Labels,
    fields: Fields,
    prefix: String,
    /// What existed at first, still to be sent.
    initial: VecDeque<Arc<Entry>>,
    /// Whether the end of the initial events is still to be marked.
    mark: bool,
    /// Everything up to this version was taken.
    cursor: u64,
    changed: Arc<Notify>,
}

/// Why a watch has to end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WatchEnd {
    /// What it has not yet taken is forgotten.
    Behind,
    /// The resource is no longer served.
    Gone,
}

impl State {
    /// Opens a watch.
    ///
    /// # Errors
    /// 410 where its version is forgotten.
    pub(crate) fn watch(&self, request: &Request) -> Result<Watch, ApiError> {
        let served = self.resolve(request)?;
        let options = &request.options;
        check(request)?;
        let (labels, fields) = self.selectors(&served, options)?;
        let storage = self.storage_of(&served);
        let prefix = prefix(request, &fields);
        let rv = match options.resource_version.as_str() {
            "" => None,
            rv => Some(parse_version(rv)?),
        };
        let initial = options
            .send_initial_events
            .unwrap_or(rv.is_none_or(|rv| rv == 0));
        if initial {
            self.not_in_future(&options.resource_version)?;
        }
        let cursor = match rv {
            Some(rv) if rv > 0 && !initial => rv,
            _ => self.version,
        };
        if cursor < self.version {
            storage.remembers(cursor)?;
        }
        let mut watch = Watch {
            allow_bookmarks: options.allow_bookmarks,
            labels,
            fields,
            prefix,
            initial: VecDeque::new(),
            mark: initial && options.allow_bookmarks,
            cursor,
            changed: storage.changed(),
            served: Arc::clone(&served),
        };
        if initial {
            let entries = storage.range_at(&watch.prefix, "", self.version)?;
            watch.initial = entries
                .into_iter()
                .filter(|entry| watch.selects(entry))
                .cloned()
                .collect();
        }
        Ok(watch)
    }

    /// Takes up to about `limit` frames; none when there is nothing new.
    pub(crate) fn advance(&self, watch: &mut Watch, limit: usize) -> Result<Vec<Frame>, WatchEnd> {
        let mut frames = Vec::new();
        while frames.len() < limit
            && let Some(entry) = watch.initial.pop_front()
        {
            frames.push(Frame::Object(FrameKind::Added, entry));
        }
        if !watch.initial.is_empty() {
            return Ok(frames);
        }
        if watch.mark {
            watch.mark = false;
            frames.push(Frame::Bookmark {
                rv: watch.cursor,
                initial: true,
            });
        }
        let storage = self
            .storage(&watch.served.storage)
            .filter(|storage| Arc::ptr_eq(&storage.changed(), &watch.changed))
            .ok_or(WatchEnd::Gone)?;
        if watch.cursor >= self.version {
            return Ok(frames);
        }
        for event in storage.since(watch.cursor).map_err(|_| WatchEnd::Behind)? {
            if frames.len() >= limit {
                return Ok(frames);
            }
            frames.extend(watch.frame(event));
            watch.cursor = event.rv;
        }
        watch.cursor = self.version;
        Ok(frames)
    }
}

impl Watch {
    /// What wakes it.
    pub(crate) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// The version up to which everything was sent.
    pub(crate) fn version(&self) -> u64 {
        self.cursor
    }

    fn selects(&self, entry: &Entry) -> bool {
        entry.key.starts_with(&self.prefix)
            && self.labels.matches(entry)
            && self.fields.matches(entry)
    }

    /// What this watch is told of a change: an object that leaves its selection is gone for it.
    fn frame(&self, event: &Event) -> Option<Frame> {
        let old = event.old.as_ref().filter(|entry| self.selects(entry));
        let new = event.new.as_ref().filter(|entry| self.selects(entry));
        Some(match (old, new) {
            (None, None) => return None,
            (None, Some(new)) => Frame::Object(FrameKind::Added, Arc::clone(new)),
            (Some(_), Some(new)) => Frame::Object(FrameKind::Modified, Arc::clone(new)),
            (Some(old), None) => Frame::Object(FrameKind::Deleted, Arc::new(old.at(event.rv))),
        })
    }
}

fn check(request: &Request) -> Result<(), ApiError> {
    let options = &request.options;
    let matching = options.resource_version_match.as_str();
    let path = "resourceVersionMatch";
    let mut causes = Vec::new();
    if options.send_initial_events.is_some() && matching != "NotOlderThan" {
        causes.push(Cause::forbidden(
            path,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if !matching.is_empty() {
        if options.send_initial_events.is_none() {
            causes.push(Cause::forbidden(
                path,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if matching != "NotOlderThan" {
            causes.push(Cause::not_supported(
                path,
                &matching.into(),
                &["NotOlderThan"],
            ));
        }
    }
    if !options.continue_token.is_empty() {
        causes.push(Cause::forbidden(
            path,
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &causes))
}
