//! Becoming the primary, and ceasing to be it.
//!
//! What must never happen: a commit that has not its acknowledgements is answered with OK. Seen on
//! mysqld 9.7.4 with a session that waits for a semi-sync acknowledgement:
//! - `SET GLOBAL super_read_only=ON` waits behind it ("Waiting for global read lock"), and so does
//!   every new write; `@@super_read_only` reads ON meanwhile, `@@read_only` OFF.
//! - `KILL QUERY` does nothing. `KILL` closes the client's connection at once (it never sees OK);
//!   the commit goes on waiting without its client.
//! - `SHUTDOWN` and SIGTERM: after some seconds the wait is given up ("Forced shutdown. Some updates
//!   might not be replicated") and the transaction stays committed. In our runs the clients'
//!   connections were closed by then, or in the same 10 ms, which is too close to build on.
//! - `rpl_semi_sync_source_enabled=OFF` or a lower `…_wait_for_replica_count` answers it with OK.
//! - SIGKILL: the client loses its connection. The transaction is in the binary log, so recovery
//!   commits it; if no replica has it, it is errant from then on.
//!
//! So: semi-sync is only switched off, and mysqld only stopped in the clean way, once read-only has
//! really taken effect, which means that no commit is under way. Where it does not take effect in
//! time, mysqld is killed.

use std::time::Duration;

use super::{
    Channel, GtidSet, MysqlError, STATEMENT, Session, Statement, ThreadState,
    accounts::{ADMIN, CLONE, REPLICATION},
    replication::apply_and_forget,
};

/// `rpl_semi_sync_source_timeout`: ten years in milliseconds, practically infinite. (The largest
/// value that MySQL takes would overflow where it is added to the time.)
const ACK_TIMEOUT_MS: u64 = 315_360_000_000;
/// How long running statements may go on after read-only was asked for; then their sessions are
/// closed.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long read-only may take after the sessions were closed.
const LAST_CALL: Duration = Duration::from_secs(2);

/// How a demotion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demoted {
    /// Read-only, and nothing waits for an acknowledgement.
    Cleanly,
    /// Read-only did not take effect in time: mysqld must be killed, it comes back read-only.
    MustBeKilled,
}

/// Applies all that was received (within `within`), proves that it has `required`, forgets its
/// source and sets the acknowledgements that commits will need. Stays read-only.
///
/// # Errors
/// [`MysqlError::NotNow`] when something received can't be applied in time or something required is
/// missing; the source is not forgotten then.
pub async fn promote(
    session: &mut dyn Session,
    required: &str,
    acks: u32,
    within: Duration,
) -> Result<(), MysqlError> {
    let deadline = tokio::time::Instant::now() + within;
    // First what is required (it may be on its way), then whatever else was received: after that
    // the receiver is stopped and can't bring it any more.
    wait_required(session, required, deadline).await?;
    let left = deadline.saturating_duration_since(tokio::time::Instant::now());
    apply_and_forget(session, left.max(Duration::from_secs(1))).await?;
    set_acks(session, acks).await?;
    let off = Statement::set("rpl_semi_sync_replica_enabled", "OFF");
    session.run(&off, STATEMENT).await
}

/// Waits until `required` is executed, by the server's own judgement. Gives up at the deadline, and at
/// once where nothing can bring what is missing.
async fn wait_required(
    session: &mut dyn Session,
    required: &str,
    deadline: tokio::time::Instant,
) -> Result<(), MysqlError> {
    loop {
        let channel = session.channel().await?;
        let Some(rest) = session.missing(required).await? else {
            return Ok(());
        };
        let refused = |why: &str| {
            MysqlError::NotNow(format!("required transactions are missing: {rest} ({why})"))
        };
        let Some(channel) = channel else {
            return Err(refused("it has no source"));
        };
        if let Some(why) = cannot_come(&channel, &rest.parse()?)? {
            return Err(refused(&why));
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(refused("they did not come in time"));
        }
        if channel.applier() == ThreadState::Off {
            session.run(&Statement::StartApplier, STATEMENT).await?;
        }
        session
            .wait_executed(required, Duration::from_secs(1))
            .await?;
    }
}

/// Why a channel will not bring `missing`; `None` while it may.
fn cannot_come(channel: &Channel, missing: &GtidSet) -> Result<Option<String>, MysqlError> {
    if let ThreadState::Failed(why) = channel.applier() {
        return Ok(Some(format!("its applier can't go on: {why}")));
    }
    let here = missing.is_subset_of(&channel.received.parse()?);
    let receives = matches!(
        channel.receiver(),
        ThreadState::On | ThreadState::Connecting
    );
    Ok((!here && !receives).then(|| "it does not receive".to_owned()))
}

