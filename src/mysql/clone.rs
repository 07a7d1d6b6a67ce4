//! Replacing a server's data by a clone of another's.
//!
//! Seen on 9.7.4: cloning needs `super_read_only=OFF` (it drops the local data by ordinary means);
//! `read_only=ON` is enough to keep clients out. A clone that fails before the local data is dropped
//! leaves it as it was; one that fails later leaves an empty server whose `gtid_executed` is empty
//! too, so it does not claim to have what it lost. Accounts of the recipient stay until the clone is
//! complete, then they are the donor's.

use std::time::Duration;

use super::{MysqlError, STATEMENT, Session, Statement, replication::forget_source, text::literal};

/// Limit for one clone. A clone of terabytes takes hours.
const CLONING: Duration = Duration::from_hours(48);

/// Donor of a clone.
#[derive(Clone)]
pub struct Donor {
    /// DNS name.
    pub host: String,
    /// MySQL port.
    pub port: u16,
    /// Password of the account [`super::CLONE`].
    pub password: String,
}

/// Makes a server ready to be overwritten: read-only, and without a source.
///
/// # Errors
/// [`MysqlError::NotNow`] where it is writable.
pub async fn prepare_clone(session: &mut dyn Session) -> Result<(), MysqlError> {
    if !session.globals().await?.super_read_only {
        return Err(MysqlError::NotNow(
            "it is writable: it must be demoted first".to_owned(),
        ));
    }
    if session.channel().await?.is_some() {
        forget_source(session).await?;
    }
    Ok(())
}

/// Clones. When it returns without an error mysqld has ended, or is about to.
pub async fn clone_from(session: &mut dyn Session, donor: &Donor) -> Result<(), MysqlError> {
    let address = literal(&format!("{}:{}", donor.host, donor.port));
    for (variable, value) in [
        ("clone_valid_donor_list", address.as_str()),
        ("read_only", "ON"),
        ("super_read_only", "OFF"),
    ] {
        let statement = Statement::set(variable, value);
        session.run(&statement, STATEMENT).await?;
    }
    match session.run(&Statement::Clone(donor.clone()), CLONING).await {
        // It can't restart itself without a supervisor that it knows of (3707), or it does and takes
        // the connection with it.
        Ok(()) | Err(MysqlError::Server { code: 3707, .. } | MysqlError::Lost { .. }) => Ok(()),
        Err(error) => {
            let read_only = Statement::set("super_read_only", "ON");
            session.run(&read_only, STATEMENT).await?;
            Err(error)
        }
    }
}

/// Why the last clone did not complete; `None` where it did.
pub async fn clone_failure(session: &mut dyn Session) -> Result<Option<String>, MysqlError> {
    Ok(match session.clone_status().await? {
        Some((state, _)) if state == "Completed" => None,
        Some((state, message)) => Some(format!("{state}: {message}")),
        None => Some("mysqld ended before it began".to_owned()),
    })
}

/// Makes a clone that is being received fail.
pub async fn stop_cloning(session: &mut dyn Session) -> Result<(), MysqlError> {
    for process in session.processes().await? {
        if process.info.starts_with("CLONE INSTANCE") {
            let end = Statement::KillQuery(process.id);
            session.run(&end, STATEMENT).await?;
        }
    }
    Ok(())
}
