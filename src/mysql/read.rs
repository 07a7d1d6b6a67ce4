//! Reading a server's state.

use std::fmt::Write as _;

use mysql_async::{Row, prelude::FromValue};
use tokio::time::Instant;

use super::{
    Connection, Counters, GtidSet, MysqlError, Process, Receiver, Replication, STATEMENT,
    ServerState, Session, ThreadState, text::summary,
};

/// One row when a source is configured. Read before [`GLOBALS`]: then what was executed is at least
/// as new as what was received, and a replica that keeps up does not seem to lag.
///
/// The times are the source's own (`ORIGINAL_COMMIT_TIMESTAMP`), so clocks are not compared.
const CHANNEL: &str = "\
SELECT c.HOST, c.PORT, s.SERVICE_STATE, s.LAST_ERROR_NUMBER, s.LAST_ERROR_MESSAGE, \
  REPLACE(s.RECEIVED_TRANSACTION_SET, '\\n', ''), \
  CONCAT_WS('/', s.SERVICE_STATE, s.SOURCE_UUID, s.COUNT_RECEIVED_HEARTBEATS, \
    s.LAST_HEARTBEAT_TIMESTAMP, s.QUEUEING_TRANSACTION), \
  s.QUEUEING_TRANSACTION <> '', \
  a.SERVICE_STATE, \
  (SELECT w.LAST_ERROR_MESSAGE FROM performance_schema.replication_applier_status_by_worker w \
    WHERE w.CHANNEL_NAME = '' AND w.LAST_ERROR_NUMBER <> 0 ORDER BY w.LAST_ERROR_TIMESTAMP LIMIT 1), \
  (SELECT o.LAST_ERROR_MESSAGE FROM performance_schema.replication_applier_status_by_coordinator o \
    WHERE o.CHANNEL_NAME = '' AND o.LAST_ERROR_NUMBER <> 0), \
  UNIX_TIMESTAMP(s.LAST_QUEUED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP) + 0e0, \
  (SELECT MIN(UNIX_TIMESTAMP(w.APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP)) + 0e0 \
    FROM performance_schema.replication_applier_status_by_worker w \
    WHERE w.CHANNEL_NAME = '' AND w.APPLYING_TRANSACTION <> ''), \
  (SELECT MAX(UNIX_TIMESTAMP(w.LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP)) + 0e0 \
    FROM performance_schema.replication_applier_status_by_worker w WHERE w.CHANNEL_NAME = '') \
FROM performance_schema.replication_connection_configuration c \
JOIN performance_schema.replication_connection_status s USING (CHANNEL_NAME) \
JOIN performance_schema.replication_applier_status a USING (CHANNEL_NAME) \
WHERE c.CHANNEL_NAME = '' AND c.HOST <> ''";

/// `super_read_only` counts only together with `read_only`: while `SET super_read_only=ON` waits for
/// running commits, 9.7 already shows one of the two as ON; both are ON once it is done.
///
/// The sets come last: what was committed under other rules than those read before them is in them.
const GLOBALS: &str = "\
SELECT @@version, @@server_uuid, @@GLOBAL.super_read_only AND @@GLOBAL.read_only, \
  @@GLOBAL.rpl_semi_sync_source_enabled, @@GLOBAL.rpl_semi_sync_source_wait_for_replica_count, \
  @@GLOBAL.rpl_semi_sync_replica_enabled, \
  REPLACE(@@GLOBAL.gtid_executed, '\\n', ''), REPLACE(@@GLOBAL.gtid_purged, '\\n', '')";

const COUNTERS: &str = "\
SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME IN \
  ('Rpl_semi_sync_source_clients', 'Rpl_semi_sync_source_wait_sessions')";

/// A replica's channel as the server shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Channel {
    /// Configured source.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// `SERVICE_STATE` of the receiver.
    pub(crate) receiver_state: String,
    /// Last error of the receiver, 0 for none. Stays when the receiver is stopped.
    pub receiver_errno: u16,
    /// Its words.
    pub(crate) receiver_error: String,
    /// `RECEIVED_TRANSACTION_SET`.
    pub received: String,
    /// Changes whenever the source was heard of.
    pub(crate) signs: String,
    /// Whether the applier runs.
    pub(crate) applier_on: bool,
    /// The error that stopped it.
    pub(crate) applier_error: Option<String>,
    /// Original commit time of the last transaction that was received, unix seconds.
    pub(crate) queued: Option<f64>,
    /// The same of the oldest that is being applied.
    pub(crate) applying: Option<f64>,
    /// The same of the newest that was applied.
    pub(crate) applied: Option<f64>,
}

