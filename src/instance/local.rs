//! A container of files and processes.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::sync::watch;
use futures_util::{FutureExt as _, future::BoxFuture};
use nix::{sys::signal::Signal, unistd::Pid};

use super::{
    Follow, InstanceError, aside,
    board::{Board, Process},
    container::{Accounts, Container, Mysqld, Prepared, Signals},
    datadir, files,
    hosts::{Hosts, NamedAccess},
    mysqld::Run,
    process::{Children, Exit},
    settings::Settings,
    stop::Stop,
    term,
};
use crate::mysql::{
    ADMIN, Access, Donor, InstanceConfig, Login, Passwords, Source, init_file, render,
    render_initial,
};

/// Files as [`Settings`] names them, and mysqld as a child process.
pub(super) struct Local {
    settings: Arc<Settings>,
    children: Children,
    hosts: Option<Hosts>,
    /// Hash of the last configuration that mysqld found valid.
    valid: Mutex<String>,
}

impl Local {
    /// The container of `settings`.
    pub(super) fn new(settings: Arc<Settings>, children: Children) -> Self {
        Self {
            hosts: settings.hosts.clone().map(Hosts::new),
            settings,
            children,
            valid: Mutex::default(),
        }
    }

    fn option_file(&self) -> PathBuf {
        self.settings.run.join("instance.cnf")
    }

    fn init_file(&self) -> PathBuf {
        self.settings.run.join("init.sql")
    }

    fn term_file(&self) -> PathBuf {
        self.settings.own().join("term")
    }

    async fn make_ready(
        &self,
        board: &Board,
        mut stop: watch::Receiver<Stop>,
    ) -> Result<Prepared, InstanceError> {
        let settings = &self.settings;
        let (common, hash) = settings.read_config()?;
        let passwords = settings.read_passwords()?;
        files::make_folder(&settings.own())?;
        let (option_file, init) = (self.option_file(), self.init_file());
        let config = instance_config(settings, &init);
        files::replace(&option_file, render(&common, &config).as_bytes(), 0o600)?;
        self.initialise(board, &mut stop, &common, &config).await?;
        files::replace(&init, init_file(&passwords).as_bytes(), 0o600)?;
        if !self.is_valid(&hash) {
            // With the file of statements in place, which a check wants to see.
            let check = self.mysqld(&option_file, &["--validate-config"])?;
            check
                .finish("mysqld refuses the configuration", &mut stop)
                .await?;
            self.valid
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone_from(&hash);
        }
        // Left over from a container before this one: mysqld takes the pid in the socket's lock for
        // that of another server if some process has it.
        for name in ["mysqld.sock", "mysqld.sock.lock", "mysqld.pid"] {
            files::remove(&settings.run.join(name))?;
        }
        let (executable, children) = (settings.mysqld.clone(), self.children.clone());
        let accounts = accounts(settings, &passwords, self.hosts.as_ref());
        let start = move || -> Result<Box<dyn Mysqld>, InstanceError> {
            Ok(Box::new(Child {
                run: Run::start(&children, &executable, &option_file, &[])?,
                init,
                accounts,
            }))
        };
        Ok(Prepared {
            config_hash: hash,
            start: Box::new(start),
        })
    }

    fn is_valid(&self, hash: &str) -> bool {
        *self.valid.lock().unwrap_or_else(PoisonError::into_inner) == hash
    }

    /// Creates the data directory where there is none: under another name, which it loses when it is
    /// complete.
    async fn initialise(
        &self,
        board: &Board,
        stop: &mut watch::Receiver<Stop>,
        common: &str,
        config: &InstanceConfig,
    ) -> Result<(), InstanceError> {
        let settings = &self.settings;
        if !datadir::is_empty(&settings.datadir())? {
            return Ok(());
        }
        board.change(|facts| facts.process = Process::Initialising);
        let new = datadir::unfinished(settings);
        files::remove(&new)?;
        let option_file = settings.run.join("initial.cnf");
        files::replace(
            &option_file,
            render_initial(common, config, &new).as_bytes(),
            0o600,
        )?;
        for (argument, what) in [
            ("--validate-config", "mysqld refuses the configuration"),
            (
                "--initialize-insecure",
                "mysqld can't create its data directory",
            ),
        ] {
            let run = self.mysqld(&option_file, &[argument])?;
            run.finish(what, stop).await?;
        }
        files::remove(&option_file)?;
        datadir::finish(settings)
    }

    fn mysqld(&self, option_file: &Path, arguments: &[&str]) -> Result<Run, InstanceError> {
        Run::start(
            &self.children,
            &self.settings.mysqld,
            option_file,
            arguments,
        )
    }
}

