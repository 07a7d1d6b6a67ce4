//! The container that an instance manager finds around itself, modelled.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{FutureExt as _, future::BoxFuture};
use nix::sys::signal::Signal;
use tokio::time::sleep;

use super::{data::Disk, mysqls::Mysqls, process::ProcessId, session::Door, volume::Volume};
use crate::sync::watch;
use crate::{
    instance::{
        Accounts, Board, Container, Exit, Follow, InstanceError, Mysqld, Prepared, Process,
        Signals, Stop,
    },
    mysql::{ADMIN, Access, Donor, Source, config},
};

/// How many times' binary logs are kept aside, as the real one does.
const KEPT: usize = 2;

/// What is mounted into the container, as it is now.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) token: String,
    pub(crate) config: String,
}

/// The line of a configuration that sets what mysqld 9.7 does not know, if any does. One variable
/// that it has no more stands for all.
fn unknown_variable(config: &str) -> Option<String> {
    let mut lines = config.lines();
    let line = lines.find(|line| line.trim_start().starts_with("innodb_log_file_size"))?;
    Some(line.split_whitespace().collect())
}

/// A modelled container.
pub(crate) struct Modelled {
    pub(crate) host: String,
    pub(crate) server_id: u32,
    pub(crate) volume: Volume,
    pub(crate) files: Arc<Mutex<Files>>,
}

impl Modelled {
    fn mysqls(&self) -> &Mysqls {
        &self.volume.mysqls
    }

    fn file<T>(&self, look: impl FnOnce(&Files) -> T) -> T {
        look(&self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn disk<T>(&self, look: impl FnOnce(&mut Disk) -> T) -> T {
        let disk = self.volume.disk;
        self.mysqls()
            .change(|network, _| look(network.disks.entry(disk).or_default()))
    }

    /// SIGKILL for the mysqld that has the volume open.
    pub(crate) fn kill_mysqld(&self) {
        self.mysqls().change(|network, now| {
            let disk = network.disks.get(&self.volume.disk);
            if let Some(id) = disk.and_then(|disk| disk.open) {
                network.kill(id, now);
            }
        });
    }

    async fn make_ready(
        &self,
        board: &Board,
        mut stop: watch::Receiver<Stop>,
    ) -> Result<Prepared, InstanceError> {
        let config_hash = self.config_hash()?;
        if let Some(line) = self.file(|files| unknown_variable(&files.config)) {
            return Err(InstanceError::Process {
                what: "mysqld refuses the configuration",
                why: format!("unknown variable '{line}'."),
            });
        }
        if !self.volume.has_data() {
            board.change(|facts| facts.process = Process::Initialising);
            let takes = self.mysqls().change(|network, _| {
                let range = network.pace.initialise.clone();
                network.dice.within(&range)
            });
            let stopped = async {
                let _ = stop.wait_for(|stop| *stop != Stop::No).await;
            };
            tokio::select! {
                biased;
                () = stopped => return Err(InstanceError::Process {
                    what: "mysqld can't create its data directory",
                    why: Exit::Signal(Signal::SIGKILL).to_string(),
                }),
                () = sleep(takes) => {}
            }
            let disk = self.volume.disk;
            self.mysqls().change(|network, _| network.initialise(disk));
        }
        let (volume, host, server_id) = (self.volume.clone(), self.host.clone(), self.server_id);
        let start = move || -> Result<Box<dyn Mysqld>, InstanceError> {
            let mysqls = volume.mysqls.clone();
            let process =
                mysqls.change(|network, now| network.start(volume.disk, &host, server_id, now));
            Ok(Box::new(Child { mysqls, process }))
        };
        Ok(Prepared {
            config_hash,
            start: Box::new(start),
        })
    }
}

impl Container for Modelled {
    fn host(&self) -> &str {
        &self.host
    }

    fn token(&self) -> Result<String, InstanceError> {
        Ok(self.file(|files| files.token.clone()))
    }

    fn source(&self, follow: Follow) -> Result<Source, InstanceError> {
        Ok(Source {
            host: follow.source_host,
            port: 3306,
            password: String::new(),
            ca: std::path::PathBuf::new(),
            verify_host: true,
            acknowledge: follow.acknowledge,
        })
    }

    fn donor(&self, host: &str) -> Result<Donor, InstanceError> {
        Ok(Donor {
            host: host.to_owned(),
            port: 3306,
            password: String::new(),
        })
    }

    fn config_hash(&self) -> Result<String, InstanceError> {
        Ok(self.file(|files| config::hash(&files.config)))
    }

    fn term(&self) -> Result<u64, InstanceError> {
        Ok(self.disk(|disk| disk.term))
    }

    fn keep_term(&self, term: u64) -> Result<(), InstanceError> {
        self.disk(|disk| disk.term = term);
        Ok(())
    }

    fn keep_binary_logs(&self) -> Result<Option<String>, InstanceError> {
        Ok(self.disk(|disk| {
            let log = disk.data.as_ref()?.log();
            disk.aside.push_back(log.to_vec());
            if disk.aside.len() > KEPT {
                disk.aside.pop_front();
            }
            Some("aside".to_owned())
        }))
    }

    fn prepare<'a>(
        &'a self,
        board: &'a Board,
        stop: watch::Receiver<Stop>,
    ) -> BoxFuture<'a, Result<Prepared, InstanceError>> {
        self.make_ready(board, stop).boxed()
    }
}

/// A modelled mysqld.
#[derive(Clone)]
struct Child {
    mysqls: Mysqls,
    process: ProcessId,
}

impl Mysqld for Child {
    fn signals(&self) -> Arc<dyn Signals> {
        Arc::new(self.clone())
    }

    fn wait(&mut self) -> BoxFuture<'_, Exit> {
        let process = self.process;
        let ended = self
            .mysqls
            .until(move |network, _| network.ends.get(&process).map(|end| end.exit));
        ended.boxed()
    }

    fn answers(&mut self) {}

    fn ended(&mut self) -> BoxFuture<'_, Result<Option<String>, InstanceError>> {
        let process = self.process;
        let error = self
            .mysqls
            .look(|network| network.ends.get(&process)?.error.clone());
        async move { Ok(error) }.boxed()
    }

    fn accounts(&self) -> Accounts {
        let door = |user| -> Arc<dyn Access> {
            Arc::new(Door {
                mysqls: self.mysqls.clone(),
                process: self.process,
                user,
            })
        };
        Accounts {
            admin: door(ADMIN),
            root: door("root"),
        }
    }
}

impl Signals for Child {
    fn signal(&self, signal: Signal) -> bool {
        let process = self.process;
        self.mysqls.change(|network, now| match signal {
            Signal::SIGKILL => network.kill(process, now),
            _ => network.terminate(process, now),
        })
    }
}