impl Channel {
    /// State of the receiver.
    #[must_use]
    pub fn receiver(&self) -> ThreadState {
        match self.receiver_state.as_str() {
            "ON" => ThreadState::On,
            "CONNECTING" => ThreadState::Connecting,
            // What failed to connect is tried again without end (SOURCE_RETRY_COUNT): its message
            // is left over from before it was stopped on command.
            _ if self.receiver_errno == 0 || is_connect_error(&self.receiver_error) => {
                ThreadState::Off
            }
            _ => ThreadState::Failed(self.receiver_error.clone()),
        }
    }

    /// State of the applier.
    #[must_use]
    pub fn applier(&self) -> ThreadState {
        match (&self.applier_error, self.applier_on) {
            (_, true) => ThreadState::On,
            (None, false) => ThreadState::Off,
            (Some(error), false) => ThreadState::Failed(error.clone()),
        }
    }

    /// What was received and is not applied, given what was executed.
    pub fn pending(&self, executed: &str) -> Result<GtidSet, MysqlError> {
        Ok(self
            .received
            .parse::<GtidSet>()?
            .subtract(&executed.parse()?))
    }

    fn lag_seconds(&self, executed: &str) -> Option<f64> {
        if self.pending(executed).ok()?.is_empty() {
            return Some(0.0);
        }
        let known = |time: &f64| *time > 0.0;
        let behind = self.applying.filter(known).or(self.applied.filter(known))?;
        Some((self.queued.filter(known)? - behind).max(0.0))
    }
}

/// An error without the number of the attempt that it speaks of, which is another each second: the
/// state of a replica that can't connect would never stand still.
fn without_attempt(error: &str) -> String {
    let Some((before, rest)) = error.split_once(" This was attempt ") else {
        return error.to_owned();
    };
    rest.split_once(". ").map_or_else(
        || before.to_owned(),
        |(_, after)| format!("{before} {after}"),
    )
}

fn is_connect_error(message: &str) -> bool {
    message
        .to_ascii_lowercase()
        .contains("connecting to source")
}

/// When the source was last heard of, by our own clock.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    last: Option<(String, Instant)>,
}

impl Heard {
    /// Takes what a reading shows (host and signs of life) and says for how long it has not changed.
    fn silent_ms(&mut self, channel: &Channel, now: Instant) -> u64 {
        let signs = format!("{} {} {}", channel.host, channel.signs, channel.received);
        match &self.last {
            Some((last, at)) if *last == signs => {
                u64::try_from(now.saturating_duration_since(*at).as_millis()).unwrap_or(u64::MAX)
            }
            // The first word of the signs is the receiver's state: that a receiver went away is no
            // sign of life of its source.
            Some((_, at)) if channel.receiver() != ThreadState::On => {
                let at = *at;
                self.last = Some((signs, at));
                u64::try_from(now.saturating_duration_since(at).as_millis()).unwrap_or(u64::MAX)
            }
            _ => {
                self.last = Some((signs, now));
                0
            }
        }
    }
}

/// Reads the state. `heard` must be the same value at each reading of one server process.
pub async fn read_state(
    session: &mut dyn Session,
    heard: &mut Heard,
) -> Result<ServerState, MysqlError> {
    let channel = session.channel().await?;
    let mut state = session.globals().await?;
    let counters = session.counters().await?;
    state.semi_sync_clients = counters.clients;
    state.semi_sync_waiting = counters.waiting;
    if let Some(channel) = &channel {
        let silent_ms = heard.silent_ms(channel, Instant::now());
        state.replication = Some(replication(channel, &state.gtid_executed, silent_ms));
    } else {
        *heard = Heard::default();
    }
    Ok(state)
}

fn replication(channel: &Channel, executed: &str, source_silent_ms: u64) -> Replication {
    Replication {
        source_host: channel.host.clone(),
        receiver: Receiver {
            state: channel.receiver(),
            error: channel.receiver_error.clone(),
        },
        applier: channel.applier(),
        received: channel.received.clone(),
        source_silent_ms,
        lag_seconds: channel.lag_seconds(executed),
    }
}

