//! A container's process, as its pod says and this machine needs it.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use nix::unistd::Pid;
use tokio::process::{Child, Command};

use super::Processes;
use crate::sandbox::node::runtime::ContainerSpec;

impl Processes {
    /// Starts it, in a process group of its own.
    pub(super) fn spawn(&self, container: &ContainerSpec) -> io::Result<(Child, Pid)> {
        let folder = |path: &str| {
            self.0
                .folders
                .mounted(&container.pod, &container.mounts, path)
        };
        let [program, arguments @ ..] = container.command.as_slice() else {
            return Err(io::Error::other(
                "the image's own command is not known here",
            ));
        };
        let program = match program.as_str() {
            "/mainstay" => self.0.options.mainstay.clone(),
            program => folder(program),
        };
        let log = self
            .0
            .folders
            .open_log(&container.pod, &container.run.container)?;
        let mut command = Command::new(program);
        command
            .args(arguments.iter().map(|argument| folder(argument)))
            .envs(&container.env)
            .current_dir(self.0.folders.pod(&container.pod))
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        if arguments.first().is_some_and(|word| word == "instance") {
            self.tell_instance(&mut command, container, &folder)?;
        }
        let child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        let group = group.ok_or_else(|| io::Error::other("it has ended already"))?;
        Ok((child, Pid::from_raw(group)))
    }

    /// What `mainstay instance run` finds elsewhere than in a container.
    fn tell_instance(
        &self,
        command: &mut Command,
        container: &ContainerSpec,
        folder: &impl Fn(&str) -> PathBuf,
    ) -> io::Result<()> {
        let (manager, mysql) = {
            let state = self.lock();
            let pod = state.pods.get(&container.pod.uid);
            let pod = pod.ok_or_else(|| io::Error::other("no volumes are mounted"))?;
            (pod.manager, pod.mysql)
        };
        command
            .env("MAINSTAY_LISTEN", manager.to_string())
            .env("MAINSTAY_BIND_ADDRESS", mysql.ip().to_string())
            .env("MAINSTAY_MYSQL_PORT", mysql.port().to_string())
            .env("MAINSTAY_MYSQLD", &self.0.options.mysqld)
            .env("MAINSTAY_HOSTS", self.0.folders.hosts())
            .env("MAINSTAY_STOP_WITH_STDIN", "true")
            .env("MAINSTAY_VOLUME", folder("/var/lib/mysql"))
            .env("MAINSTAY_RUN", folder("/run/mainstay"))
            .env("MAINSTAY_TMP", folder("/tmp"))
            .env("MAINSTAY_CONFIG", folder("/etc/mainstay/config/my.cnf"))
            .env("MAINSTAY_TLS", folder("/etc/mainstay/tls"))
            .env("MAINSTAY_INTERNAL", folder("/etc/mainstay/internal"))
            .env(
                "MAINSTAY_ROOT_PASSWORD",
                folder("/etc/mainstay/root/password"),
            );
        Ok(())
    }
}
