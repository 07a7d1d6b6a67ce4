//! Who we are, as the `Authorization` header says it, kept fresh.
//!
//! Token files are read again when older than a minute, exec plugins run again before their
//! credential expires, and both when the server answers 401. However many requests ask at once, one
//! refresh runs, on a task of its own: a request that gives up does not stop it.

mod exec;
mod token_file;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use http::HeaderValue;
use rustls::sign::CertifiedKey;
use tokio::time::Instant;

pub(super) use exec::ExecPlugin;
#[cfg(any(fuzzing, test))]
pub(super) use exec::fuzz;

use super::Environment;
use super::secret::Secret;
use super::transport::tls::Identity;

/// Time after which a token file is read again: the kubelet replaces it well before its expiry.
const TOKEN_FILE_AGE: Duration = Duration::from_mins(1);
/// Shortest time between two runs of a plugin whose credentials expire at once.
const SHORTEST_LIFE: Duration = Duration::from_secs(1);

/// How a configuration says we authenticate (besides a client certificate).
#[derive(Clone, Debug)]
pub(super) enum Auth {
    None,
    Token(Secret),
    TokenFile {
        file: PathBuf,
        /// The token to use until the file could be read.
        fallback: Option<Secret>,
    },
    Basic {
        username: String,
        password: Secret,
    },
    Exec(Arc<ExecPlugin>),
}

/// The credential of a process, shared by all its clients.
pub(super) struct Credentials {
    auth: Auth,
    identity: Arc<Identity>,
    environment: Environment,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last credential that was obtained. Replaced, never cleared.
    current: Option<Held>,
    /// The refresh that runs, if one does.
    running: Option<Refresh>,
    /// Grows with each refresh that starts.
    generation: u64,
}

/// A credential as requests use it.
#[derive(Clone)]
struct Held {
    header: Option<HeaderValue>,
    fresh_until: Option<Instant>,
    generation: u64,
}

/// What a refresh obtained.
struct Obtained {
    token: Option<Secret>,
    identity: Option<CertifiedKey>,
    /// How long it is good for, or `None` without end.
    life: Option<Duration>,
}

type Refresh = Shared<BoxFuture<'static, Result<Held, String>>>;

/// What to put on a request, and which refresh it is from.
pub(super) struct Authorization {
    pub(super) header: Option<HeaderValue>,
    pub(super) generation: u64,
}

impl From<Held> for Authorization {
    fn from(held: Held) -> Self {
        Self {
            header: held.header,
            generation: held.generation,
        }
    }
}

impl Credentials {
    pub(super) fn new(auth: Auth, identity: Arc<Identity>, environment: Environment) -> Arc<Self> {
        let state = match &auth {
            Auth::TokenFile {
                fallback: Some(token),
                ..
            } => State {
                current: bearer(token).ok().map(|header| Held {
                    header: Some(header),
                    // Never fresh: the file goes first.
                    fresh_until: Some(Instant::now()),
                    generation: 0,
                }),
                ..State::default()
            },
            _ => State::default(),
        };
        Arc::new(Self {
            auth,
            identity,
            environment,
            state: Mutex::new(state),
        })
    }

    /// The credential for a request that is sent at `now`.
    ///
    /// # Errors
    /// Why there is none; never with a secret in it.
    pub(super) async fn authorization(
        self: &Arc<Self>,
        now: Instant,
    ) -> Result<Authorization, String> {
        let fresh = {
            let state = self.lock();
            let fresh = |held: &&Held| held.fresh_until.is_none_or(|until| now < until);
            state.current.as_ref().filter(fresh).cloned()
        };
        match fresh {
            Some(held) => Ok(held.into()),
            None => self.refresh().await.map(Into::into),
        }
    }

