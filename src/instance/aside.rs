//! Binary logs kept aside before a clone replaces them: they hold the transactions that only this
//! instance had.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{InstanceError, files};

/// How many times' logs are kept.
const KEPT: usize = 2;
/// The newest logs are kept up to this size in sum, at least one. What only this instance has is at
/// the end, and the volume must not be filled.
const BYTES: u64 = 256 << 20;

/// Keeps the newest binary logs of `datadir` in `aside/<time>`, and removes all but the newest
/// [`KEPT`] such folders. Returns the folder, or `None` where there is no log.
///
/// The logs are linked, not copied: that takes no time and no space. They must be complete (mysqld
/// writes to a later one).
pub(super) fn keep(
    datadir: &Path,
    aside: &Path,
    time: &str,
) -> Result<Option<PathBuf>, InstanceError> {
    let mut logs = binary_logs(datadir)?;
    logs.sort();
    let mut sum = 0;
    let kept: Vec<_> = logs
        .into_iter()
        .rev()
        .enumerate()
        .take_while(|(place, (_, size))| {
            sum += size;
            *place == 0 || sum <= BYTES
        })
        .map(|(_, (log, _))| log)
        .collect();
    if kept.is_empty() {
        return Ok(None);
    }
    let folder = aside.join(time);
    files::make_folder(&folder)?;
    for log in kept {
        let target = folder.join(log.file_name().unwrap_or_default());
        fs::hard_link(&log, &target)
            .or_else(|_| fs::copy(&log, &target).map(drop))
            .map_err(|source| InstanceError::file("keep", &log, source))?;
    }
    files::sync_folder(&folder)?;
    forget_old(aside)?;
    Ok(Some(folder))
}

/// `binlog.000001` and so on, with their sizes.
fn binary_logs(datadir: &Path) -> Result<Vec<(PathBuf, u64)>, InstanceError> {
    let failed = |source| InstanceError::file("read", datadir, source);
    let mut logs = Vec::new();
    for entry in fs::read_dir(datadir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("binlog."));
        if number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
            logs.push((entry.path(), entry.metadata().map_err(failed)?.len()));
        }
    }
    Ok(logs)
}

fn forget_old(aside: &Path) -> Result<(), InstanceError> {
    let failed = |source| InstanceError::file("read", aside, source);
    let mut folders = fs::read_dir(aside)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()).map_err(failed))
        .collect::<Result<Vec<_>, _>>()?;
    // Their names are times: the order of names is that of time.
    folders.sort();
    let old = folders.len().saturating_sub(KEPT);
    folders
        .iter()
        .take(old)
        .try_for_each(|folder| files::remove(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moco_797_the_logs_of_an_errant_instance_are_kept() {
        let volume = tempfile::tempdir().unwrap();
        let (datadir, aside) = (volume.path().join("data"), volume.path().join("aside"));
        fs::create_dir(&datadir).unwrap();
        assert_eq!(keep(&datadir, &aside, "20260101T000000Z").unwrap(), None);
        for name in ["binlog.000001", "binlog.000002", "binlog.index", "ibdata1"] {
            fs::write(datadir.join(name), name).unwrap();
        }
        let folder = keep(&datadir, &aside, "20260101T000000Z").unwrap().unwrap();
        fs::remove_file(datadir.join("binlog.000002")).unwrap();
        assert_eq!(
            fs::read_to_string(folder.join("binlog.000002")).unwrap(),
            "binlog.000002"
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    }

    #[test]
    fn keeps_the_newest_only() {
        let volume = tempfile::tempdir().unwrap();
        let (datadir, aside) = (volume.path().join("data"), volume.path().join("aside"));
        fs::create_dir(&datadir).unwrap();
        for (name, size) in [
            ("binlog.000001", 10),
            ("binlog.000002", BYTES - 5),
            ("binlog.000003", 5),
        ] {
            fs::File::create(datadir.join(name))
                .unwrap()
                .set_len(size)
                .unwrap();
        }
        let folder = keep(&datadir, &aside, "20260101T000000Z").unwrap().unwrap();
        assert!(!folder.join("binlog.000001").exists() && folder.join("binlog.000002").exists());
        keep(&datadir, &aside, "20260102T000000Z").unwrap();
        keep(&datadir, &aside, "20260103T000000Z").unwrap();
        let mut names: Vec<_> = fs::read_dir(&aside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["20260102T000000Z", "20260103T000000Z"]);
    }
}