impl Container for Local {
    fn host(&self) -> &str {
        &self.settings.host
    }

    fn token(&self) -> Result<String, InstanceError> {
        self.settings.read_token()
    }

    fn source(&self, follow: Follow) -> Result<Source, InstanceError> {
        Ok(Source {
            host: follow.source_host,
            port: self.settings.mysql_port,
            password: self.settings.read_passwords()?.replication,
            ca: self.settings.tls_files().0,
            verify_host: true,
            acknowledge: follow.acknowledge,
        })
    }

    fn donor(&self, host: &str) -> Result<Donor, InstanceError> {
        let (host, port) = match &self.hosts {
            Some(hosts) => {
                let address = hosts.address(host)?;
                (address.ip().to_string(), address.port())
            }
            None => (host.to_owned(), self.settings.mysql_port),
        };
        Ok(Donor {
            host,
            port,
            password: self.settings.read_passwords()?.clone,
        })
    }

    fn config_hash(&self) -> Result<String, InstanceError> {
        Ok(self.settings.read_config()?.1)
    }

    fn term(&self) -> Result<u64, InstanceError> {
        term::read(&self.term_file())
    }

    fn keep_term(&self, term: u64) -> Result<(), InstanceError> {
        term::write(&self.term_file(), term)
    }

    fn keep_binary_logs(&self) -> Result<Option<String>, InstanceError> {
        let aside = self.settings.own().join("aside");
        let kept = aside::keep(&self.settings.datadir(), &aside, &utc(SystemTime::now()))?;
        Ok(kept.map(|folder| folder.display().to_string()))
    }

    fn prepare<'a>(
        &'a self,
        board: &'a Board,
        stop: watch::Receiver<Stop>,
    ) -> BoxFuture<'a, Result<Prepared, InstanceError>> {
        self.make_ready(board, stop).boxed()
    }
}

/// mysqld's process, and the file of statements that it was started with.
struct Child {
    run: Run,
    init: PathBuf,
    accounts: Accounts,
}

impl Mysqld for Child {
    fn accounts(&self) -> Accounts {
        self.accounts.clone()
    }

    fn signals(&self) -> Arc<dyn Signals> {
        self.run.signals()
    }

    fn wait(&mut self) -> BoxFuture<'_, Exit> {
        self.run.wait().boxed()
    }

    fn answers(&mut self) {
        self.run.forget_errors();
        if let Err(error) = files::remove(&self.init) {
            tracing::error!(%error, "the file with passwords stays");
        }
    }

    fn ended(&mut self) -> BoxFuture<'_, Result<Option<String>, InstanceError>> {
        async move {
            files::remove(&self.init)?;
            Ok(self.run.errors().await)
        }
        .boxed()
    }
}

/// A child process.
pub(super) struct ChildSignals {
    pub(super) children: Children,
    pub(super) pid: Pid,
}

impl Signals for ChildSignals {
    fn signal(&self, signal: Signal) -> bool {
        self.children.signal(self.pid, signal)
    }
}

fn accounts(settings: &Settings, passwords: &Passwords, hosts: Option<&Hosts>) -> Accounts {
    let login = |user: &str, password: &str| -> Arc<dyn Access> {
        let access = Arc::new(Login {
            socket: settings.socket(),
            user: user.to_owned(),
            password: password.to_owned(),
        });
        match hosts.cloned() {
            Some(hosts) => Arc::new(NamedAccess { access, hosts }),
            None => access,
        }
    };
    Accounts {
        admin: login(ADMIN, &passwords.admin),
        root: login("root", &passwords.root),
    }
}

fn instance_config(settings: &Settings, init: &Path) -> InstanceConfig {
    InstanceConfig {
        server_id: settings.server_id,
        report_host: settings.host.clone(),
        bind_address: settings.bind_address.clone(),
        port: settings.mysql_port,
        datadir: settings.datadir(),
        socket: settings.socket(),
        pid_file: settings.run.join("mysqld.pid"),
        tmpdir: settings.tmp.clone(),
        init_file: init.to_owned(),
        tls: settings.tls_files(),
        memory_limit: settings.memory_limit,
    }
}

/// A time as the name of a folder: `20260131T235959Z`.
fn utc(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let seconds = i64::try_from(seconds).unwrap_or_default();
    let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn folders_are_named_by_utc() {
        assert_eq!(
            utc(UNIX_EPOCH + Duration::from_secs(1_769_903_999)),
            "20260131T235959Z"
        );
    }
}