    /// After a 401 for a request with the credential of `generation`: a newer one, or `None` where
    /// there can't be any.
    pub(super) async fn renew(
        self: &Arc<Self>,
        generation: u64,
    ) -> Result<Option<Authorization>, String> {
        if !matches!(self.auth, Auth::TokenFile { .. } | Auth::Exec(_)) {
            return Ok(None);
        }
        let newer = self
            .lock()
            .current
            .clone()
            .filter(|held| held.generation > generation);
        match newer {
            Some(held) => Ok(Some(held.into())),
            None => self.refresh().await.map(|held| Some(held.into())),
        }
    }

    /// Joins the refresh that runs, or starts one.
    async fn refresh(self: &Arc<Self>) -> Result<Held, String> {
        let refresh = {
            let mut state = self.lock();
            // One that has ended and is still here has panicked: it is not waited for again.
            let running = state
                .running
                .clone()
                .filter(|running| running.peek().is_none());
            if let Some(running) = running {
                running
            } else {
                state.generation += 1;
                let task = tokio::spawn(Arc::clone(self).run_refresh(state.generation));
                let joined = task.map(|done| match done {
                    Ok(result) => result,
                    Err(error) => Err(format!("refreshing the credential failed: {error}")),
                });
                state.running.insert(joined.boxed().shared()).clone()
            }
        };
        refresh.await
    }

