//! Receiving a clone. Until the data that was here is dropped a failure leaves all as it was; after
//! that it leaves an empty server.

use tokio::time::Instant;

use super::{
    network::{Event, Network},
    process::{Answered, Cloning, ProcessId, SessionId, Stage},
};
use crate::instance::{Exit, RESTART_EXIT};

impl Network {
    /// `CLONE INSTANCE`. The session is answered where it fails; where it does not, the process ends.
    pub(super) fn clone(&mut self, id: ProcessId, session: SessionId, donor: &str, now: Instant) {
        let token = self.id();
        let takes = self.dice.within(&self.pace.clone);
        self.with(id, |process, _| {
            if process.clone.is_some() || process.super_read_only {
                let why = "The clone can't begin".to_owned();
                return process.answer(session, Answered::Refused(3634, why));
            }
            if let Some(info) = process.sessions.get_mut(&session) {
                info.info = "CLONE INSTANCE";
            }
            process.clone = Some(Cloning {
                session,
                donor: donor.to_owned(),
                token,
                dropped: false,
            });
        });
        self.schedule(now + takes, Event::Clone(id, token));
    }

    /// Drops the data, or completes the clone, if the donor is still there.
    pub(super) fn clone_step(&mut self, id: ProcessId, token: u64, now: Instant) {
        let takes = self.dice.within(&self.pace.clone);
        let step = self.with(id, |process, _| {
            let clone = process.clone.as_ref().filter(|it| it.token == token)?;
            Some((process.host.clone(), clone.donor.clone(), clone.dropped))
        });
        let Some(Some((own, host, dropped))) = step else {
            return;
        };
        let donor = self.names.get(&host).copied();
        let reached = donor.filter(|it| {
            let up = |process: &super::process::Process| {
                process.stage == Stage::Up && !process.frozen && process.clone.is_none()
            };
            !self.is_cut(&own, &host) && self.processes.get(it).is_some_and(up)
        });
        let data = reached.and_then(|it| self.with(it, |_, data| data.clone()));
        match data {
            None => self.fail_clone(id, "Can't connect to the donor"),
            Some(_) if !dropped => {
                self.with(id, |process, data| {
                    *data = data.dropped("the clone did not complete");
                    if let Some(clone) = &mut process.clone {
                        clone.dropped = true;
                    }
                });
                self.schedule(now + takes, Event::Clone(id, token));
            }
            Some(donor) => {
                self.with(id, |_, data| *data = data.cloned_from(&donor));
                self.end(id, Exit::Code(RESTART_EXIT), None, now);
            }
        }
    }

    /// Makes a clone that is being received fail.
    pub(super) fn fail_clone(&mut self, id: ProcessId, why: &str) {
        self.with(id, |process, data| {
            let Some(clone) = process.clone.take() else {
                return;
            };
            data.clone_status = Some(("Failed".to_owned(), why.to_owned()));
            if let Some(info) = process.sessions.get_mut(&clone.session) {
                info.info = "";
            }
            let why = format!("Clone Donor Error: {why}.");
            process.answer(clone.session, Answered::Refused(3862, why));
        });
    }
}
