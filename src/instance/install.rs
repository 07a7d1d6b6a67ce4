//! `mainstay instance install`: brings the manager into a MySQL image.

use std::path::{Path, PathBuf};

use super::{InstanceError, files};

/// Copies the running executable to `folder/mainstay`, so that whoever runs it meanwhile runs the old
/// one or the new one. Returns where it is.
pub fn install(folder: &Path) -> Result<PathBuf, InstanceError> {
    let own = Path::new("/proc/self/exe");
    let content = std::fs::read(own).map_err(|source| InstanceError::file("read", own, source))?;
    files::make_folder(folder)?;
    let target = folder.join("mainstay");
    files::replace(&target, &content, 0o755)?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn installs_an_executable_over_an_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("bin");
        let target = install(&folder).unwrap();
        assert_eq!(install(&folder).unwrap(), target);
        let metadata = std::fs::metadata(&target).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o755);
        assert_eq!(
            metadata.len(),
            std::fs::metadata("/proc/self/exe").unwrap().len()
        );
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }
}