/// Reads the channel; `None` where no source is configured.
pub(super) async fn channel(connection: &mut Connection) -> Result<Option<Channel>, MysqlError> {
    let Some(row) = connection
        .rows::<Row>(CHANNEL, STATEMENT)
        .await?
        .into_iter()
        .next()
    else {
        return Ok(None);
    };
    let mut row = Columns {
        row,
        next: 0,
        statement: CHANNEL,
    };
    let mut channel = Channel {
        host: row.take()?,
        port: row.take()?,
        receiver_state: row.take()?,
        receiver_errno: row.take()?,
        receiver_error: without_attempt(&row.take::<String>()?),
        received: row.take()?,
        signs: row.take()?,
        ..Channel::default()
    };
    let queueing: bool = row.take()?;
    channel.applier_on = row.take::<String>()? == "ON";
    let worker_error: Option<String> = row.take()?;
    channel.applier_error = worker_error.or(row.take()?);
    channel.queued = row.take()?;
    channel.applying = row.take()?;
    channel.applied = row.take()?;
    if queueing {
        // A big transaction is being received: no heartbeats come and the set stays the same for as
        // long. The position moves with every event.
        let position = connection
            .rows::<Row>("SHOW REPLICA STATUS", STATEMENT)
            .await?;
        let position = position
            .first()
            .and_then(|row| row.get::<u64, _>("Read_Source_Log_Pos"));
        let _ = write!(channel.signs, "/{position:?}");
    }
    Ok(Some(channel))
}

/// Reads everything but the channel and the counters.
pub(super) async fn globals(connection: &mut Connection) -> Result<ServerState, MysqlError> {
    let row = connection.row::<Row>(GLOBALS, STATEMENT).await?;
    let mut row = Columns {
        row,
        next: 0,
        statement: GLOBALS,
    };
    Ok(ServerState {
        version: row.take()?,
        server_uuid: row.take()?,
        super_read_only: row.take()?,
        semi_sync_source: row.take()?,
        semi_sync_wait_for: row.take()?,
        semi_sync_replica: row.take()?,
        gtid_executed: row.take()?,
        gtid_purged: row.take()?,
        ..ServerState::default()
    })
}

/// Reads the counters of the semi-sync source.
pub(super) async fn counters(connection: &mut Connection) -> Result<Counters, MysqlError> {
    let unreadable = || MysqlError::Answer {
        statement: summary(COUNTERS),
    };
    let (mut clients, mut waiting) = (None, None);
    for (name, value) in connection
        .rows::<(String, String)>(COUNTERS, STATEMENT)
        .await?
    {
        let value = value.parse().map_err(|_| unreadable())?;
        if name.eq_ignore_ascii_case("Rpl_semi_sync_source_clients") {
            clients = Some(value);
        } else {
            waiting = Some(value);
        }
    }
    Ok(Counters {
        clients: clients.ok_or_else(unreadable)?,
        waiting: waiting.ok_or_else(unreadable)?,
    })
}

/// Reads the list of sessions. The Performance Schema's table would be empty where it is switched off.
pub(super) async fn processes(connection: &mut Connection) -> Result<Vec<Process>, MysqlError> {
    let rows = connection
        .rows::<Row>("SHOW PROCESSLIST", STATEMENT)
        .await?;
    let text = |row: &Row, column: &str| {
        let text = row.get::<Option<String>, _>(column).flatten();
        text.unwrap_or_default()
    };
    let process = |row: &Row| {
        Some(Process {
            id: row.get("Id")?,
            user: text(row, "User"),
            command: text(row, "Command"),
            info: text(row, "Info"),
        })
    };
    Ok(rows.iter().filter_map(process).collect())
}

/// A row read from left to right.
struct Columns {
    row: Row,
    next: usize,
    statement: &'static str,
}

impl Columns {
    fn take<T: FromValue>(&mut self) -> Result<T, MysqlError> {
        let value = self.row.take_opt::<T, _>(self.next).and_then(Result::ok);
        self.next += 1;
        value.ok_or_else(|| MysqlError::Answer {
            statement: summary(self.statement),
        })
    }
}

#[cfg(test)]
pub(super) fn channel_for_tests(
    host: &str,
    receiver: &str,
    errno: u16,
    applier_on: bool,
) -> Channel {
    let receiver_error = if errno == 0 {
        ""
    } else {
        "Error connecting to source"
    };
    Channel {
        host: host.into(),
        receiver_state: receiver.into(),
        receiver_errno: errno,
        receiver_error: receiver_error.into(),
        applier_on,
        ..Channel::default()
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
