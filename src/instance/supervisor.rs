//! Keeps mysqld running.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nix::{sys::signal::Signal, unistd::Pid};
use tokio::sync::watch;

use super::{
    InstanceError,
    board::{Board, Process},
    datadir, files,
    mysqld::Mysqld,
    process::{Children, Exit},
    settings::Settings,
    stop::Stop,
};
use crate::mysql::{ADMIN, InstanceConfig, Login, Passwords, init_file, render, render_initial};

/// A server that ends this soon after its start will likely do so again.
const EARLY: Duration = Duration::from_secs(10);
/// Longest pause between two starts.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often to see whether the configuration has changed, while paused.
const LOOK: Duration = Duration::from_millis(500);
/// mysqld's exit code after RESTART or a clone (`MYSQLD_RESTART_EXIT`).
const RESTART_EXIT: i32 = 16;

/// A mysqld that was started, and has neither ended nor been told to.
#[derive(Clone)]
pub(super) struct Server {
    /// Which start it was.
    pub(super) start: u64,
    /// For signals.
    pub(super) pid: Pid,
    /// The manager's account, with the password that this start gave it.
    pub(super) admin: Login,
    /// The same for root.
    pub(super) root: Login,
}

/// The one task that starts mysqld.
pub(super) struct Supervisor {
    pub(super) settings: Arc<Settings>,
    pub(super) board: Board,
    pub(super) children: Children,
    pub(super) servers: watch::Sender<Option<Server>>,
    pub(super) stop: watch::Receiver<Stop>,
    /// Hash of the last configuration that mysqld found valid.
    pub(super) valid: String,
}

