//! The writer: one row after the other, each with a number of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::{Servers, Session, Target};
use crate::sandbox::demo::ledger::Ledger;

/// Between two rows.
const PACE: Duration = Duration::from_millis(5);
/// Between two tries to connect.
const RETRY: Duration = Duration::from_millis(20);
/// Until a try to connect is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Until a row counts as not acknowledged.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A client that writes while it is switched on, and the ledger of it. Dropped, it stops.
pub(crate) struct Writer {
    ledger: Arc<Mutex<Ledger>>,
    on: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Writer {
    /// A writer that is off. `target` says where the Service leads at that moment.
    pub(crate) fn new(
        servers: Arc<dyn Servers>,
        target: impl Fn() -> Option<Target> + Send + Sync + 'static,
    ) -> Self {
        let ledger = Arc::<Mutex<Ledger>>::default();
        let (on, switch) = watch::channel(false);
        let task = tokio::spawn({
            let ledger = ledger.clone();
            async move { write(&*servers, target, &ledger, switch).await }
        });
        Self { ledger, on, task }
    }

    /// Begins or ends the writes.
    pub(crate) fn switch(&self, on: bool) {
        let now = Instant::now();
        let mut ledger = self.ledger();
        if on {
            ledger.begin(now);
        } else {
            ledger.end(now);
        }
        self.on.send_replace(on);
    }

    /// The ledger, for a look or a mark.
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    // A ledger is whole after each change, whoever panicked.
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn write(
    servers: &dyn Servers,
    target: impl Fn() -> Option<Target> + Send + Sync,
    ledger: &Mutex<Ledger>,
    mut switch: watch::Receiver<bool>,
) {
    while switch.wait_for(|on| *on).await.is_ok() {
        let why = match target() {
            None => "the read-write Service leads to no pod".to_owned(),
            Some(target) => match timeout(CONNECT_TIMEOUT, servers.connect(&target)).await {
                Err(_) => format!("no connection within {CONNECT_TIMEOUT:?}"),
                Ok(Err(error)) => error,
                Ok(Ok(session)) => insert(session, ledger, &switch).await,
            },
        };
        tracing::debug!(why, "no session that rows can be written by");
        sleep(RETRY).await;
    }
}

/// Until a row is not acknowledged, or writing ends; returns why. As a client behind a Service it
/// keeps its session, wherever the Service leads by now.
async fn insert(
    mut session: Box<dyn Session>,
    ledger: &Mutex<Ledger>,
    switch: &watch::Receiver<bool>,
) -> String {
    while *switch.borrow() {
        let row = lock(ledger).next_row();
        match timeout(ANSWER_TIMEOUT, session.insert(row)).await {
            Ok(Ok(())) => lock(ledger).acknowledge(row, Instant::now()),
            Ok(Err(error)) => return format!("row {row}: {error}"),
            Err(_) => return format!("row {row}: no answer within {ANSWER_TIMEOUT:?}"),
        }
        sleep(PACE).await;
    }
    "switched off".to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeServers, target};
    use super::*;

    async fn acknowledged(writer: &Writer, count: u64) {
        while writer.ledger().acknowledged().len() < count {
            sleep(PACE).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_written_while_it_is_on_and_acknowledged_ones_are_in_the_ledger() {
        let servers = FakeServers::default();
        let writer = Writer::new(Arc::new(servers.clone()), || Some(target("demo-0")));
        sleep(Duration::from_secs(1)).await;
        assert!(servers.rows("demo-0").is_empty());
        writer.switch(true);
        acknowledged(&writer, 10).await;
        writer.switch(false);
        sleep(Duration::from_secs(1)).await;
        let acknowledged = writer.ledger().acknowledged().clone();
        assert_eq!(acknowledged, servers.rows("demo-0"));
        assert!(!writer.ledger().is_writing());
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_that_is_not_acknowledged_is_written_no_second_time() {
        let servers = FakeServers::default();
        let writer = Writer::new(Arc::new(servers.clone()), || Some(target("demo-0")));
        writer.switch(true);
        acknowledged(&writer, 3).await;
        servers.set_hanging("demo-0", true);
        sleep(ANSWER_TIMEOUT + CONNECT_TIMEOUT).await;
        let before = writer.ledger().acknowledged().clone();
        servers.set_hanging("demo-0", false);
        acknowledged(&writer, before.len() + 3).await;
        let pause = writer.ledger().longest(Instant::now()).unwrap();
        assert!(pause.length >= ANSWER_TIMEOUT, "{pause:?}");
        // The row that hung is in the table: that it was not acknowledged says nothing.
        let unknown = servers
            .rows("demo-0")
            .missing_from(writer.ledger().acknowledged());
        assert!(unknown.contains(before.len() + 1), "{unknown}");
    }

    #[tokio::test(start_paused = true)]
    async fn it_goes_where_the_service_leads_once_its_session_ends() {
        let servers = FakeServers::default();
        let leads_to = Arc::new(Mutex::new(Some("demo-0")));
        let to = leads_to.clone();
        let writer = Writer::new(Arc::new(servers.clone()), move || {
            to.lock().unwrap().map(target)
        });
        writer.switch(true);
        acknowledged(&writer, 3).await;
        *leads_to.lock().unwrap() = None;
        servers.set_down("demo-0", true);
        sleep(Duration::from_secs(1)).await;
        *leads_to.lock().unwrap() = Some("demo-1");
        let count = writer.ledger().acknowledged().len();
        acknowledged(&writer, count + 3).await;
        assert!(servers.rows("demo-1").len() >= 3);
        let pause = writer.ledger().longest(Instant::now()).unwrap().length;
        assert!(
            pause >= Duration::from_secs(1) && pause < Duration::from_millis(1100),
            "{pause:?}"
        );
    }
}
