//! Where an instance finds and keeps its things, and who it is.

use std::path::{Path, PathBuf};

use crate::mysql::{Passwords, config};

use super::InstanceError;

/// Identity, addresses and folders of one instance. Fixed for the manager's life.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pod name, such as `demo-0`.
    pub name: String,
    /// Pod UID.
    pub pod_uid: String,
    /// Name by which other instances reach this one; in its certificate.
    pub host: String,
    /// MySQL's `server_id`.
    pub server_id: u32,
    /// The container's memory limit in bytes.
    pub memory_limit: Option<u64>,
    /// mysqld's executable.
    pub mysqld: PathBuf,
    /// Address that mysqld listens on.
    pub bind_address: String,
    /// MySQL's port, the same on every instance.
    pub mysql_port: u16,
    /// Address and port of the manager's HTTPS listener.
    pub listen: std::net::SocketAddr,
    /// The volume.
    pub volume: PathBuf,
    /// Socket, pid file, generated files. Emptied by nobody when a container restarts.
    pub run: PathBuf,
    /// Temporary files of mysqld.
    pub tmp: PathBuf,
    /// Rendered configuration, common to all instances.
    pub config: PathBuf,
    /// Folder with `ca.crt`, `tls.crt`, `tls.key`.
    pub tls: PathBuf,
    /// Folder with `token`, `admin`, `replication`, `clone`.
    pub internal: PathBuf,
    /// File with root's password.
    pub root_password: PathBuf,
    /// File with the addresses of peers, where DNS does not know them: lines `ADDRESS:PORT NAME`.
    pub hosts: Option<PathBuf>,
}

impl Settings {
    /// MySQL's data directory.
    #[must_use]
    pub fn datadir(&self) -> PathBuf {
        self.volume.join("data")
    }

    /// The manager's own folder on the volume.
    #[must_use]
    pub fn own(&self) -> PathBuf {
        self.volume.join("mainstay")
    }

    /// mysqld's Unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.run.join("mysqld.sock")
    }

    /// CA certificate, certificate and key, for HTTPS and for mysqld alike.
    #[must_use]
    pub fn tls_files(&self) -> (PathBuf, PathBuf, PathBuf) {
        (
            self.tls.join("ca.crt"),
            self.tls.join("tls.crt"),
            self.tls.join("tls.key"),
        )
    }

    /// The configuration as it is now, with its hash.
    pub fn read_config(&self) -> Result<(String, String), InstanceError> {
        let text = read(&self.config)?;
        let hash = config::hash(&text);
        Ok((text, hash))
    }

    /// The internal passwords as they are now.
    pub fn read_passwords(&self) -> Result<Passwords, InstanceError> {
        Ok(Passwords {
            root: secret(&self.root_password)?,
            admin: secret(&self.internal.join("admin"))?,
            replication: secret(&self.internal.join("replication"))?,
            clone: secret(&self.internal.join("clone"))?,
        })
    }

    /// The cluster's bearer token as it is now.
    pub fn read_token(&self) -> Result<String, InstanceError> {
        secret(&self.internal.join("token"))
    }
}

fn read(path: &Path) -> Result<String, InstanceError> {
    std::fs::read_to_string(path).map_err(|source| InstanceError::file("read", path, source))
}

/// A secret is never empty: an empty token would let everyone in.
fn secret(path: &Path) -> Result<String, InstanceError> {
    let text = read(path)?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    if text.is_empty() {
        return Err(InstanceError::EmptySecret(path.to_owned()));
    }
    Ok(text.to_owned())
}

/// Finds mysqld: in `PATH`, then where distributions put it.
#[must_use]
pub fn find_mysqld(path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    let in_path = path.map(std::env::split_paths).into_iter().flatten();
    in_path
        .chain(["/usr/sbin", "/usr/libexec"].map(PathBuf::from))
        .map(|folder| folder.join("mysqld"))
        .find(|file| file.is_file())
}

#[cfg(test)]
pub(super) fn for_tests() -> Settings {
    let none = PathBuf::new;
    Settings {
        name: "demo-0".into(),
        pod_uid: "uid".into(),
        host: "demo-0.demo-instances.x.svc".into(),
        server_id: 1000,
        memory_limit: None,
        mysqld: none(),
        bind_address: "*".into(),
        mysql_port: 3306,
        listen: ([127, 0, 0, 1], 0).into(),
        volume: none(),
        run: none(),
        tmp: none(),
        config: none(),
        tls: none(),
        internal: none(),
        root_password: none(),
        hosts: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_secret_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "\n").unwrap();
        assert!(matches!(secret(&file), Err(InstanceError::EmptySecret(_))));
        std::fs::write(&file, "abc\n").unwrap();
        assert_eq!(secret(&file).unwrap(), "abc");
        assert!(matches!(
            secret(&folder.path().join("none")),
            Err(InstanceError::File { .. })
        ));
    }

    #[test]
    fn finds_mysqld_in_the_path_first() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mysqld"), "").unwrap();
        let found = find_mysqld(Some(folder.path().as_os_str()));
        assert_eq!(found, Some(folder.path().join("mysqld")));
    }
}
