//! Following a source.

use std::{path::PathBuf, time::Duration};

use super::{Channel, MysqlError, STATEMENT, Session, Statement, ThreadState};

/// How long a replication thread may take to stop: a receiver that is in the middle of connecting
/// to a server that does not answer needs 2 s (measured), an applier finishes its transaction.
const STOP: Duration = Duration::from_secs(20);

/// Where and how to replicate from.
#[derive(Clone)]
pub struct Source {
    /// DNS name; must be in the source's certificate.
    pub host: String,
    /// MySQL port.
    pub port: u16,
    /// Password of the account [`super::REPLICATION`].
    pub password: String,
    /// The CA that signed the source's certificate.
    pub ca: PathBuf,
    /// Whether its certificate must name the host; without it, only the CA is checked.
    pub verify_host: bool,
    /// Whether this replica acknowledges commits.
    pub acknowledge: bool,
}

/// What has to be done so that a channel follows a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It does already.
    Nothing,
    /// Only the applier is stopped.
    StartApplier,
    /// The receiver is set up anew while the applier runs, so that the relay logs stay.
    Repoint,
    /// No channel yet.
    SetUp,
}

fn step(channel: Option<&Channel>, host: &str, acknowledges: bool, acknowledge: bool) -> Step {
    let Some(channel) = channel else {
        return Step::SetUp;
    };
    let same = channel.host == host && acknowledges == acknowledge;
    match channel.receiver() {
        // A receiver that connects goes on trying by itself; starting it again would only put it off.
        // It would go on for ever with a password that was changed.
        ThreadState::Connecting if same && !is_refused(channel.receiver_errno) => {}
        ThreadState::On if same => {}
        _ => return Step::Repoint,
    }
    if channel.applier() == ThreadState::On {
        Step::Nothing
    } else {
        Step::StartApplier
    }
}

/// Access denied, or a certificate that is not trusted.
fn is_refused(errno: u16) -> bool {
    matches!(errno, 1045 | 2026)
}

/// Replicates from `source`; both threads were started when it returns, not necessarily connected.
/// Nothing is done where that is so already.
///
/// What was received from the former source and is not applied yet is not lost (moco#731: the new
/// source may have purged it): MySQL drops relay logs when a channel is changed with both threads
/// stopped, so the receiver alone is changed, with the applier running. Where the applier can't run
/// because of an error and something is not applied, the channel is left as it is.
pub async fn follow(session: &mut dyn Session, source: &Source) -> Result<(), MysqlError> {
    let globals = session.globals().await?;
    if !globals.super_read_only {
        return Err(MysqlError::NotNow(
            "it is writable: it must be demoted first".to_owned(),
        ));
    }
    if globals.semi_sync_source {
        // Applied transactions would wait for acknowledgements.
        semi_sync_source_off(session).await?;
    }
    let channel = session.channel().await?;
    let step = step(
        channel.as_ref(),
        &source.host,
        globals.semi_sync_replica,
        source.acknowledge,
    );
    match step {
        Step::Nothing => return Ok(()),
        Step::StartApplier => return start_applier(session).await,
        Step::Repoint => session.run(&Statement::StopReceiver, STOP).await?,
        Step::SetUp => session.run(&Statement::StopReplica, STOP).await?,
    }
    let acknowledge = if source.acknowledge { "ON" } else { "OFF" };
    let set = Statement::set("rpl_semi_sync_replica_enabled", acknowledge);
    session.run(&set, STATEMENT).await?;
    if step == Step::Repoint {
        start_applier(session).await?;
        let change = Statement::ChangeSource {
            source: source.clone(),
            auto_position: false,
        };
        session.run(&change, STATEMENT).await?;
        return session.run(&Statement::StartReceiver, STATEMENT).await;
    }
    let change = Statement::ChangeSource {
        source: source.clone(),
        auto_position: true,
    };
    session.run(&change, STATEMENT).await?;
    session.run(&Statement::StartReplica, STATEMENT).await
}

