//! The leader's term on the volume.

use std::{io::ErrorKind, path::Path, sync::Arc};

use super::{InstanceError, container::Container, files};

/// The highest term ever obeyed. A command of an older one is refused: its sender is no longer the
/// leader and may not know.
pub(super) struct Terms {
    container: Arc<dyn Container>,
    /// `None` until it could be read: then nothing is obeyed, for 0 would obey anyone.
    highest: Option<u64>,
}

/// Whether a term is obeyed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obey {
    /// It is the highest so far, durably.
    Yes,
    /// A higher one was obeyed before.
    Stale,
}

impl Terms {
    /// Terms kept by `container`.
    pub(super) fn new(container: Arc<dyn Container>) -> Self {
        Self {
            container,
            highest: None,
        }
    }

    /// The highest so far; 0 on a volume that never obeyed any.
    pub(super) fn highest(&mut self) -> Result<u64, InstanceError> {
        if let Some(highest) = self.highest {
            return Ok(highest);
        }
        let highest = self.container.term()?;
        Ok(*self.highest.insert(highest))
    }

    /// Takes a command's term. A higher one is durable before this returns.
    pub(super) fn obey(&mut self, term: u64) -> Result<Obey, InstanceError> {
        let highest = self.highest()?;
        if term < highest {
            return Ok(Obey::Stale);
        }
        if term > highest {
            self.container.keep_term(term)?;
            self.highest = Some(term);
        }
        Ok(Obey::Yes)
    }
}

/// Reads the term in `file`; 0 where there is none.
pub(super) fn read(file: &Path) -> Result<u64, InstanceError> {
    match std::fs::read_to_string(file) {
        Ok(text) => text.trim().parse().map_err(|_| InstanceError::Term {
            path: file.to_owned(),
            text,
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(InstanceError::file("read", file, error)),
    }
}

/// Writes the term to `file`. Durable when it returns.
pub(super) fn write(file: &Path, term: u64) -> Result<(), InstanceError> {
    files::replace(file, format!("{term}\n").as_bytes(), 0o644)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::instance::{local::Local, process::Children, settings};

    /// Terms kept in a folder, as the file `mainstay/term`.
    fn terms(volume: &Path) -> Terms {
        let settings = settings::Settings {
            volume: volume.to_owned(),
            ..settings::for_tests()
        };
        Terms::new(Arc::new(Local::new(
            Arc::new(settings),
            Children::default(),
        )))
    }

    fn volume() -> tempfile::TempDir {
        let volume = tempfile::tempdir().unwrap();
        std::fs::create_dir(volume.path().join("mainstay")).unwrap();
        volume
    }

    #[test]
    fn refuses_older_terms_across_restarts() {
        let volume = volume();
        let mut before = terms(volume.path());
        assert_eq!(before.highest().unwrap(), 0);
        assert_eq!(before.obey(7).unwrap(), Obey::Yes);
        assert_eq!(before.obey(7).unwrap(), Obey::Yes);
        let mut after = terms(volume.path());
        assert_eq!(after.obey(6).unwrap(), Obey::Stale);
        assert_eq!(after.highest().unwrap(), 7);
    }

    #[test]
    fn obeys_nobody_while_the_term_cannot_be_told() {
        let volume = volume();
        let file = volume.path().join("mainstay/term");
        std::fs::write(&file, "seven").unwrap();
        let mut terms = terms(volume.path());
        assert!(matches!(terms.obey(9), Err(InstanceError::Term { .. })));
        std::fs::write(&file, "8").unwrap();
        assert_eq!(terms.obey(9).unwrap(), Obey::Yes, "it heals");
    }

    #[test]
    fn does_not_obey_what_it_cannot_write_down() {
        let volume = tempfile::tempdir().unwrap();
        let mut terms = terms(volume.path());
        assert!(terms.obey(1).is_err());
        assert_eq!(terms.highest().unwrap(), 0);
    }
}
