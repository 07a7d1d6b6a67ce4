//! `mainstay instance run`: the tasks of the manager.

use std::sync::Arc;

use nix::sys::signal::Signal;
use tokio::task::JoinSet;

use super::{
    InstanceError, files, listener,
    local::Local,
    manager::{Manager, named},
    process::Children,
    settings::Settings,
    stop::on_signal,
    tls::Certificate,
};

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
    let children = Children::default();
    let container = Arc::new(Local::new(settings.clone(), children.clone()));
    // Ending one of these ends the manager.
    let mut tasks = JoinSet::new();
    let (manager, supervisor) =
        Manager::start(&settings.name, &settings.pod_uid, container, &mut tasks);
    tasks.spawn(report("reaper", children.reap()));
    tasks.spawn(named(
        "listener",
        listener::serve(listener, certificate.clone(), manager.api.clone()),
    ));
    tasks.spawn(named(
        "certificate",
        certificate.renew(settings, manager.servers.clone()),
    ));
    let signals = tokio::spawn(on_signal(
        manager.board,
        manager.servers.clone(),
        manager.stop,
    ));
    let failed = tokio::select! {
        biased;
        () = supervisor => return Ok(()),
        failed = tasks.join_next() => failed,
    };
    signals.abort();
    // The manager can't go on, and mysqld must not without it. As PID 1 its end would do.
    if let Some(server) = manager.servers.borrow().as_ref() {
        server.signals.signal(Signal::SIGKILL);
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

async fn report(name: &'static str, task: impl Future<Output = std::io::Result<()>>) -> String {
    match task.await {
        Ok(()) => name.to_owned(),
        Err(error) => format!("{name} ({error})"),
    }
}
