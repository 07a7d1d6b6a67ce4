//! The tasks of a manager, over any container.

use std::sync::Arc;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::JoinSet,
};

use super::{
    api::Api, board::Board, commander::Commander, container::Container, listener, poller::Poller,
    stop, stop::Stop, supervisor::Server, supervisor::Supervisor,
};
use crate::sync::watch;

/// Commands that may wait for the one that is carried out.
const QUEUE: usize = 8;

/// A manager that can be asked and told to stop.
#[derive(Clone)]
pub(crate) struct Manager {
    pub(super) api: Api,
    pub(super) board: Board,
    pub(super) servers: watch::Receiver<Option<Server>>,
    pub(super) stop: watch::Sender<Stop>,
}

impl Manager {
    /// Starts the manager of `container`: the supervisor, which has ended once mysqld has been stopped
    /// for good, and the other tasks in `tasks`, which are not to end before it.
    pub(crate) fn start(
        name: &str,
        pod_uid: &str,
        container: Arc<dyn Container>,
        tasks: &mut JoinSet<String>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static + use<>) {
        let board = Board::new(name, pod_uid);
        let (servers, running) = watch::channel(None);
        let (stop, stopped) = watch::channel(Stop::No);
        let (orders, queue) = mpsc::channel(QUEUE);
        let (poller, refresh) = Poller::new(board.clone(), running.clone());
        let api = Api {
            container: container.clone(),
            board: board.clone(),
            orders: orders.clone(),
            refresh: refresh.clone(),
        };
        let commander = Commander::new(
            container.clone(),
            board.clone(),
            running.clone(),
            refresh,
            orders,
        );
        let supervisor = Supervisor {
            container,
            board: board.clone(),
            servers,
            stop: stopped,
        };
        tasks.spawn(named("poller", poller.run()));
        tasks.spawn(named("commander", commander.run(queue)));
        let manager = Self {
            api,
            board,
            servers: running,
            stop,
        };
        (manager, supervisor.run())
    }

    /// Answers the requests of one connection, until it ends.
    pub(crate) async fn serve_stream<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        if let Err(error) = listener::serve_stream(stream, self.api.clone()).await {
            tracing::debug!(%error, "connection");
        }
    }

    /// Answers a probe of the kubelet by its path: why the container is not well, if it is not.
    pub(crate) fn probe(&self, path: &str) -> Result<(), String> {
        self.api
            .probe(path)
            .unwrap_or_else(|| Err(format!("{path} is no probe")))
    }

    /// What SIGTERM does.
    pub(crate) async fn terminate(self) {
        stop::stop(self.board, self.servers, self.stop).await;
    }
}

/// Runs a task and says which it was.
pub(super) async fn named(name: &'static str, task: impl Future<Output = ()>) -> String {
    task.await;
    name.to_owned()
}
