//! SIGTERM: the pod goes away.

use std::time::Duration;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{sleep, timeout},
};

use super::{
    board::{Board, Facts, Process},
    supervisor::Server,
};
use crate::mysql::{Demoted, MysqlError, attached_replicas, demote};
use crate::sync::watch;

/// How long a writable primary waits for the operator to hand its role to another instance.
const HANDOVER: Duration = Duration::from_secs(10);
/// How long a demoted primary goes on serving its binary log, so that the new one can fetch the rest.
const LAST_READERS: Duration = Duration::from_secs(10);
/// How long it may take to become read-only by itself.
const READ_ONLY: Duration = Duration::from_secs(5);
/// Pause between two looks at who still reads the binary log.
const LOOK: Duration = Duration::from_millis(100);

/// The order to stop mysqld. Only ever grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stop {
    /// Go on.
    No,
    /// Let it shut down. Only where no commit waits for an acknowledgement.
    Cleanly,
    /// Kill it. What waits for an acknowledgement is not answered.
    Kill,
}

/// Waits for a signal to stop, then does [`stop`].
pub(super) async fn on_signal(
    board: Board,
    servers: watch::Receiver<Option<Server>>,
    orders: watch::Sender<Stop>,
) -> std::io::Result<()> {
    let mut signals = Signals::new()?;
    signals.any().await;
    stop(board, servers, orders).await;
    Ok(())
}

/// Sees to it that no unacknowledged commit will be answered, and then orders the stop.
pub(super) async fn stop(
    board: Board,
    servers: watch::Receiver<Option<Server>>,
    orders: watch::Sender<Stop>,
) {
    tracing::info!("stopping");
    board.change(|facts| facts.stopping = true);
    let handed_over = board.look(is_primary) && hand_over(&board).await;
    let server = servers.borrow().clone();
    let order = match server {
        // Recovering from a crash: read-only by its configuration, nothing was answered yet.
        Some(_) if board.look(|facts| facts.process == Process::Starting) => Stop::Cleanly,
        Some(server) => match timeout(READ_ONLY, close(&server)).await {
            Ok(Ok(Demoted::Cleanly)) => Stop::Cleanly,
            // Whether it is read-only is unknown.
            Ok(Ok(Demoted::MustBeKilled) | Err(_)) | Err(_) => unclear(board.look(acknowledges)),
        },
        None => Stop::Cleanly,
    };
    if order == Stop::Kill {
        tracing::warn!("commits may wait for an acknowledgement: mysqld is killed");
    } else if handed_over {
        last_readers(&board, &servers).await;
    }
    orders.send_replace(order);
}

struct Signals {
    term: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let (term, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self {
            term: signal(term)?,
            interrupt: signal(interrupt)?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            biased;
            _ = self.term.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Whether it is a writable primary with replicas, whose role another can take.
fn is_primary(facts: &Facts) -> bool {
    facts
        .server
        .as_ref()
        .is_some_and(|server| !server.super_read_only && server.semi_sync_source)
}

/// Whether commits wait for acknowledgements, as far as is known.
fn acknowledges(facts: &Facts) -> bool {
    facts
        .server
        .as_ref()
        .is_none_or(|server| server.semi_sync_source)
}

/// What to do with a server that could not be made read-only: without semi-sync there is nothing
/// that could be answered wrongly, and a clean shutdown loses nothing.
fn unclear(acknowledges: bool) -> Stop {
    if acknowledges {
        Stop::Kill
    } else {
        Stop::Cleanly
    }
}

/// Waits, within a bound, until the operator has demoted this instance. Whether it has.
async fn hand_over(board: &Board) -> bool {
    let mut facts = board.subscribe();
    let demoted = facts.wait_for(|facts| !is_primary(facts));
    timeout(HANDOVER, demoted).await.is_ok()
}

/// Makes the server read-only, if the operator has not.
async fn close(server: &Server) -> Result<Demoted, MysqlError> {
    let mut session = server.accounts.admin.open().await?;
    let mut helper = server.accounts.admin.open().await?;
    demote(session.as_mut(), helper.as_mut()).await
}

/// Waits, within a bound, until no replica reads the binary log any more, or this instance follows
/// the new primary: by then that one has what it needs.
async fn last_readers(board: &Board, servers: &watch::Receiver<Option<Server>>) {
    let server = servers.borrow().clone();
    let Some(server) = server else { return };
    let follows = |facts: &Facts| {
        facts
            .server
            .as_ref()
            .is_some_and(|server| server.replication.is_some())
    };
    let read = async {
        let mut session = server.accounts.admin.open().await?;
        while !board.look(follows) && attached_replicas(session.as_mut()).await? > 0 {
            sleep(LOOK).await;
        }
        Ok::<_, MysqlError>(())
    };
    let _ = timeout(LAST_READERS, read).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::ServerState;

    fn board(server: Option<ServerState>) -> Board {
        let board = Board::new("demo-0", "uid");
        board.change(|facts| {
            facts.process = Process::Up;
            facts.server = server;
        });
        board
    }

    fn writable(semi_sync_source: bool) -> ServerState {
        ServerState {
            semi_sync_source,
            ..ServerState::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_the_handover_and_no_longer_than_it_may() {
        let board = board(Some(writable(true)));
        assert!(!hand_over(&board).await, "the operator is away");
        let waiting = tokio::spawn({
            let board = board.clone();
            async move { hand_over(&board).await }
        });
        tokio::task::yield_now().await;
        board.change(|facts| {
            let demoted = ServerState {
                super_read_only: true,
                ..writable(false)
            };
            facts.server = Some(demoted);
        });
        assert!(waiting.await.unwrap());
    }

    #[test]
    fn only_a_primary_with_replicas_has_a_role_to_hand_over() {
        assert!(board(Some(writable(true))).look(is_primary));
        assert!(
            !board(Some(writable(false))).look(is_primary),
            "one instance only"
        );
        assert!(!board(None).look(is_primary));
    }

    #[test]
    fn what_may_wait_for_acknowledgements_is_killed() {
        assert_eq!(
            unclear(board(Some(writable(true))).look(acknowledges)),
            Stop::Kill
        );
        assert_eq!(
            unclear(board(None).look(acknowledges)),
            Stop::Kill,
            "unknown is not no"
        );
        assert_eq!(
            unclear(board(Some(writable(false))).look(acknowledges)),
            Stop::Cleanly
        );
    }
}
