//! Peers' addresses from a file, for a machine whose DNS does not know their names: instances that run
//! as plain processes (`--hosts`).
//!
//! The manager speaks of names; mysqld is given addresses, and what it says of them is read as names
//! again. An address is in nobody's certificate, so it is only checked that the source's is of the
//! cluster's authority.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use crate::mysql::{
    Access, Answer, Channel, Counters, MysqlError, Process, ServerState, Session, Source, Statement,
};

/// A file of lines `ADDRESS:PORT NAME`, read anew each time: peers come and go.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    file: PathBuf,
}

impl Hosts {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// Where MySQL of that name listens.
    ///
    /// # Errors
    /// [`MysqlError::NotNow`] for a name that is not in the file.
    pub(super) fn address(&self, name: &str) -> Result<SocketAddr, MysqlError> {
        let known = self.read().into_iter().find(|(_, known)| known == name);
        known
            .map(|(address, _)| address)
            .ok_or_else(|| MysqlError::NotNow(format!("no address of {name} is known")))
    }

    /// Who listens there.
    fn name(&self, host: &str, port: u16) -> Option<String> {
        let address = SocketAddr::new(host.parse::<IpAddr>().ok()?, port);
        let known = self.read().into_iter().find(|(known, _)| *known == address);
        known.map(|(_, name)| name)
    }

    fn read(&self) -> Vec<(SocketAddr, String)> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let line = |line: &str| {
            let (address, name) = line.trim().split_once(' ')?;
            Some((address.parse().ok()?, name.trim().to_owned()))
        };
        text.lines().filter_map(line).collect()
    }
}

/// An account whose sessions speak of names.
pub(super) struct NamedAccess {
    pub(super) access: Arc<dyn Access>,
    pub(super) hosts: Hosts,
}

impl Access for NamedAccess {
    fn open(&self) -> Answer<'_, Box<dyn Session>> {
        async move {
            let session = self.access.open().await?;
            let hosts = self.hosts.clone();
            Ok(Box::new(NamedSession { session, hosts }) as Box<dyn Session>)
        }
        .boxed()
    }
}

#[derive(Debug)]
struct NamedSession {
    session: Box<dyn Session>,
    hosts: Hosts,
}

impl NamedSession {
    /// The statement as mysqld can carry it out.
    fn translated(&self, statement: &Statement) -> Result<Option<Statement>, MysqlError> {
        let Statement::ChangeSource {
            source,
            auto_position,
        } = statement
        else {
            return Ok(None);
        };
        let address = self.hosts.address(&source.host)?;
        Ok(Some(Statement::ChangeSource {
            source: Source {
                host: address.ip().to_string(),
                port: address.port(),
                verify_host: false,
                ..source.clone()
            },
            auto_position: *auto_position,
        }))
    }
}

impl Session for NamedSession {
    fn is_usable(&self) -> bool {
        self.session.is_usable()
    }

    fn run<'a>(&'a mut self, statement: &'a Statement, within: Duration) -> Answer<'a, ()> {
        async move {
            match self.translated(statement)? {
                Some(translated) => self.session.run(&translated, within).await,
                None => self.session.run(statement, within).await,
            }
        }
        .boxed()
    }

    fn channel(&mut self) -> Answer<'_, Option<Channel>> {
        async move {
            let mut channel = self.session.channel().await?;
            if let Some(channel) = &mut channel
                && let Some(name) = self.hosts.name(&channel.host, channel.port)
            {
                channel.host = name;
            }
            Ok(channel)
        }
        .boxed()
    }

    fn globals(&mut self) -> Answer<'_, ServerState> {
        self.session.globals()
    }

    fn counters(&mut self) -> Answer<'_, Counters> {
        self.session.counters()
    }

    fn missing<'a>(&'a mut self, set: &'a str) -> Answer<'a, Option<String>> {
        self.session.missing(set)
    }

    fn wait_executed<'a>(&'a mut self, set: &'a str, within: Duration) -> Answer<'a, bool> {
        self.session.wait_executed(set, within)
    }

    fn processes(&mut self) -> Answer<'_, Vec<Process>> {
        self.session.processes()
    }

    fn clone_status(&mut self) -> Answer<'_, Option<(String, String)>> {
        self.session.clone_status()
    }

    fn partial_revokes(&mut self) -> Answer<'_, bool> {
        self.session.partial_revokes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_each_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        let hosts = Hosts::new(file.clone());
        assert!(matches!(
            hosts.address("a.x.svc"),
            Err(MysqlError::NotNow(_))
        ));
        std::fs::write(
            &file,
            "127.0.0.1:13306 a.x.svc\n127.0.0.1:13307 b.x.svc\nodd\n",
        )
        .unwrap();
        assert_eq!(hosts.address("b.x.svc").unwrap().port(), 13307);
        assert_eq!(hosts.name("127.0.0.1", 13306).as_deref(), Some("a.x.svc"));
        assert_eq!(hosts.name("127.0.0.1", 3306), None);
        assert_eq!(hosts.name("c.x.svc", 3306), None);
    }
}
