//! A mysqld of this machine: whether there is one, and whether it is one that instances can run.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::error::DemoError;
use super::folder::Folder;
use crate::instance::find_mysqld;

/// The oldest series whose statements the instance manager speaks.
const OLDEST: (u32, u32) = (8, 4);
/// For `mysqld --version`.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The mysqld to run; or, where none was named, why there is none that is of use.
///
/// # Errors
/// [`DemoError::Mysqld`] where the one that was named is of no use.
pub(super) async fn choose(named: Option<&Path>) -> Result<Result<PathBuf, String>, DemoError> {
    if let Some(named) = named {
        let path = named.to_owned();
        let refuse = |why| DemoError::Mysqld { path, why };
        let checked = version(named).await.and_then(|version| usable(&version));
        checked.map_err(refuse)?;
        return Ok(Ok(named.to_owned()));
    }
    let path = std::env::var_os("PATH");
    let Some(found) = find_mysqld(path.as_deref()) else {
        return Ok(Err("no mysqld was found".to_owned()));
    };
    let checked = version(&found).await.and_then(|version| usable(&version));
    let why = |why| format!("{} is of no use: {why}", found.display());
    Ok(checked.map_err(why).map(|()| found.clone()))
}

/// The program that instances run: `mysqld` itself, or as root, whom it refuses unless it is told
/// that this is meant, a script that tells it.
pub(super) fn program(mysqld: &Path, folder: &Folder) -> Result<PathBuf, DemoError> {
    use std::os::unix::fs::PermissionsExt as _;
    if !nix::unistd::geteuid().is_root() {
        return Ok(mysqld.to_owned());
    }
    let quoted = mysqld.to_string_lossy().replace('\'', r"'\''");
    // An option file must be the first argument, so ours is the last.
    let script = folder.write(
        "mysqld",
        &format!("#!/bin/sh\nexec '{quoted}' \"$@\" --user=root\n"),
    )?;
    let executable = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&script, executable).map_err(DemoError::file(&script))?;
    Ok(script)
}

async fn version(mysqld: &Path) -> Result<String, String> {
    let mut command = Command::new(mysqld);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = match timeout(VERSION_TIMEOUT, command.output()).await {
        Ok(output) => output.map_err(|error| error.to_string())?,
        Err(_) => {
            return Err(format!(
                "it does not say its version within {VERSION_TIMEOUT:?}"
            ));
        }
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    let first = error.lines().next().unwrap_or_default();
    Err(format!(
        "it does not say its version: {}: {first}",
        output.status
    ))
}

/// Whether that is what a mysqld that is of use says of its version.
fn usable(said: &str) -> Result<(), String> {
    let version = said
        .split_whitespace()
        .skip_while(|word| *word != "Ver")
        .nth(1);
    let version = version.ok_or_else(|| format!("its version is not known: {:?}", said.trim()))?;
    if version.contains("MariaDB") {
        return Err(format!("it is {version}, not MySQL"));
    }
    let mut numbers = version.split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= OLDEST => Ok(()),
        _ => Err(format!(
            "it is {version}, and {}.{} is the oldest",
            OLDEST.0, OLDEST.1
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_a_mysql_whose_statements_are_known_is_of_use() {
        let said =
            |version: &str| format!("/usr/sbin/mysqld  Ver {version} for Linux on x86_64 (x)\n");
        for good in ["9.7.4", "8.4.0", "8.4.3-0ubuntu1", "10.0.1"] {
            assert_eq!(usable(&said(good)), Ok(()), "{good}");
        }
        for bad in ["8.0.40", "5.7.44", "10.11.6-MariaDB-0+deb12u1", "9"] {
            let why = usable(&said(bad)).unwrap_err();
            assert!(why.starts_with(&format!("it is {bad}, ")), "{why}");
        }
        assert!(usable("").is_err());
    }

    #[tokio::test]
    async fn one_that_was_named_is_taken_or_refused_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mysqld");
        let write = |text: &str| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
        };
        write("#!/bin/sh\necho \"$0  Ver 9.7.4 for Linux on x86_64\"\n");
        assert_eq!(choose(Some(&file)).await.unwrap(), Ok(file.clone()));
        for (text, why) in [
            (
                "#!/bin/sh\necho \"Ver 8.0.1\"\n",
                "it is 8.0.1, and 8.4 is the oldest",
            ),
            ("#!/bin/sh\necho gone >&2\nexit 3\n", "exit status: 3: gone"),
        ] {
            write(text);
            let error = choose(Some(&file)).await.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn root_is_told_apart_and_a_path_is_quoted() {
        let folder = Folder::make(None, false).unwrap();
        let program = program(Path::new("/bin/ec'ho"), &folder).unwrap();
        if nix::unistd::geteuid().is_root() {
            let script = fs::read_to_string(program).unwrap();
            assert_eq!(
                script,
                "#!/bin/sh\nexec '/bin/ec'\\''ho' \"$@\" --user=root\n"
            );
        } else {
            assert_eq!(program, Path::new("/bin/ec'ho"));
        }
    }
}
