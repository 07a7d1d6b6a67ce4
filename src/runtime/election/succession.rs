//! Before a lease is taken: whether its holder, or one of a former version, is still there.

use tokio::time::Instant;

use super::super::record::Record;
use super::{Machine, Request, Seen};

/// A leader that has missed so many renewals, or renews that much more rarely, is asked after.
const LATE: u32 = 3;

impl Machine {
    /// Whether `request` takes the lease, rather than looks at it or renews it.
    pub(in crate::runtime::election) fn takes(&self, request: &Request) -> bool {
        let renews = self.missing.is_none()
            && self
                .seen
                .as_ref()
                .is_some_and(|seen| self.is_ours(&seen.lease.spec));
        *request != Request::Get && !renews
    }

    /// Does not send the request that takes the lease, and looks again later.
    pub(in crate::runtime::election) fn hold_back(&mut self, now: Instant) {
        self.look = true;
        self.next = self.later(now);
    }

    /// The holder that has not renewed for long enough to ask whether it has ended.
    pub(in crate::runtime::election) fn suspect(&self, now: Instant) -> Option<&Record> {
        let seen = self.seen.as_ref().filter(|_| self.missing.is_none())?;
        let record = &seen.lease.spec;
        let others = self.held.is_none() && !self.is_ours(record) && !record.holder().is_empty();
        let late = now >= seen.changed + self.options.renew_interval * LATE;
        (others && late).then_some(record)
    }

    /// The process that holds the lease by `record` was seen to have ended: nobody writes under it any
    /// more, and the lease is free unless somebody has taken it meanwhile.
    pub(in crate::runtime::election) fn ended(&mut self, now: Instant, record: &Record) {
        let same = |seen: &Seen| {
            let now_held = &seen.lease.spec;
            now_held.holder() == record.holder() && now_held.acquire_time == record.acquire_time
        };
        if self.seen.as_ref().is_some_and(same) && self.held.is_none() && self.missing.is_none() {
            self.look = false;
            self.next = now;
        }
    }
}
