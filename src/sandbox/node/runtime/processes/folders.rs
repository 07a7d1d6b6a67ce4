//! Volumes as folders.
//!
//! ```text
//! ROOT/volumes/NAME          a persistent volume
//! ROOT/pods/NAME-UID/VOLUME  what lives as long as a pod
//! ROOT/logs/NAMESPACE-POD-CONTAINER.log
//! ROOT/hosts                 who is where
//! ```

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use crate::sandbox::node::runtime::{Content, Mount, PodRef, PodVolume};

/// A pod's UID is shortened to this: sockets are below its folder, and their paths are limited.
const UID: usize = 8;
/// Name of the volume that mysqld's pid file is in.
const RUN_VOLUME: &str = "run";

/// The folders below one root.
pub(super) struct Folders {
    root: PathBuf,
}

impl Folders {
    /// Makes them.
    pub(super) fn new(root: &Path) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        for name in ["volumes", "pods", "logs"] {
            fs::create_dir_all(root.join(name))?;
        }
        // Secrets are below it.
        fs::set_permissions(&root, Permissions::from_mode(0o700))?;
        Ok(Self { root })
    }

    pub(super) fn hosts(&self) -> PathBuf {
        self.root.join("hosts")
    }

    pub(super) fn write_hosts(&self, text: &str) -> io::Result<()> {
        replace(&self.hosts(), text.as_bytes(), 0o644)
    }

    /// The pod's own folder.
    pub(super) fn pod(&self, pod: &PodRef) -> PathBuf {
        let uid = &pod.uid[..pod.uid.floor_char_boundary(UID)];
        self.root.join("pods").join(format!("{}-{uid}", pod.name))
    }

    /// Makes the pod's volumes, and brings their files up to date.
    pub(super) fn mount(&self, pod: &PodRef, volumes: &[PodVolume]) -> io::Result<()> {
        let own = self.pod(pod);
        fs::create_dir_all(&own)?;
        for volume in volumes {
            let folder = own.join(&volume.name);
            match &volume.content {
                Content::Empty => fs::create_dir_all(&folder)?,
                Content::Persistent(name) => {
                    let target = self.persistent(name)?;
                    fs::create_dir_all(&target)?;
                    match std::os::unix::fs::symlink(&target, &folder) {
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        done => done?,
                    }
                }
                Content::Files(files, mode) => {
                    fs::create_dir_all(&folder)?;
                    for (path, content) in files {
                        let file = below(&folder, path)?;
                        if fs::read(&file).is_ok_and(|old| old == *content) {
                            continue;
                        }
                        if let Some(parent) = file.parent() {
                            fs::create_dir_all(parent)?;
                        }
                        replace(&file, content, *mode)?;
                    }
                    for entry in fs::read_dir(&folder)? {
                        let entry = entry?;
                        let known = entry.file_name().into_string().is_ok_and(|name| {
                            files
                                .keys()
                                .any(|path| path == &name || path.starts_with(&format!("{name}/")))
                        });
                        if !known && entry.file_type()?.is_file() {
                            fs::remove_file(entry.path())?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes the pod's folder; persistent volumes are only linked from it.
    pub(super) fn unmount(&self, pod: &PodRef) -> io::Result<()> {
        gone(fs::remove_dir_all(self.pod(pod)))
    }

    /// Removes a persistent volume.
    pub(super) fn reclaim(&self, volume: &str) -> io::Result<()> {
        gone(fs::remove_dir_all(self.persistent(volume)?))
    }

    fn persistent(&self, name: &str) -> io::Result<PathBuf> {
        below(&self.root.join("volumes"), name)
    }

    /// A path of a container as it is here: below the deepest mount that holds it, or as it is.
    pub(super) fn mounted(&self, pod: &PodRef, mounts: &[Mount], path: &str) -> PathBuf {
        let inside = |mount: &&Mount| {
            path.strip_prefix(mount.path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let deepest = mounts
            .iter()
            .filter(inside)
            .max_by_key(|mount| mount.path.len());
        let Some(mount) = deepest else {
            return PathBuf::from(path);
        };
        let folder = self.pod(pod).join(&mount.volume);
        let rest = path[mount.path.len()..].trim_start_matches('/');
        if rest.is_empty() {
            folder
        } else {
            folder.join(rest)
        }
    }

    pub(super) fn log(&self, namespace: &str, pod: &str, container: &str) -> PathBuf {
        self.root
            .join("logs")
            .join(format!("{namespace}-{pod}-{container}.log"))
    }

    pub(super) fn open_log(&self, pod: &PodRef, container: &str) -> io::Result<File> {
        let path = self.log(&pod.namespace, &pod.name, container);
        OpenOptions::new().create(true).append(true).open(path)
    }

    /// The pod's mysqld, as its pid file says.
    pub(super) fn mysqld(&self, pod: &PodRef) -> Option<Pid> {
        let file = self.pod(pod).join(RUN_VOLUME).join("mysqld.pid");
        let pid = fs::read_to_string(file).ok()?.trim().parse().ok()?;
        Some(Pid::from_raw(pid))
    }
}

/// A relative path below a folder; nothing leads out of it.
fn below(folder: &Path, path: &str) -> io::Result<PathBuf> {
    use std::path::Component;
    let path = Path::new(path);
    let plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if plain && path.components().next().is_some() {
        return Ok(folder.join(path));
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{} is no path below a volume", path.display()),
    ))
}

/// Writes a file that readers see whole, in its old or its new state.
fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    gone(fs::remove_file(&new))?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&new)?;
    file.write_all(content)?;
    fs::rename(new, path)
}

/// What is to be removed may be gone already.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn pod() -> PodRef {
        PodRef {
            namespace: "ns".to_owned(),
            name: "demo-0".to_owned(),
            uid: "0123456789".to_owned(),
            ip: "127.0.0.1".parse().unwrap(),
            host: None,
        }
    }

    fn files(content: &str) -> PodVolume {
        let files = BTreeMap::from([(content.to_owned(), content.as_bytes().to_vec())]);
        PodVolume {
            name: "tls".to_owned(),
            content: Content::Files(files, 0o440),
        }
    }

    #[test]
    fn volumes_are_folders_and_persistent_ones_stay() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::new(root.path()).unwrap();
        let data = PodVolume {
            name: "data".to_owned(),
            content: Content::Persistent("pvc-1".to_owned()),
        };
        let own = folders.pod(&pod());
        assert!(own.ends_with("pods/demo-0-01234567"));
        folders.mount(&pod(), &[data.clone(), files("a")]).unwrap();
        fs::write(own.join("data/row"), "1").unwrap();
        let mode = fs::metadata(own.join("tls/a"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o440);
        folders.mount(&pod(), &[data, files("b")]).unwrap();
        assert_eq!(fs::read_to_string(own.join("tls/b")).unwrap(), "b");
        assert!(
            !own.join("tls/a").exists(),
            "what is gone from a Secret is gone"
        );
        folders.unmount(&pod()).unwrap();
        folders.unmount(&pod()).unwrap();
        assert_eq!(
            fs::read_to_string(root.path().join("volumes/pvc-1/row")).unwrap(),
            "1"
        );
        folders.reclaim("pvc-1").unwrap();
        folders.reclaim("pvc-1").unwrap();
        assert!(!root.path().join("volumes/pvc-1").exists());
        assert!(folders.reclaim("../pods").is_err());
    }

    #[test]
    fn paths_of_mounts_are_found_below_the_pods_folder() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::new(root.path()).unwrap();
        let mount = |path: &str, volume: &str| Mount {
            path: path.to_owned(),
            volume: volume.to_owned(),
        };
        let mounts = [mount("/opt/bin", "bin"), mount("/opt", "opt")];
        let at = |path: &str| folders.mounted(&pod(), &mounts, path);
        let own = folders.pod(&pod());
        assert_eq!(at("/opt/bin/mainstay"), own.join("bin/mainstay"));
        assert_eq!(at("/opt/bin"), own.join("bin"));
        assert_eq!(at("/opt/binary"), own.join("opt/binary"));
        assert_eq!(at("/etc/hosts"), PathBuf::from("/etc/hosts"));
        assert_eq!(at("run"), PathBuf::from("run"));
    }
}
