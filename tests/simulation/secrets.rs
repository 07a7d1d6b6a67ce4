//! What is secret stays out of the log, however loud it is.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay::client::{ListOptions, SECRET};
use serde_json::Value;

use crate::run::run;
use crate::world::{NAMESPACE, World};

/// Entries of Secrets that anybody may know.
const PUBLIC: [&str; 7] = [
    "ca.crt", "tls.crt", "username", "user", "database", "host", "port",
];

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A cluster comes up and its primary fails, with everything logged that this crate has to say, and
/// those that it is built on.
#[test]
fn no_line_of_the_log_holds_a_password_token_or_key() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // With a single one, a place in the code that another test's thread comes by first, which logs
    // nothing, would be silent for good.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let secrets = Arc::new(Mutex::new(BTreeSet::new()));
    let found = secrets.clone();
    let outcome = tracing::subscriber::with_default(subscriber, || {
        run(|| async move {
            let mut world = World::new(1, 2).await;
            world.must_run().await;
            assert!(world.shared.node.kill_mysqld(NAMESPACE, "demo-0"));
            world.must_settle().await;
            *found.lock().unwrap() = secret_values(&world).await;
            world.end().await
        })
    });
    assert_eq!(outcome.broken, Vec::<String>::new());
    let secrets = secrets.lock().unwrap();
    assert!(secrets.len() >= 8, "accounts, token and keys");
    let bytes = log.0.lock().unwrap();
    let text = String::from_utf8_lossy(&bytes);
    for said in ["TRACE", "reconciled", "EnsureApp(AppAccount", "obeyed"] {
        assert!(
            text.contains(said),
            "{said}: the log is loud enough to tell"
        );
    }
    for line in text.lines() {
        let secret = secrets.iter().find(|secret| line.contains(secret.as_str()));
        assert_eq!(secret, None, "{line}");
    }
}

/// What the cluster's Secrets hold, as it is and as it is on the wire; of a private key each line.
async fn secret_values(world: &World) -> BTreeSet<String> {
    let all = ListOptions::default();
    let secrets = world
        .user
        .list::<Value>(SECRET, Some(NAMESPACE), &all)
        .await;
    let secrets = secrets.expect("they are listed").items;
    let data = secrets
        .iter()
        .flatten()
        .filter_map(|secret| secret["data"].as_object());
    let entries = data
        .flatten()
        .filter(|(key, _)| !PUBLIC.contains(&key.as_str()));
    let mut values = BTreeSet::new();
    for (_, value) in entries {
        let encoded = value.as_str().expect("text");
        let decoded = STANDARD.decode(encoded).expect("base64");
        let decoded = String::from_utf8(decoded).expect("text");
        values.extend(decoded.lines().map(str::to_owned));
        values.insert(encoded.to_owned());
    }
    // The first and the last line of a key are no secret.
    values.retain(|value| value.len() >= 8 && !value.contains("-----"));
    values
}