/// Starts the applier; an error where it runs into one at once.
async fn start_applier(session: &mut dyn Session) -> Result<(), MysqlError> {
    session.run(&Statement::StartApplier, STATEMENT).await?;
    match session.channel().await?.map(|channel| channel.applier()) {
        Some(ThreadState::Failed(why)) => Err(MysqlError::NotNow(format!(
            "its applier can't go on: {why}"
        ))),
        _ => Ok(()),
    }
}

/// Stops receiving; the applier goes on. Once it returns, this replica acknowledges nothing more.
pub async fn stop_receiver(session: &mut dyn Session) -> Result<(), MysqlError> {
    if session.channel().await?.is_none() {
        return Ok(());
    }
    session.run(&Statement::StopReceiver, STOP).await
}

/// Stops the receiver, applies all that was received, then forgets the source.
///
/// # Errors
/// [`MysqlError::NotNow`] names what is not applied after `within`, or the applier's error. The
/// source is not forgotten then, and nothing received is lost.
pub async fn apply_and_forget(
    session: &mut dyn Session,
    within: Duration,
) -> Result<(), MysqlError> {
    let Some(channel) = session.channel().await? else {
        return Ok(());
    };
    session.run(&Statement::StopReceiver, STOP).await?;
    if channel.applier() != ThreadState::On {
        session.run(&Statement::StartApplier, STATEMENT).await?;
    }
    let deadline = tokio::time::Instant::now() + within;
    loop {
        // Once more now that the receiver has stopped: its set is final.
        let Some(channel) = session.channel().await? else {
            return Ok(());
        };
        if session
            .wait_executed(&channel.received, Duration::from_secs(1))
            .await?
        {
            break;
        }
        if let ThreadState::Failed(why) = channel.applier() {
            let message = format!("its applier can't go on with what was received: {why}");
            return Err(MysqlError::NotNow(message));
        }
        if tokio::time::Instant::now() >= deadline {
            let executed = session.globals().await?.gtid_executed;
            let missing = channel.pending(&executed)?;
            let message = format!(
                "{} received transactions are not applied: {missing}",
                missing.count()
            );
            return Err(MysqlError::NotNow(message));
        }
    }
    forget_source(session).await
}

/// Forgets the source, and with it the relay logs.
pub async fn forget_source(session: &mut dyn Session) -> Result<(), MysqlError> {
    session.run(&Statement::StopReplica, STOP).await?;
    session.run(&Statement::ResetReplica, STATEMENT).await
}

/// Switches the semi-sync source off, which answers commits that wait with OK: refused while any do, or
/// could.
pub async fn semi_sync_source_off(session: &mut dyn Session) -> Result<(), MysqlError> {
    let globals = session.globals().await?;
    if !globals.semi_sync_source {
        return Ok(());
    }
    if !globals.super_read_only {
        return Err(MysqlError::NotNow("it is writable".to_owned()));
    }
    match session.counters().await?.waiting {
        0 => {
            let off = Statement::set("rpl_semi_sync_source_enabled", "OFF");
            session.run(&off, STATEMENT).await
        }
        waiting => {
            let message = format!("{waiting} commits wait for an acknowledgement");
            Err(MysqlError::NotNow(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::read::channel_for_tests as channel;

    #[test]
    fn follows_again_only_what_needs_it() {
        let on = channel("a", "ON", 0, true);
        assert_eq!(step(None, "a", false, true), Step::SetUp);
        assert_eq!(step(Some(&on), "a", true, true), Step::Nothing);
        assert_eq!(
            step(Some(&on), "a", false, true),
            Step::Repoint,
            "acknowledging starts with the receiver"
        );
        assert_eq!(step(Some(&on), "b", true, true), Step::Repoint);
        assert_eq!(
            step(Some(&channel("a", "ON", 0, false)), "a", true, true),
            Step::StartApplier
        );
        assert_eq!(
            step(
                Some(&channel("a", "CONNECTING", 2003, true)),
                "a",
                true,
                true
            ),
            Step::Nothing
        );
        assert_eq!(
            step(
                Some(&channel("a", "CONNECTING", 1045, true)),
                "a",
                true,
                true
            ),
            Step::Repoint
        );
        assert_eq!(
            step(Some(&channel("a", "OFF", 0, true)), "a", true, true),
            Step::Repoint
        );
    }
}
