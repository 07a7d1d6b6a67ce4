//! A Lease as an API server keeps it, for tests.

use super::machine::Request;
use super::record::Lease;
use crate::client::Error;

/// At most one Lease, with versions.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) lease: Option<Lease>,
    version: u64,
}

impl Server {
    pub(super) fn handle(&mut self, request: &Request) -> Result<Lease, Error> {
        let what = || request.verb().to_owned();
        match (request, &self.lease) {
            (Request::Create(_), Some(_)) => Err(Error::AlreadyExists { what: what() }),
            (Request::Get | Request::Update(_), None) => Err(Error::NotFound { what: what() }),
            (Request::Get, Some(lease)) => Ok(lease.clone()),
            (Request::Update(new), Some(old)) if new.version() != old.version() => {
                Err(Error::Conflict {
                    what: what(),
                    message: "the object has been modified".to_owned(),
                })
            }
            (Request::Create(lease) | Request::Update(lease), _) => Ok(self.put(lease.clone())),
        }
    }

    /// As if someone else wrote it.
    pub(super) fn put(&mut self, mut lease: Lease) -> Lease {
        self.version += 1;
        lease.set_version(self.version);
        self.lease = Some(lease.clone());
        lease
    }
}

pub(super) fn timed_out() -> Error {
    Error::Timeout {
        what: "lease".to_owned(),
        after: std::time::Duration::from_secs(5),
    }
}
