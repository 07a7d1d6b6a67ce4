//! Which data a replica can go on from, and whom it is seeded by otherwise.

use super::Record;
use super::view::{Instance, Up, View};
use crate::mysql::GtidSet;

/// An empty replica that is more transactions behind than this is seeded by clone; up to it,
/// replaying the source's binary logs is quicker than a clone's restart.
const REPLAY_LIMIT: u64 = 1000;

/// What one replica needs.
pub(super) enum Need {
    Nothing,
    Follow,
    /// Its data can't be continued from: why.
    Reseed(String),
}

/// What a replica needs to follow `source` at `host`.
pub(super) fn need(
    replica: &Instance<'_>,
    up: &Up<'_>,
    source: &Up<'_>,
    host: &str,
    acknowledge: bool,
) -> Need {
    if replica.is_errant() {
        let own = replica
            .suspicion()
            .map(|s| s.transactions.to_string())
            .unwrap_or_default();
        return Need::Reseed(format!(
            "it has transactions that no client was told of: {own}"
        ));
    }
    if up.replicates_from(host) {
        return if up.server.semi_sync_replica == acknowledge {
            Need::Nothing
        } else {
            Need::Follow
        };
    }
    if replica.suspicion().is_some() {
        return Need::Nothing; // not before it is clear
    }
    // moco#731: the source no longer has what this replica would ask for.
    let purged = source.purged.subtract(&up.held);
    if !purged.is_empty() {
        return Need::Reseed(format!("the binary logs it needs are purged: {purged}"));
    }
    if up.held.is_empty() && (source.executed.count() > REPLAY_LIMIT || !before(source).is_empty())
    {
        return Need::Reseed("it is empty".into());
    }
    Need::Follow
}

/// What the source has of primaries before it. An instance that lost its volume may have been one of
/// them, and has its old `server_id` still: replaying, MySQL leaves out what a server of that number
/// wrote. A clone leaves nothing out.
fn before(source: &Up<'_>) -> GtidSet {
    let own = source.executed.of(&source.server.server_uuid);
    source.executed.subtract(&own)
}

/// A replica to clone from, to spare the primary; `None` for the primary. Never one that has less
/// of the history than the instance that is seeded (mariadb#1108), nor one that would leave it to
/// replay what a primary before wrote.
pub(super) fn donor<'v, 'a>(
    view: &'v View<'a>,
    record: &Record,
    seeded: &Up<'_>,
) -> Option<&'v Instance<'a>> {
    let primary = view.named(record.current.as_deref()?)?;
    let host = view.host(&primary.name);
    let before = before(primary.up.as_ref()?);
    view.up()
        .filter(|(i, up)| {
            up.replicates_from(&host)
                && !i.leaving()
                && i.suspicion().is_none()
                && i.ordinal < view.wanted
                && up.server.semi_sync_replica
                && up.executed.count() >= seeded.executed.count()
                && before.is_subset_of(&up.executed)
        })
        .max_by_key(|(i, up)| (up.executed.count(), std::cmp::Reverse(i.ordinal)))
        .map(|(i, _)| i)
}