impl Supervisor {
    /// Starts mysqld again and again, until told to stop; mysqld has ended when it returns.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        while *self.stop.borrow() == Stop::No {
            let (why, soon) = match self.serve().await {
                Ok(ended) => ended,
                Err(error) => (error.to_string(), false),
            };
            if *self.stop.borrow() != Stop::No {
                break;
            }
            failures = if soon { 0 } else { failures + 1 };
            tracing::warn!(%why, "mysqld is down");
            self.board.change(|facts| {
                facts.process = Process::Down(why);
                facts.server = None;
            });
            self.pause(pause(failures)).await;
        }
        self.board.change(|facts| {
            facts.process = Process::Stopping;
            facts.server = None;
        });
    }

    /// Prepares and runs mysqld once. Says how it ended and whether to start it again at once.
    async fn serve(&mut self) -> Result<(String, bool), InstanceError> {
        let settings = self.settings.clone();
        let (common, hash) = settings.read_config()?;
        let passwords = settings.read_passwords()?;
        files::make_folder(&settings.own())?;
        let option_file = settings.run.join("instance.cnf");
        let init = settings.run.join("init.sql");
        let config = instance_config(&settings, &init);
        files::replace(&option_file, render(&common, &config).as_bytes(), 0o600)?;
        self.initialise(&common, &config).await?;
        files::replace(&init, init_file(&passwords).as_bytes(), 0o600)?;
        if self.valid != hash {
            // With the file of statements in place, which a check wants to see.
            let check = self.mysqld(&option_file, &["--validate-config"])?;
            check
                .finish(
                    "mysqld refuses the configuration",
                    &self.children,
                    &mut self.stop,
                )
                .await?;
            self.valid.clone_from(&hash);
        }
        // Left over from a container before this one: mysqld takes the pid in the socket's lock for
        // that of another server if some process has it.
        for name in ["mysqld.sock", "mysqld.sock.lock", "mysqld.pid"] {
            files::remove(&settings.run.join(name))?;
        }
        let mut mysqld = self.mysqld(&option_file, &[])?;
        let started = Instant::now();
        let start = self.board.look(|facts| facts.starts) + 1;
        self.board.change(|facts| {
            facts.starts = start;
            facts.config_hash = hash;
            facts.process = Process::Starting;
        });
        self.servers
            .send_replace(Some(server(&settings, &passwords, start, mysqld.child.pid)));
        let (exit, answered) = self.watch(&mut mysqld, &init).await;
        self.servers.send_replace(None);
        // At once: the operator fails over on this, its reason can follow.
        let stopping = *self.stop.borrow() != Stop::No;
        self.board.change(|facts| {
            if !stopping {
                facts.process = Process::Down(format!("mysqld ended ({exit})"));
            }
            facts.server = None;
        });
        files::remove(&init)?;
        let errors = mysqld.errors().await;
        let why = errors.map_or(format!("mysqld ended ({exit})"), |errors| {
            format!("mysqld ended ({exit}): {errors}")
        });
        let asked = matches!(exit, Exit::Code(0 | RESTART_EXIT));
        Ok((why, answered && (asked || started.elapsed() >= EARLY)))
    }

    /// Waits for mysqld's end. Removes the file of statements once it answers; passes on the order
    /// to stop. Says how it ended and whether it ever answered.
    async fn watch(&mut self, mysqld: &mut Mysqld, init: &std::path::Path) -> (Exit, bool) {
        let mut facts = self.board.subscribe();
        let (mut answered, mut stopping) = (false, Stop::No);
        loop {
            tokio::select! {
                exit = mysqld.child.wait() => return (exit, answered),
                up = facts.wait_for(|facts| facts.process == Process::Up), if !answered => {
                    drop(up);
                    answered = true;
                    mysqld.forget_errors();
                    if let Err(error) = files::remove(init) {
                        tracing::error!(%error, "the file with passwords stays");
                    }
                }
                stop = self.stop.wait_for(|stop| *stop > stopping) => {
                    let Ok(stop) = stop.map(|stop| *stop) else { continue };
                    stopping = stop;
                    // Our own sessions end first: mysqld waits 2 s for sessions to end by themselves.
                    self.servers.send_replace(None);
                    let signal = if stop == Stop::Kill { Signal::SIGKILL } else { Signal::SIGTERM };
                    self.children.signal(mysqld.child.pid, signal);
                    self.board.change(|facts| facts.process = Process::Stopping);
                }
            }
        }
    }

    /// Creates the data directory where there is none: under another name, which it loses when it is
    /// complete. What a crash left half done is created anew; data is never touched.
    async fn initialise(
        &mut self,
        common: &str,
        config: &InstanceConfig,
    ) -> Result<(), InstanceError> {
        let settings = self.settings.clone();
        if !datadir::is_empty(&settings.datadir())? {
            return Ok(());
        }
        self.board
            .change(|facts| facts.process = Process::Initialising);
        let new = datadir::unfinished(&settings);
        files::remove(&new)?;
        let option_file = settings.run.join("initial.cnf");
        files::replace(
            &option_file,
            render_initial(common, config, &new).as_bytes(),
            0o600,
        )?;
        let check = self.mysqld(&option_file, &["--validate-config"])?;
        check
            .finish(
                "mysqld refuses the configuration",
                &self.children,
                &mut self.stop,
            )
            .await?;
        let create = self.mysqld(&option_file, &["--initialize-insecure"])?;
        create
            .finish(
                "mysqld can't create its data directory",
                &self.children,
                &mut self.stop,
            )
            .await?;
        files::remove(&option_file)?;
        datadir::finish(&settings)
    }

    fn mysqld(
        &self,
        option_file: &std::path::Path,
        arguments: &[&str],
    ) -> Result<Mysqld, InstanceError> {
        Mysqld::start(
            &self.children,
            &self.settings.mysqld,
            option_file,
            arguments,
        )
    }

    /// Waits before the next start, no longer than until the configuration changes.
    async fn pause(&mut self, pause: Duration) {
        let settings = self.settings.clone();
        let hash = || settings.read_config().ok().map(|(_, hash)| hash);
        let before = hash();
        let changed = async {
            while hash() == before {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = changed => {}
            _ = self.stop.wait_for(|stop| *stop != Stop::No) => {}
        }
    }
}

/// Pause before the next start, after so many that failed in a row.
fn pause(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        failures => Duration::from_secs(1)
            .saturating_mul(1 << (failures - 1).min(16))
            .min(PAUSE_MAX),
    }
}

fn server(settings: &Settings, passwords: &Passwords, start: u64, pid: Pid) -> Server {
    let login = |user: &str, password: &str| Login {
        socket: settings.socket(),
        user: user.to_owned(),
        password: password.to_owned(),
    };
    Server {
        start,
        pid,
        admin: login(ADMIN, &passwords.admin),
        root: login("root", &passwords.root),
    }
}

fn instance_config(settings: &Settings, init: &std::path::Path) -> InstanceConfig {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        let seconds: Vec<_> = (0..8).map(|failures| pause(failures).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }
}
