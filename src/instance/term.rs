//! The leader's term on the volume.

use std::{io::ErrorKind, path::PathBuf};

use super::{InstanceError, files};

/// The highest term ever obeyed. A command of an older one is refused: its sender is no longer the
/// leader and may not know.
#[derive(Debug)]
pub(super) struct Terms {
    file: PathBuf,
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
    /// Terms kept in `file`.
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            highest: None,
        }
    }

    /// The highest so far; 0 on a volume that never obeyed any.
    pub(super) fn highest(&mut self) -> Result<u64, InstanceError> {
        if let Some(highest) = self.highest {
            return Ok(highest);
        }
        let highest = match std::fs::read_to_string(&self.file) {
            Ok(text) => text.trim().parse().map_err(|_| InstanceError::Term {
                path: self.file.clone(),
                text,
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(InstanceError::file("read", &self.file, error)),
        };
        Ok(*self.highest.insert(highest))
    }

    /// Takes a command's term. A higher one is durable before this returns.
    pub(super) fn obey(&mut self, term: u64) -> Result<Obey, InstanceError> {
        let highest = self.highest()?;
        if term < highest {
            return Ok(Obey::Stale);
        }
        if term > highest {
            files::replace(&self.file, format!("{term}\n").as_bytes(), 0o644)?;
            self.highest = Some(term);
        }
        Ok(Obey::Yes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_older_terms_across_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("term");
        let mut terms = Terms::new(file.clone());
        assert_eq!(terms.highest().unwrap(), 0);
        assert_eq!(terms.obey(7).unwrap(), Obey::Yes);
        assert_eq!(terms.obey(7).unwrap(), Obey::Yes);
        let mut terms = Terms::new(file);
        assert_eq!(terms.obey(6).unwrap(), Obey::Stale);
        assert_eq!(terms.highest().unwrap(), 7);
    }

    #[test]
    fn obeys_nobody_while_the_term_cannot_be_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("term");
        std::fs::write(&file, "seven").unwrap();
        let mut terms = Terms::new(file.clone());
        assert!(matches!(terms.obey(9), Err(InstanceError::Term { .. })));
        std::fs::write(&file, "8").unwrap();
        assert_eq!(terms.obey(9).unwrap(), Obey::Yes, "it heals");
    }

    #[test]
    fn does_not_obey_what_it_cannot_write_down() {
        let folder = tempfile::tempdir().unwrap();
        let mut terms = Terms::new(folder.path().join("missing/term"));
        assert!(terms.obey(1).is_err());
        assert_eq!(terms.highest().unwrap(), 0);
    }
}
