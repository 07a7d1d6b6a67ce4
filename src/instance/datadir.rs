//! The data directory: created once, never wiped.

use std::path::{Path, PathBuf};

use super::{InstanceError, files, settings::Settings};

/// Whether there is data. An error is not "none".
pub(super) fn is_empty(datadir: &Path) -> Result<bool, InstanceError> {
    match std::fs::read_dir(datadir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(InstanceError::file("read", datadir, error)),
    }
}

/// Where a data directory is created, before it gets its name.
pub(super) fn unfinished(settings: &Settings) -> PathBuf {
    settings.volume.join("data.initialising")
}

/// Gives a complete data directory its name. Only over an empty one.
pub(super) fn finish(settings: &Settings) -> Result<(), InstanceError> {
    let (new, datadir) = (unfinished(settings), settings.datadir());
    // Replaces an empty directory and refuses any other (rename(2)).
    std::fs::rename(&new, &datadir)
        .map_err(|source| InstanceError::file("rename", &new, source))?;
    files::sync_folder(&settings.volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mariadb_1108_data_is_never_replaced_by_a_new_directory() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            volume: folder.path().to_owned(),
            ..crate::instance::settings::for_tests()
        };
        let datadir = settings.datadir();
        assert!(is_empty(&datadir).unwrap());
        std::fs::create_dir(&datadir).unwrap();
        assert!(is_empty(&datadir).unwrap());
        std::fs::write(datadir.join("ibdata1"), "rows").unwrap();
        assert!(!is_empty(&datadir).unwrap());
        std::fs::create_dir(unfinished(&settings)).unwrap();
        assert!(finish(&settings).is_err());
        assert_eq!(
            std::fs::read_to_string(datadir.join("ibdata1")).unwrap(),
            "rows"
        );
        assert!(
            is_empty(&datadir.join("ibdata1")).is_err(),
            "unreadable is not empty"
        );
    }
}
