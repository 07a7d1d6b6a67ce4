//! The certificate, read anew when its files change.

use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::time::sleep;

use super::{InstanceError, settings::Settings, supervisor::Server};
use crate::mysql::{STATEMENT, Statement};
use crate::sync::watch;

/// How often to look at the files. Certificates are renewed days before they expire.
const LOOK: Duration = Duration::from_secs(5);

/// The certificate that new connections are served with.
#[derive(Clone)]
pub(super) struct Certificate {
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

impl Certificate {
    /// Reads it.
    pub(super) fn read(settings: &Settings) -> Result<Self, InstanceError> {
        Ok(Self {
            config: Arc::new(RwLock::new(server_config(settings)?)),
        })
    }

    /// For the next connection.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        self.config
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Reads it again whenever a file changes, and has mysqld do the same. A certificate that can't be
    /// read leaves the former in use.
    pub(super) async fn renew(
        self,
        settings: Arc<Settings>,
        servers: watch::Receiver<Option<Server>>,
    ) {
        let (mut ours, mut mysqlds) = (content(&settings), content(&settings));
        loop {
            sleep(LOOK).await;
            let now = content(&settings);
            if now != ours {
                match server_config(&settings) {
                    Ok(config) => {
                        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
                        tracing::info!("certificate read anew");
                        ours.clone_from(&now);
                    }
                    Err(error) => tracing::warn!(%error, "the former certificate stays in use"),
                }
            }
            let server = servers.borrow().clone();
            if now != mysqlds && now == ours {
                let Some(server) = server else { continue };
                let reload = async {
                    let mut session = server.accounts.admin.open().await?;
                    session.run(&Statement::ReloadTls, STATEMENT).await
                };
                match reload.await {
                    Ok(()) => mysqlds.clone_from(&now),
                    Err(error) => tracing::warn!(%error, "mysqld keeps the former certificate"),
                }
            }
        }
    }
}

/// What is in the files, unreadable ones left out.
fn content(settings: &Settings) -> Vec<Option<Vec<u8>>> {
    let (ca, certificate, key) = settings.tls_files();
    [ca, certificate, key]
        .map(|file| std::fs::read(file).ok())
        .to_vec()
}

fn server_config(settings: &Settings) -> Result<Arc<ServerConfig>, InstanceError> {
    let (_, certificate, key) = settings.tls_files();
    let wrong = |path: &Path, why: String| InstanceError::Certificate {
        path: path.to_owned(),
        why,
    };
    let chain = CertificateDer::pem_file_iter(&certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(&certificate, error.to_string()))?;
    let private =
        PrivateKeyDer::from_pem_file(&key).map_err(|error| wrong(&key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(chain, private)
        })
        .map_err(|error| wrong(&certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::settings::for_tests;

    #[test]
    fn says_which_file_is_no_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            tls: folder.path().to_owned(),
            ..for_tests()
        };
        let error = Certificate::read(&settings).err().unwrap().to_string();
        assert!(error.contains("tls.crt"), "{error}");
        let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(folder.path().join("tls.crt"), key.cert.pem()).unwrap();
        std::fs::write(folder.path().join("tls.key"), "no key").unwrap();
        let error = Certificate::read(&settings).err().unwrap().to_string();
        assert!(error.contains("tls.key"), "{error}");
        std::fs::write(
            folder.path().join("tls.key"),
            key.signing_key.serialize_pem(),
        )
        .unwrap();
        assert_eq!(
            Certificate::read(&settings)
                .unwrap()
                .current()
                .alpn_protocols
                .len(),
            2
        );
    }
}
