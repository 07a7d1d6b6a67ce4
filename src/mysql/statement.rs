//! The statements that change a server.

use std::fmt;

use super::{Donor, Source, accounts::CLONE, accounts::REPLICATION, text::literal};

/// A statement that answers no rows. Prints as SQL.
#[derive(Clone)]
pub enum Statement {
    /// Sets a global variable to this literal.
    Set(&'static str, String),
    /// Stops receiver and applier.
    StopReplica,
    /// Stops the receiver.
    StopReceiver,
    /// Starts receiver and applier.
    StartReplica,
    /// Starts the receiver.
    StartReceiver,
    /// Starts the applier.
    StartApplier,
    /// Sets the channel's source. Every option is named: those that are not go back to their defaults
    /// when the host changes (seen: the heartbeat to 30 s).
    ChangeSource {
        /// The new source.
        source: Source,
        /// Names `SOURCE_AUTO_POSITION` too, which needs a stopped applier; else it stays as it is.
        auto_position: bool,
    },
    /// Forgets the source, and with it the relay logs.
    ResetReplica,
    /// Closes a session.
    Kill(u64),
    /// Ends what a session runs.
    KillQuery(u64),
    /// Replaces all data.
    Clone(Donor),
    /// Begins a new binary log, so that those before it are complete.
    FlushBinaryLogs,
    /// Reads the certificate's files again.
    ReloadTls,
    /// A statement that goes through the binary log, as it is.
    Logged(String),
}

impl Statement {
    /// Sets a global variable to `value`, a literal.
    pub(super) fn set(variable: &'static str, value: impl fmt::Display) -> Self {
        Self::Set(variable, value.to_string())
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(variable, value) => write!(f, "SET GLOBAL {variable}={value}"),
            Self::StopReplica => f.write_str("STOP REPLICA"),
            Self::StopReceiver => f.write_str("STOP REPLICA IO_THREAD"),
            Self::StartReplica => f.write_str("START REPLICA"),
            Self::StartReceiver => f.write_str("START REPLICA IO_THREAD"),
            Self::StartApplier => f.write_str("START REPLICA SQL_THREAD"),
            Self::ChangeSource {
                source,
                auto_position,
            } => change_source(f, source, *auto_position),
            Self::ResetReplica => f.write_str("RESET REPLICA ALL"),
            Self::Kill(id) => write!(f, "KILL {id}"),
            Self::KillQuery(id) => write!(f, "KILL QUERY {id}"),
            Self::Clone(donor) => write!(
                f,
                "CLONE INSTANCE FROM {}@{}:{} IDENTIFIED BY {} REQUIRE SSL",
                literal(CLONE),
                literal(&donor.host),
                donor.port,
                literal(&donor.password),
            ),
            Self::FlushBinaryLogs => f.write_str("FLUSH BINARY LOGS"),
            Self::ReloadTls => f.write_str("ALTER INSTANCE RELOAD TLS"),
            Self::Logged(statement) => f.write_str(statement),
        }
    }
}

fn change_source(f: &mut fmt::Formatter<'_>, source: &Source, auto_position: bool) -> fmt::Result {
    write!(
        f,
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST={}, SOURCE_PORT={}, SOURCE_USER={}, \
         SOURCE_PASSWORD={}, SOURCE_SSL=1, SOURCE_SSL_CA={}, SOURCE_SSL_VERIFY_SERVER_CERT={}, \
         SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=315360000, SOURCE_HEARTBEAT_PERIOD=1",
        literal(&source.host),
        source.port,
        literal(REPLICATION),
        literal(&source.password),
        literal(&source.ca.to_string_lossy()),
        u8::from(source.verify_host),
    )?;
    if auto_position {
        f.write_str(", SOURCE_AUTO_POSITION=1")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_every_option_and_escapes_the_password() {
        let source = Source {
            host: "demo-0.demo-instances.x.svc".into(),
            port: 3306,
            password: "p'w".into(),
            ca: "/etc/mainstay/tls/ca.crt".into(),
            verify_host: true,
            acknowledge: true,
        };
        let change = |auto_position| {
            let source = source.clone();
            Statement::ChangeSource {
                source,
                auto_position,
            }
            .to_string()
        };
        for part in [
            "SOURCE_PASSWORD='p''w'",
            "SOURCE_SSL_VERIFY_SERVER_CERT=1",
            "SOURCE_HEARTBEAT_PERIOD=1",
            "SOURCE_AUTO_POSITION=1",
        ] {
            assert!(change(true).contains(part), "{part}");
        }
        assert!(!change(false).contains("AUTO_POSITION"));
    }
}