    async fn run_refresh(self: Arc<Self>, generation: u64) -> Result<Held, String> {
        let result = self
            .obtain()
            .await
            .and_then(|obtained| self.hold(obtained, generation));
        let mut state = self.lock();
        state.running = None;
        match (result, &mut state.current) {
            (Ok(held), current) => Ok(current.insert(held).clone()),
            (Err(error), Some(last)) => {
                // The last good one is the better guess; if it is stale the server says 401.
                tracing::warn!(%error, "can't refresh the credential, using the last one");
                last.fresh_until = Some(Instant::now() + SHORTEST_LIFE);
                last.generation = generation;
                Ok(last.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn obtain(&self) -> Result<Obtained, String> {
        let token = match &self.auth {
            Auth::None | Auth::Basic { .. } => None,
            Auth::Token(token) => Some(token.clone()),
            Auth::TokenFile { file, .. } => {
                return Ok(Obtained {
                    token: Some(token_file::read(file).await?),
                    identity: None,
                    life: Some(TOKEN_FILE_AGE),
                });
            }
            Auth::Exec(plugin) => return plugin.run(&self.environment).await,
        };
        Ok(Obtained {
            token,
            identity: None,
            life: None,
        })
    }

    /// Turns what was obtained into what requests use, and shows a new certificate to the transport.
    fn hold(&self, obtained: Obtained, generation: u64) -> Result<Held, String> {
        let header = match (&obtained.token, &self.auth) {
            (Some(token), _) => Some(bearer(token)?),
            (None, Auth::Basic { username, password }) => Some(basic(username, password)?),
            (None, _) => None,
        };
        if let Some(identity) = obtained.identity {
            self.identity.replace(identity.into());
        }
        let life = obtained.life.map(|life| life.max(SHORTEST_LIFE));
        Ok(Held {
            header,
            fresh_until: life.map(|life| Instant::now() + life),
            generation,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bearer(token: &Secret) -> Result<HeaderValue, String> {
    sensitive(&format!("Bearer {}", token.expose()))
        .ok_or_else(|| "the token holds characters that no HTTP header can carry".to_owned())
}

fn basic(username: &str, password: &Secret) -> Result<HeaderValue, String> {
    let pair = STANDARD.encode(format!("{username}:{}", password.expose()));
    sensitive(&format!("Basic {pair}")).ok_or_else(|| "no header can carry the password".to_owned())
}

/// A header that is neither printed nor put into HTTP/2's compression tables.
fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(value).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(auth: Auth) -> Arc<Credentials> {
        Credentials::new(auth, Arc::default(), Environment::system())
    }

    async fn header(credentials: &Arc<Credentials>) -> String {
        let authorization = credentials.authorization(Instant::now()).await.unwrap();
        authorization.header.unwrap().to_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn static_credentials_have_nothing_to_renew() {
        let token = credentials(Auth::Token(Secret::new("t")));
        assert_eq!(header(&token).await, "Bearer t");
        assert!(token.renew(1).await.unwrap().is_none());
        let basic = credentials(Auth::Basic {
            username: "user".to_owned(),
            password: Secret::new("pass"),
        });
        assert_eq!(header(&basic).await, "Basic dXNlcjpwYXNz");
        let broken = credentials(Auth::Token(Secret::new("hunter2\n")));
        let error = broken.authorization(Instant::now()).await.err().unwrap();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_file_is_trimmed_read_again_after_a_minute_and_never_lost() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one\n").unwrap();
        let tokens = credentials(Auth::TokenFile {
            file: file.path().to_owned(),
            fallback: None,
        });
        assert_eq!(header(&tokens).await, "Bearer one");
        std::fs::write(file.path(), " two ").unwrap();
        assert_eq!(header(&tokens).await, "Bearer one", "young enough");
        tokio::time::advance(TOKEN_FILE_AGE).await;
        assert_eq!(header(&tokens).await, "Bearer two");

        std::fs::write(file.path(), "\n").unwrap();
        tokio::time::advance(TOKEN_FILE_AGE).await;
        assert_eq!(
            header(&tokens).await,
            "Bearer two",
            "an empty file keeps the last token"
        );
        file.close().unwrap();
        tokio::time::advance(TOKEN_FILE_AGE).await;
        assert_eq!(
            header(&tokens).await,
            "Bearer two",
            "as does a vanished one"
        );
    }

    #[tokio::test]
    async fn a_missing_token_file_is_an_error_unless_there_is_a_fallback() {
        let file = PathBuf::from("/does/not/exist");
        let without = credentials(Auth::TokenFile {
            file: file.clone(),
            fallback: None,
        });
        let error = without.authorization(Instant::now()).await.err().unwrap();
        assert!(error.contains("/does/not/exist"), "{error}");
        let fallback = Some(Secret::new("f"));
        assert_eq!(
            header(&credentials(Auth::TokenFile { file, fallback })).await,
            "Bearer f"
        );
    }

    #[tokio::test]
    async fn cgo1345_one_renewal_serves_all_that_saw_the_same_401() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one").unwrap();
        let tokens = credentials(Auth::TokenFile {
            file: file.path().to_owned(),
            fallback: None,
        });
        let first = tokens
            .authorization(Instant::now())
            .await
            .unwrap()
            .generation;
        let (a, b) = tokio::join!(tokens.renew(first), tokens.renew(first));
        let (a, b) = (
            a.unwrap().unwrap().generation,
            b.unwrap().unwrap().generation,
        );
        assert_eq!((a, b), (first + 1, first + 1));
        let late = tokens.renew(first).await.unwrap().unwrap();
        assert_eq!(late.generation, first + 1, "somebody renewed already");
    }

    #[tokio::test]
    async fn k1126_a_plugin_runs_once_for_all_that_wait_and_again_on_401() {
        let runs = tempfile::NamedTempFile::new().unwrap();
        let script = format!(
            r#"echo run >> {0}; n=$(wc -l < {0}); echo '{{"kind":"ExecCredential","apiVersion":"v1",
            "status":{{"token":"t'$n'","expirationTimestamp":"2200-01-01T00:00:00Z"}}}}'"#,
            runs.path().display()
        );
        let plugin = credentials(Auth::Exec(Arc::new(ExecPlugin {
            api_version: "v1".to_owned(),
            command: PathBuf::from("sh"),
            args: vec!["-c".to_owned(), script],
            env: Vec::new(),
            install_hint: None,
            cluster_info: None,
        })));
        let (a, b) = tokio::join!(header(&plugin), header(&plugin));
        assert_eq!((a.as_str(), b.as_str()), ("Bearer t1", "Bearer t1"));
        let used = plugin.authorization(Instant::now()).await.unwrap();
        assert!(plugin.renew(used.generation).await.unwrap().is_some());
        assert_eq!(header(&plugin).await, "Bearer t2");
    }
}
