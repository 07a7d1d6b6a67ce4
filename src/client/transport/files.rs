//! Certificates that come from files, read again: whoever rotates them restarts nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::tls::{self, Identity, Verifier};

/// How old what was read may be when a request is sent. Three small files each few seconds cost less
/// than a request; a certificate that was replaced because it leaked should not be shown for long.
const AGE: Duration = Duration::from_secs(5);
/// The same after a handshake that failed, which a rotation may be the reason of.
const AGE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The files of one configuration.
#[derive(Clone, Debug, Default)]
pub(in crate::client) struct CertificateFiles {
    /// The server's authority.
    pub(in crate::client) authority: Option<PathBuf>,
    /// Our certificate and its key.
    pub(in crate::client) identity: Option<(PathBuf, PathBuf)>,
}

/// Reads them again, and puts what has changed in force.
pub(super) struct Reloader {
    files: CertificateFiles,
    roots: Option<Arc<Verifier>>,
    identity: Arc<Identity>,
    state: Mutex<State>,
}

struct State {
    read: Instant,
    reading: bool,
    /// What was last said to be wrong: it is said once.
    problem: Option<String>,
}

impl Reloader {
    /// With what was read from the files just now.
    pub(super) fn new(
        files: CertificateFiles,
        roots: Option<Arc<Verifier>>,
        identity: Arc<Identity>,
    ) -> Self {
        Self {
            files,
            roots,
            identity,
            state: Mutex::new(State {
                read: Instant::now(),
                reading: false,
                problem: None,
            }),
        }
    }

    /// Reads the files again, on a task of its own, if that was too long ago.
    pub(super) fn look(self: &Arc<Self>, after_failure: bool) {
        if self.files.authority.is_none() && self.files.identity.is_none() {
            return;
        }
        let age = if after_failure {
            AGE_AFTER_FAILURE
        } else {
            AGE
        };
        {
            let mut state = self.lock();
            if state.reading || state.read.elapsed() < age {
                return;
            }
            state.reading = true;
        }
        let reloader = Arc::clone(self);
        tokio::spawn(async move {
            let done = reloader.read().await;
            let mut state = reloader.lock();
            (state.reading, state.read) = (false, Instant::now());
            let problem = done.err();
            if let Some(problem) = problem
                .as_ref()
                .filter(|now| state.problem.as_ref() != Some(now))
            {
                tracing::warn!(%problem, "can't read the certificates again, using the last ones");
            }
            state.problem = problem;
        });
    }

    async fn read(&self) -> Result<(), String> {
        if let (Some(file), Some(roots)) = (&self.files.authority, &self.roots) {
            let said = |problem| format!("{}: {problem}", file.display());
            let certificates = tls::certificates(&read(file).await?).map_err(said)?;
            if roots.replace(certificates).map_err(said)? {
                tracing::info!(file = %file.display(), "the API server's authority was replaced");
            }
        }
        if let Some((certificate, key)) = &self.files.identity {
            let (chain, key) = (read(certificate).await?, read(key).await?);
            // Half a rotation: certificate and key do not match yet.
            let identity = tls::identity(&chain, &key)
                .map_err(|problem| format!("{}: {problem}", certificate.display()))?;
            if self.identity.replace_if_other(identity) {
                tracing::info!(file = %certificate.display(), "our certificate was replaced");
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(file: &std::path::Path) -> Result<Vec<u8>, String> {
    let read = tokio::fs::read(file).await;
    read.map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::config::Trust;
    use crate::client::testing::FakeServer;
    use crate::client::transport::{Dial, Stream};
    use crate::client::{Client, ClientOptions, Config, Error, POD, WatchOptions};
    use futures_util::future::BoxFuture;
    use http::Uri;
    use serde_json::Value;
    use std::io;

    /// Connections to whichever server is there now.
    #[derive(Clone)]
    struct Switch(Arc<Mutex<FakeServer>>);

    impl Dial for Switch {
        fn dial(&self, server: Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
            self.0.lock().unwrap().dial(server)
        }
    }

    #[tokio::test]
    async fn k1962_a_replaced_authority_is_used_and_the_live_watch_stays() {
        let (old, new) = (FakeServer::readable(), FakeServer::readable());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        std::fs::write(&file, old.certificate()).unwrap();
        let mut config = Config::without_credentials("https://fake");
        let roots = tls::certificates(old.certificate().as_bytes()).unwrap();
        config.tls.trust = Trust::Roots(roots.into());
        config.tls.files.authority = Some(file.clone());
        let switch = Switch(Arc::new(Mutex::new(old)));
        let client =
            Client::with_dial(config, ClientOptions::default(), Arc::new(switch.clone())).unwrap();
        let mut watch = client
            .watch(POD, None, &WatchOptions::default())
            .await
            .unwrap();

        *switch.0.lock().unwrap() = new.clone();
        std::fs::write(&file, new.certificate()).unwrap();
        // A connection of its own, so a handshake with the new server.
        let lane = client.election_lane();
        tokio::time::pause();
        tokio::time::advance(AGE_AFTER_FAILURE).await;
        tokio::time::resume();
        let got: Result<Value, Error> = lane.get(POD, Some("ns"), "a").await;
        got.unwrap();
        let still = tokio::time::timeout(Duration::from_millis(1), watch.next::<Value>());
        assert!(still.await.is_err(), "the watch goes on");
    }

    #[tokio::test]
    async fn half_a_rotation_keeps_the_last_certificate() {
        let pair = || rcgen::generate_simple_self_signed(["me".to_owned()]).unwrap();
        let (one, two) = (pair(), pair());
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let identity = Arc::new(Identity::default());
        let files = CertificateFiles {
            authority: None,
            identity: Some((certificate.clone(), key.clone())),
        };
        let reloader = Reloader::new(files, None, Arc::clone(&identity));
        std::fs::write(&certificate, one.cert.pem()).unwrap();
        std::fs::write(&key, one.signing_key.serialize_pem()).unwrap();
        reloader.read().await.unwrap();
        assert_eq!(identity.generation(), 1);
        std::fs::write(&certificate, two.cert.pem()).unwrap();
        let problem = reloader.read().await.unwrap_err();
        assert!(
            problem.contains("tls.crt: certificate and key do not match"),
            "{problem}"
        );
        assert_eq!(identity.generation(), 1);
        std::fs::write(&key, two.signing_key.serialize_pem()).unwrap();
        reloader.read().await.unwrap();
        reloader.read().await.unwrap();
        assert_eq!(identity.generation(), 2, "once");
    }
}
