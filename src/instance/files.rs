//! Writing files so that a crash leaves the old one or the new one.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use super::InstanceError;

/// Replaces `path` by a file with this content and mode. Durable when it returns.
pub(super) fn replace(path: &Path, content: &[u8], mode: u32) -> Result<(), InstanceError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = folder.join(name);
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&new)?;
        // The mode of a file that was left over, and the umask, are not what was asked for.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(|source| InstanceError::file("write", path, source))?;
    sync_folder(folder)
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> Result<(), InstanceError> {
    let sync = || File::open(folder)?.sync_all();
    sync().map_err(|source| InstanceError::file("sync", folder, source))
}

/// Makes a folder, and those above it, if it is not there.
pub(super) fn make_folder(folder: &Path) -> Result<(), InstanceError> {
    fs::create_dir_all(folder).map_err(|source| InstanceError::file("create", folder, source))
}

/// Removes a file or folder if it is there.
pub(super) fn remove(path: &Path) -> Result<(), InstanceError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(InstanceError::file("remove", path, error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_content_and_mode() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        fs::write(&file, "old, and longer").unwrap();
        fs::write(folder.path().join("f.new"), "left over").unwrap();
        replace(&file, b"new", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        remove(&file).unwrap();
        remove(&file).unwrap();
        assert!(!file.exists());
    }
}
