//! mysqld's error log.

/// Ends a start, and says nothing about why.
const ABORTING: &str = "MY-010119";

/// The words of a line of class ERROR, without time and thread, or `None` for any other line.
///
/// `2026-01-01T00:00:00.000000Z 0 [ERROR] [MY-000067] [Server] unknown variable 'x=1'.`
#[must_use]
pub fn error_message(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(" [ERROR] ")?;
    let (code, rest) = rest.strip_prefix('[')?.split_once("] ")?;
    let (_, message) = rest.strip_prefix('[')?.split_once("] ")?;
    (code != ABORTING).then(|| message.trim())
}

/// What one should read of an error log to learn why mysqld ended: the first error and the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    first: Option<String>,
    last: Option<String>,
}

impl Errors {
    /// Takes the next line of the log.
    pub fn read(&mut self, line: &str) {
        let Some(message) = error_message(line) else {
            return;
        };
        if self.first.is_none() {
            self.first = Some(message.to_owned());
        } else {
            self.last = Some(message.to_owned());
        }
    }

    /// Forgets what was read: mysqld answers, what came before did not keep it from starting.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Both, or `None` where the log has no error.
    #[must_use]
    pub fn summary(&self) -> Option<String> {
        match (&self.first, &self.last) {
            (None, _) => None,
            (Some(first), None) => Some(first.clone()),
            (Some(first), Some(last)) => Some(format!("{first} … {last}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_servers_words() {
        let mut errors = Errors::default();
        for line in [
            "2026-11-30T00:06:03.404000Z 0 [Warning] [MY-010939] [Server] Failed to get absolute path",
            "2026-11-30T00:06:03.404914Z 0 [ERROR] [MY-000058] [Server] Unknown suffix 'x' used for variable 'sync_binlog' (value 'xyz').",
            "2026-11-30T00:06:03.404917Z 0 [ERROR] [MY-000077] [Server] mysqld: Error while setting value 'xyz' to 'sync_binlog'.",
            "2026-11-30T00:06:03.404944Z 0 [ERROR] [MY-010119] [Server] Aborting",
            "not a line of the log",
        ] {
            errors.read(line);
        }
        assert_eq!(
            errors.summary().unwrap(),
            "Unknown suffix 'x' used for variable 'sync_binlog' (value 'xyz'). … mysqld: Error while setting value 'xyz' to 'sync_binlog'."
        );
        errors.clear();
        assert_eq!(errors.summary(), None);
    }
}
