//! `mainstay instance run`: the tasks of the manager.

use std::sync::Arc;

use nix::sys::signal::Signal;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::{
    InstanceError,
    api::Api,
    board::Board,
    commander::Commander,
    files, listener,
    poller::Poller,
    process::Children,
    settings::Settings,
    stop::{Stop, on_signal},
    supervisor::Supervisor,
    tls::Certificate,
};

/// Commands that may wait for the one that is carried out.
const QUEUE: usize = 8;

/// Runs the manager until a signal has stopped mysqld.
///
/// # Errors
/// What keeps it from starting: no certificate, no listener, no folder. What keeps mysqld from
/// starting is said in the status instead, and tried again.
pub async fn run(settings: Settings) -> Result<(), InstanceError> {
    let settings = Arc::new(settings);
    for folder in [&settings.run, &settings.tmp] {
        files::make_folder(folder)?;
    }
    let certificate = Certificate::read(&settings)?;
    let listener = listener::listen(settings.listen).await?;
    let board = Board::new(&settings.name, &settings.pod_uid);
    let children = Children::default();
    let (servers, running) = watch::channel(None);
    let (stop, stopped) = watch::channel(Stop::No);
    let (orders, queue) = mpsc::channel(QUEUE);
    let (poller, refresh) = Poller::new(board.clone(), running.clone());
    let api = Api {
        settings: settings.clone(),
        board: board.clone(),
        orders: orders.clone(),
        refresh: refresh.clone(),
    };
    let commander = Commander::new(
        settings.clone(),
        board.clone(),
        running.clone(),
        children.clone(),
        refresh,
        orders,
    );
    let supervisor = Supervisor {
        settings: settings.clone(),
        board: board.clone(),
        children: children.clone(),
        servers,
        stop: stopped,
        valid: String::new(),
    };
    // Ending one of these ends the manager.
    let mut tasks = JoinSet::new();
    tasks.spawn(report("reaper", children.clone().reap()));
    tasks.spawn(done("poller", poller.run()));
    tasks.spawn(done("commander", commander.run(queue)));
    tasks.spawn(done(
        "listener",
        listener::serve(listener, certificate.clone(), api),
    ));
    tasks.spawn(done(
        "certificate",
        certificate.renew(settings, running.clone()),
    ));
    let signals = tokio::spawn(on_signal(board, running.clone(), stop.clone()));
    let failed = tokio::select! {
        () = supervisor.run() => return Ok(()),
        failed = tasks.join_next() => failed,
    };
    signals.abort();
    // The manager can't go on, and mysqld must not without it. As PID 1 its end would do.
    if let Some(server) = running.borrow().as_ref() {
        children.signal(server.pid, Signal::SIGKILL);
    }
    let why = match failed {
        Some(Ok(name)) => format!("the {name} has ended"),
        Some(Err(error)) => error.to_string(),
        None => "no task is left".to_owned(),
    };
    Err(InstanceError::Process {
        what: "the manager",
        why,
    })
}

async fn done(name: &'static str, task: impl Future<Output = ()>) -> String {
    task.await;
    name.to_owned()
}

async fn report(name: &'static str, task: impl Future<Output = std::io::Result<()>>) -> String {
    match task.await {
        Ok(()) => name.to_owned(),
        Err(error) => format!("{name} ({error})"),
    }
}
