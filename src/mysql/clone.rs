//! Replacing a server's data by a clone of another's.
//!
//! Seen on 9.7.4: cloning needs `super_read_only=OFF` (it drops the local data by ordinary means);
//! `read_only=ON` is enough to keep clients out. A clone that fails before the local data is dropped
//! leaves it as it was; one that fails later leaves an empty server whose `gtid_executed` is empty
//! too, so it does not claim to have what it lost. Accounts of the recipient stay until the clone is
//! complete, then they are the donor's.

use std::time::Duration;

use super::{
    MysqlError, Session, accounts::CLONE, read_channel, read_globals, replication::forget_source,
    session::STATEMENT, text::literal,
};

/// Limit for one clone. A clone of terabytes takes hours.
const CLONING: Duration = Duration::from_hours(48);

/// Donor of a clone.
#[derive(Clone)]
pub struct Donor {
    /// DNS name.
    pub host: String,
    /// MySQL port.
    pub port: u16,
    /// Password of the account [`CLONE`].
    pub password: String,
}

/// Makes a server ready to be overwritten: read-only, and without a source.
///
/// # Errors
/// [`MysqlError::NotNow`] where it is writable.
pub async fn prepare_clone(session: &mut Session) -> Result<(), MysqlError> {
    if !read_globals(session).await?.super_read_only {
        return Err(MysqlError::NotNow(
            "it is writable: it must be demoted first".to_owned(),
        ));
    }
    if read_channel(session).await?.is_some() {
        forget_source(session).await?;
    }
    Ok(())
}

/// Clones. When it returns without an error mysqld has ended, or is about to.
pub async fn clone_from(session: &mut Session, donor: &Donor) -> Result<(), MysqlError> {
    let address = literal(&format!("{}:{}", donor.host, donor.port));
    session
        .run(
            &format!("SET GLOBAL clone_valid_donor_list={address}"),
            STATEMENT,
        )
        .await?;
    session.run("SET GLOBAL read_only=ON", STATEMENT).await?;
    session
        .run("SET GLOBAL super_read_only=OFF", STATEMENT)
        .await?;
    let statement = format!(
        "CLONE INSTANCE FROM {}@{}:{} IDENTIFIED BY {} REQUIRE SSL",
        literal(CLONE),
        literal(&donor.host),
        donor.port,
        literal(&donor.password),
    );
    match session.run(&statement, CLONING).await {
        // It can't restart itself without a supervisor that it knows of (3707), or it does and takes
        // the connection with it.
        Ok(()) | Err(MysqlError::Server { code: 3707, .. } | MysqlError::Lost { .. }) => Ok(()),
        Err(error) => {
            session
                .run("SET GLOBAL super_read_only=ON", STATEMENT)
                .await?;
            Err(error)
        }
    }
}

/// Why the last clone did not complete; `None` where it did.
pub async fn clone_failure(session: &mut Session) -> Result<Option<String>, MysqlError> {
    let status = "SELECT STATE, ERROR_MESSAGE FROM performance_schema.clone_status";
    let row = session
        .rows::<(String, String)>(status, STATEMENT)
        .await?
        .into_iter()
        .next();
    Ok(match row {
        Some((state, _)) if state == "Completed" => None,
        Some((state, message)) => Some(format!("{state}: {message}")),
        None => Some("mysqld ended before it began".to_owned()),
    })
}

/// Makes a clone that is being received fail.
pub async fn stop_cloning(session: &mut Session) -> Result<(), MysqlError> {
    for row in session
        .rows::<mysql_async::Row>("SHOW PROCESSLIST", STATEMENT)
        .await?
    {
        let statement = row
            .get::<Option<String>, _>("Info")
            .flatten()
            .unwrap_or_default();
        if let Some(id) = row
            .get::<u64, _>("Id")
            .filter(|_| statement.starts_with("CLONE INSTANCE"))
        {
            session.run(&format!("KILL QUERY {id}"), STATEMENT).await?;
        }
    }
    Ok(())
}
