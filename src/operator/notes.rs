//! What is told to people: as Events of the cluster, and in the log.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::kinds::Cluster;
use super::metric::Moves;
use super::plan::{Note, Plan};
use crate::api::{MYSQL_CLUSTER, Phase};
use crate::runtime::{EventRecorder, EventType, ObjectKey, ObjectRef};

/// The same words about the same cluster are told again after this time.
const NOTE_INTERVAL: Duration = Duration::from_mins(10);

pub(super) struct Notes {
    events: EventRecorder,
    /// Counts what is told of them.
    moves: Moves,
    /// Told lately, to say each thing once. Bounded by [`NOTE_INTERVAL`].
    noted: Mutex<HashMap<(ObjectKey, String), Instant>>,
}

impl Notes {
    pub(super) fn new(events: EventRecorder, moves: Moves) -> Self {
        Self {
            events,
            moves,
            noted: Mutex::default(),
        }
    }

    /// Tells `notes`, and what is worth telling of a step that follows phase `before`.
    pub(super) fn publish(&self, cluster: &Cluster, before: Phase, step: &Plan, notes: &[Note]) {
        let meta = &cluster.metadata;
        let about = ObjectRef {
            resource: MYSQL_CLUSTER,
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: meta.uid.to_string(),
        };
        let phase = phase_note(before, step);
        for note in notes.iter().chain(&phase) {
            self.moves.happened(&meta.key(), note.reason);
            if self.is_news(&meta.key(), note) {
                tracing::info!(cluster = %meta.key(), reason = note.reason, "{}", note.text);
                self.events.publish(
                    &about,
                    note.kind,
                    note.reason,
                    "Reconcile",
                    note.text.clone(),
                );
            }
        }
    }

    /// The cluster is gone.
    pub(super) fn forget(&self, cluster: &ObjectKey) {
        self.moves.forget(cluster);
    }

    /// Said once in a while, however often it is so.
    fn is_news(&self, key: &ObjectKey, note: &Note) -> bool {
        let now = Instant::now();
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retain(|_, at| now.duration_since(*at) < NOTE_INTERVAL);
        let id = (key.clone(), format!("{} {}", note.reason, note.text));
        match note.reason {
            // These happen anew each time, in the same words.
            "Running"
            | "FailoverCompleted"
            | "SwitchoverCompleted"
            | "FailoverStarted"
            | "SwitchoverStarted" => true,
            _ => noted.insert(id, now).is_none(),
        }
    }
}

/// What a change of phase is worth telling.
fn phase_note(before: Phase, step: &Plan) -> Option<Note> {
    let after = step.status.phase;
    if before == after {
        return None;
    }
    let (kind, reason) = match after {
        Phase::Running => (EventType::Normal, "Running"),
        Phase::Degraded => (EventType::Warning, "Degraded"),
        Phase::Unavailable => (EventType::Warning, "Unavailable"),
        Phase::Offline => (EventType::Normal, "Offline"),
        Phase::Paused => (EventType::Normal, "Paused"),
        Phase::Pending | Phase::Bootstrapping | Phase::FailingOver | Phase::SwitchingOver => {
            return None;
        }
    };
    Some(Note {
        kind,
        reason,
        text: step.status.reason.clone(),
    })
}
