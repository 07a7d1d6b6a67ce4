//! The look for acknowledged rows.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{Servers, Target};
use crate::sandbox::demo::ledger::Rows;

/// Between two looks at an instance that lacks some.
const AGAIN: Duration = Duration::from_millis(200);
/// For one look.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// Those of `acknowledged` that the server has not. A replica may be behind: it is looked at until it
/// has them all, or until `within` is over.
///
/// # Errors
/// Why it could not be looked at: what it lacks is not known.
pub(crate) async fn missing(
    servers: &dyn Servers,
    target: &Target,
    acknowledged: &Rows,
    within: Duration,
) -> Result<Rows, String> {
    let until = Instant::now() + within;
    loop {
        let found = match timeout(LOOK_TIMEOUT, look(servers, target)).await {
            Ok(rows) => rows.map(|rows| acknowledged.missing_from(&rows)),
            Err(_) => Err(format!("no answer within {LOOK_TIMEOUT:?}")),
        };
        let whole = found.as_ref().is_ok_and(Rows::is_empty);
        if whole || timeout_at(until, sleep(AGAIN)).await.is_err() {
            return found;
        }
    }
}

async fn look(servers: &dyn Servers, target: &Target) -> Result<Rows, String> {
    servers.connect(target).await?.rows().await
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeServers, target};
    use super::*;

    async fn look_for(servers: &FakeServers, acknowledged: &Rows) -> Result<Rows, String> {
        missing(
            servers,
            &target("demo-0"),
            acknowledged,
            Duration::from_secs(3),
        )
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_there_is_missing_and_who_is_not_there_is_unknown() {
        let servers = FakeServers::default();
        servers.insert("demo-0", 1);
        let acknowledged: Rows = [1, 2].into_iter().collect();
        let lost = look_for(&servers, &acknowledged).await.unwrap();
        assert_eq!(lost.to_string(), "2");
        servers.set_down("demo-0", true);
        assert_eq!(
            look_for(&servers, &acknowledged).await,
            Err("refused".into())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_may_catch_up() {
        let servers = FakeServers::default();
        let acknowledged: Rows = [7].into_iter().collect();
        let later = servers.clone();
        let replicate = async move {
            sleep(Duration::from_secs(2)).await;
            later.insert("demo-0", 7);
        };
        let (found, ()) = tokio::join!(look_for(&servers, &acknowledged), replicate);
        assert!(found.unwrap().is_empty());
    }
}
