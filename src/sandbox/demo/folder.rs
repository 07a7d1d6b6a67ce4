//! The demo's folder: kubeconfigs, logs, volumes.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::error::DemoError;
use super::random;

/// A folder that is there while this value is, and longer where that was asked for.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    /// Makes `dir`, which stays, or a temporary folder, which goes unless `keep`. Nobody else can read
    /// it: it holds keys.
    ///
    /// # Errors
    /// [`DemoError::FolderInUse`] where `dir` holds something already.
    pub(super) fn make(dir: Option<&Path>, keep: bool) -> Result<Self, DemoError> {
        let folder = match dir {
            Some(dir) => {
                let path = std::path::absolute(dir).map_err(DemoError::file(dir))?;
                if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
                    return Err(DemoError::FolderInUse(path));
                }
                Self { path, keep: true }
            }
            None => Self {
                path: std::env::temp_dir().join(format!("mainstay-demo-{}", random::hex::<3>())),
                keep,
            },
        };
        make_private(&folder.path)?;
        Ok(folder)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it stays.
    pub(super) fn is_kept(&self) -> bool {
        self.keep
    }

    /// A folder within, made now.
    pub(super) fn subfolder(&self, name: &str) -> Result<PathBuf, DemoError> {
        let path = self.path.join(name);
        make_private(&path)?;
        Ok(path)
    }

    /// Writes a file that nobody else can read.
    pub(super) fn write(&self, name: &str, content: &str) -> Result<PathBuf, DemoError> {
        let path = self.path.join(name);
        create_private(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, content.as_bytes()))
            .map_err(DemoError::file(&path))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "can't be removed");
        }
    }
}

fn make_private(path: &Path) -> Result<(), DemoError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(path).map_err(DemoError::file(path))
}

/// An empty file that its owner alone can read, to append to.
pub(super) fn create_private(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_temporary_folder_goes_and_a_named_one_stays() {
        let path = {
            let folder = Folder::make(None, false).unwrap();
            let file = folder.write("kubeconfig", "secret").unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(folder.path()), mode(&file)), (0o700, 0o600));
            assert_eq!(fs::read_to_string(file).unwrap(), "secret");
            folder.path().to_owned()
        };
        assert!(!path.exists());

        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("a/b");
        drop(Folder::make(Some(&dir), false).unwrap());
        assert!(dir.exists());
        let kept = Folder::make(None, true).unwrap();
        let path = kept.path().to_owned();
        drop(kept);
        assert!(path.exists());
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn what_is_there_is_never_taken_over_nor_removed() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("precious"), "").unwrap();
        let error = Folder::make(Some(outer.path()), false).unwrap_err();
        assert!(matches!(error, DemoError::FolderInUse(_)), "{error}");
        assert!(outer.path().join("precious").exists());
    }
}
