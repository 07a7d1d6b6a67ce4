//! The configuration that Kubernetes mounts into every pod.

use std::path::Path;

use super::{Config, ConfigError, Environment, TlsSettings, Trust};
use crate::client::credentials::Auth;
use crate::client::transport::{CertificateFiles, tls};

/// Where the kubelet mounts token, CA and namespace of the service account.
pub(super) const SERVICE_ACCOUNT_DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// KUBERNETES_SERVICE_HOST and _PORT.
#[derive(Clone, Debug)]
pub(super) struct ServiceAddress {
    host: String,
    port: String,
}

impl ServiceAddress {
    #[cfg(test)]
    pub(super) fn new(host: &str, port: &str) -> Self {
        Self {
            host: host.to_owned(),
            port: port.to_owned(),
        }
    }

    pub(super) fn from_process() -> Option<Self> {
        let read = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Some(Self {
            host: read("KUBERNETES_SERVICE_HOST")?,
            port: read("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".to_owned()),
        })
    }

    fn url(&self) -> String {
        if self.host.contains(':') {
            format!("https://[{}]:{}", self.host, self.port)
        } else {
            format!("https://{}:{}", self.host, self.port)
        }
    }
}

/// The pod's configuration, or `None` outside a cluster.
pub(super) fn load(environment: &Environment) -> Result<Option<Config>, ConfigError> {
    let directory = &environment.service_account;
    let token = directory.join("token");
    let Some(service) = environment.service.as_ref().filter(|_| token.exists()) else {
        return Ok(None);
    };
    let ca = directory.join("ca.crt");
    let roots = read(&ca)?;
    let roots = tls::certificates(&roots).map_err(|problem| ConfigError::InCluster {
        file: ca.clone(),
        problem,
    })?;
    // Absent in pods that mount a token by hand; it is a default only.
    let namespace = std::fs::read_to_string(directory.join("namespace")).unwrap_or_default();
    let namespace = match namespace.trim() {
        "" => "default",
        namespace => namespace,
    };
    Ok(Some(Config {
        namespace: namespace.to_owned(),
        origin: format!("service account of this pod ({})", directory.display()),
        tls: TlsSettings {
            trust: Trust::Roots(roots.into()),
            files: CertificateFiles {
                authority: Some(ca),
                identity: None,
            },
            ..TlsSettings::default()
        },
        auth: Auth::TokenFile {
            file: token,
            fallback: None,
        },
        ..Config::without_credentials(service.url())
    }))
}

fn read(file: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(file).map_err(|error| ConfigError::InCluster {
        file: file.to_owned(),
        problem: format!("{error}; is automountServiceAccountToken off?"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_account_gives_url_namespace_and_roots() {
        let dir = tempfile::tempdir().unwrap();
        let ca = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap();
        std::fs::write(dir.path().join("token"), "t\n").unwrap();
        std::fs::write(dir.path().join("namespace"), "mainstay-system\n").unwrap();
        let mut environment = Environment {
            service: Some(ServiceAddress::new("fd00::1", "6443")),
            service_account: dir.path().to_owned(),
            ..Environment::default()
        };

        std::fs::write(dir.path().join("ca.crt"), "not PEM").unwrap();
        let error = load(&environment).unwrap_err().to_string();
        assert!(error.contains("ca.crt: no certificate"), "{error}");

        std::fs::write(dir.path().join("ca.crt"), ca.cert.pem()).unwrap();
        let config = load(&environment).unwrap().unwrap();
        assert_eq!(config.server, "https://[fd00::1]:6443");
        assert_eq!(config.namespace, "mainstay-system");
        assert!(matches!(config.tls.trust, Trust::Roots(roots) if roots.len() == 1));

        environment.service = None;
        assert!(load(&environment).unwrap().is_none(), "not in a cluster");
    }
}