/// Sets how many acknowledgements a commit needs; 0 switches semi-sync off, which answers commits
/// that wait. Only for a server that is, or becomes, the primary.
pub async fn set_acks(session: &mut dyn Session, acks: u32) -> Result<(), MysqlError> {
    if session.channel().await?.is_some() {
        // Its applier would wait for acknowledgements.
        return Err(MysqlError::NotNow("it is a replica".to_owned()));
    }
    if acks == 0 {
        let off = Statement::set("rpl_semi_sync_source_enabled", "OFF");
        return session.run(&off, STATEMENT).await;
    }
    for (variable, value) in [
        ("rpl_semi_sync_source_timeout", ACK_TIMEOUT_MS.to_string()),
        ("rpl_semi_sync_source_wait_point", "AFTER_SYNC".to_owned()),
        ("rpl_semi_sync_source_wait_no_replica", "ON".to_owned()),
        (
            "rpl_semi_sync_source_wait_for_replica_count",
            acks.to_string(),
        ),
        ("rpl_semi_sync_source_enabled", "ON".to_owned()),
    ] {
        let statement = Statement::set(variable, value);
        session.run(&statement, STATEMENT).await?;
    }
    Ok(())
}

/// Accepts writes. `acks` is what it was promoted with.
///
/// # Errors
/// [`MysqlError::NotNow`] where it replicates from a source or commits would not wait for `acks`.
pub async fn open(session: &mut dyn Session, acks: u32) -> Result<(), MysqlError> {
    if let Some(channel) = session.channel().await? {
        let message = format!(
            "it is a replica of {}: it must be promoted first",
            channel.host
        );
        return Err(MysqlError::NotNow(message));
    }
    let globals = session.globals().await?;
    let present = if globals.semi_sync_source {
        globals.semi_sync_wait_for
    } else {
        0
    };
    if present != acks {
        let message =
            format!("commits would wait for {present} acknowledgements instead of {acks}");
        return Err(MysqlError::NotNow(message));
    }
    for variable in ["super_read_only", "read_only"] {
        let statement = Statement::set(variable, "OFF");
        session.run(&statement, STATEMENT).await?;
    }
    Ok(())
}

/// Makes a server read-only and closes its clients' sessions. `helper` closes sessions while `session`
/// waits. The semi-sync source stays on: switching it off takes up to a second (its receiver of
/// acknowledgements looks that often), and can wait until after the handover.
///
/// First read-only alone, so that what is under way ends well (milliseconds, normally); after
/// [`PATIENCE`] without the sessions; after [`LAST_CALL`] more it gives up.
pub async fn demote(
    session: &mut dyn Session,
    helper: &mut dyn Session,
) -> Result<Demoted, MysqlError> {
    if session.globals().await?.super_read_only {
        return Ok(Demoted::Cleanly);
    }
    if !set_read_only(session, helper).await? || session.counters().await?.waiting > 0 {
        return Ok(Demoted::MustBeKilled);
    }
    close_clients(helper).await?;
    Ok(Demoted::Cleanly)
}

/// Whether read-only took effect.
async fn set_read_only(
    session: &mut dyn Session,
    helper: &mut dyn Session,
) -> Result<bool, MysqlError> {
    let read_only = Statement::set("super_read_only", "ON");
    let mut setting = session.run(&read_only, PATIENCE + LAST_CALL);
    if let Ok(done) = tokio::time::timeout(PATIENCE, &mut setting).await {
        return done.map(|()| true);
    }
    close_clients(helper).await?;
    match setting.await {
        Ok(()) => Ok(true),
        Err(MysqlError::Timeout { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Closes every session that is neither the server's nor Mainstay's own.
async fn close_clients(session: &mut dyn Session) -> Result<(), MysqlError> {
    let own = [
        ADMIN,
        REPLICATION,
        CLONE,
        "system user",
        "event_scheduler",
        "unauthenticated user",
    ];
    for process in session.processes().await? {
        if own.contains(&process.user.as_str()) {
            continue;
        }
        match session.run(&Statement::Kill(process.id), STATEMENT).await {
            // It went away by itself.
            Err(MysqlError::Server { code: 1094, .. }) | Ok(()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How many replicas read this server's binary log now.
pub async fn attached_replicas(session: &mut dyn Session) -> Result<usize, MysqlError> {
    let processes = session.processes().await?;
    let dumps = |process: &&super::Process| process.command.starts_with("Binlog Dump");
    Ok(processes.iter().filter(dumps).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::read::channel_for_tests as channel;

    #[test]
    fn waits_only_for_what_may_come() {
        let missing: GtidSet = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7".parse().unwrap();
        let may = |channel: &Channel| cannot_come(channel, &missing).unwrap().is_none();
        assert!(may(&channel("a", "ON", 0, true)));
        assert!(may(&channel("a", "CONNECTING", 2003, true)));
        assert!(!may(&channel("a", "OFF", 0, true)));
        let mut received = channel("a", "OFF", 0, true);
        received.received = missing.to_string();
        assert!(may(&received), "it only has to be applied");
    }
}
