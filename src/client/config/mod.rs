//! Where the API server is and how to prove who we are: kubeconfig files or the pod's service account.
//!
//! Everything that can be wrong with a configuration is found here, once, and named with its file,
//! context and key ([`ConfigError`]). A setting that Mainstay does not support is refused, never
//! ignored.

mod error;
mod in_cluster;
mod kubeconfig;
#[cfg(test)]
mod kubectl_tests;
mod proxy;
mod resolve;
mod user;
mod yaml;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use http::HeaderMap;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;

pub use error::ConfigError;

use super::credentials::Auth;
use super::transport::CertificateFiles;
use kubeconfig::Kubeconfig;
use proxy::ProxyEnvironment;
pub(super) use proxy::{Protocol, Proxy, port};

/// Where to look for the API server.
#[derive(Clone, Debug, Default)]
pub struct ConfigSource {
    /// `--kubeconfig`: this file and no other.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`: this context instead of `current-context`. Implies a kubeconfig.
    pub context: Option<String>,
}

/// A resolved API server, its credentials and default namespace.
#[derive(Clone)]
pub struct Config {
    /// URL of the server, possibly with a path below which the API is served.
    pub server: String,
    /// Default namespace of the context (or of the service account); `default` where none is set.
    pub namespace: String,
    /// Where this came from, such as `context "demo" of /home/me/.kube/config`: for messages.
    pub origin: String,
    pub(super) tls: TlsSettings,
    pub(super) auth: Auth,
    pub(super) proxy: Option<Proxy>,
    /// `Impersonate-…` headers of each request.
    pub(super) impersonation: HeaderMap,
}

/// How the server is verified, and the certificate that we show it.
#[derive(Clone, Default)]
pub(super) struct TlsSettings {
    pub(super) trust: Trust,
    /// Name to verify instead of the host in the URL (`tls-server-name`).
    pub(super) server_name: Option<String>,
    pub(super) identity: Option<Arc<CertifiedKey>>,
    /// Where roots and identity came from, to read them again.
    pub(super) files: CertificateFiles,
}

/// Whose signature makes a server's certificate good.
#[derive(Clone, Default)]
pub(super) enum Trust {
    /// The system's bundle of roots.
    #[default]
    System,
    /// These certificates and no others.
    Roots(Arc<Vec<CertificateDer<'static>>>),
    /// Anybody's: `insecure-skip-tls-verify`.
    Anyone,
}

/// What [`Config::load`] reads of the process's surroundings.
#[derive(Clone, Debug, Default)]
struct Environment {
    /// KUBECONFIG, split.
    kubeconfig: Vec<PathBuf>,
    home: Option<PathBuf>,
    service: Option<in_cluster::ServiceAddress>,
    service_account: PathBuf,
    proxy: ProxyEnvironment,
}

impl Config {
    /// Finds the configuration: `--kubeconfig`, else the files of KUBECONFIG merged, else the
    /// service account when in a cluster (its files and KUBERNETES_SERVICE_HOST exist and no context
    /// is asked for), else `~/.kube/config`.
    #[expect(
        clippy::unused_async,
        reason = "part of the interface; files on slow mounts may come"
    )]
    pub async fn load(source: &ConfigSource) -> Result<Self, ConfigError> {
        Self::load_from(source, &Environment::from_process())
    }

    /// An API server at `server` that asks for no credentials (tests, the embedded API server).
    #[must_use]
    pub fn without_credentials(server: impl Into<String>) -> Self {
        let server = server.into();
        Self {
            origin: server.clone(),
            server,
            namespace: "default".to_owned(),
            tls: TlsSettings::default(),
            auth: Auth::None,
            proxy: None,
            impersonation: HeaderMap::new(),
        }
    }

    fn load_from(source: &ConfigSource, environment: &Environment) -> Result<Self, ConfigError> {
        let mut config = Self::find(source, environment)?;
        // A URL that does not parse is refused by whoever reads it from its file.
        if let (None, Ok(server)) = (&config.proxy, config.server.parse()) {
            config.proxy = environment.proxy.proxy_for(&server)?;
        }
        Ok(config)
    }

    fn find(source: &ConfigSource, environment: &Environment) -> Result<Self, ConfigError> {
        let context = source.context.as_deref();
        if let Some(file) = &source.kubeconfig {
            let files = Kubeconfig::read(std::slice::from_ref(file), false)?;
            return resolve::resolve(&files, context);
        }
        if !environment.kubeconfig.is_empty() {
            let files = Kubeconfig::read(&environment.kubeconfig, true)?;
            if files.files.is_empty() {
                let listed = environment
                    .kubeconfig
                    .iter()
                    .map(|file| file.display().to_string());
                let listed = listed.collect::<Vec<_>>().join(", ");
                let looked_at = format!("{listed}, named by KUBECONFIG; none exists");
                return Err(ConfigError::NotFound { looked_at });
            }
            return resolve::resolve(&files, context);
        }
        if context.is_none()
            && let Some(config) = in_cluster::load(environment)?
        {
            return Ok(config);
        }
        let home = environment
            .home
            .as_ref()
            .map(|home| home.join(".kube/config"));
        let files = Kubeconfig::read(home.as_slice(), true)?;
        if files.files.is_empty() {
            let home = home.map(|file| file.display().to_string());
            let home = home.unwrap_or_else(|| "~/.kube/config, but HOME is not set".to_owned());
            let looked_at = format!("{home} and {}", environment.service_account.display());
            return Err(ConfigError::NotFound { looked_at });
        }
        resolve::resolve(&files, context)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("server", &self.server)
            .field("namespace", &self.namespace)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Environment {
    fn from_process() -> Self {
        let list = std::env::var_os("KUBECONFIG").unwrap_or_default();
        Self {
            kubeconfig: std::env::split_paths(&list)
                .filter(|path| !path.as_os_str().is_empty())
                .collect(),
            home: std::env::var_os("HOME").map(PathBuf::from),
            service: in_cluster::ServiceAddress::from_process(),
            service_account: PathBuf::from(in_cluster::SERVICE_ACCOUNT_DIRECTORY),
            proxy: ProxyEnvironment::from_process(),
        }
    }
}

/// Resolves every context of a kubeconfig, but reads no file that it names, and says what is wrong.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(text: &str) -> Vec<String> {
    match Kubeconfig::parse(text) {
        Err(error) => vec![error.to_string()],
        Ok(mut config) => {
            config.forget_files();
            let names: Vec<String> = config.contexts.keys().cloned().collect();
            let each = names.iter().map(|name| Some(name.as_str()));
            let resolved = each
                .chain([None])
                .map(|name| resolve::resolve(&config, name));
            resolved
                .filter_map(|config| Some(config.err()?.to_string()))
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = "current-context: a\n\
        contexts: [{name: a, context: {cluster: c}}, {name: b, context: {cluster: c, namespace: n}}]\n\
        clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n";

    fn with_context(context: &str) -> ConfigSource {
        ConfigSource {
            kubeconfig: None,
            context: Some(context.to_owned()),
        }
    }

    #[test]
    fn kubeconfig_comes_before_the_service_account_and_home_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kc");
        std::fs::write(&file, MINIMAL).unwrap();
        let mut environment = Environment {
            kubeconfig: vec![dir.path().join("missing"), file.clone()],
            service: Some(in_cluster::ServiceAddress::new("10.0.0.1", "443")),
            service_account: dir.path().to_owned(),
            home: Some(dir.path().to_owned()),
            ..Environment::default()
        };
        let config = Config::load_from(&ConfigSource::default(), &environment).unwrap();
        assert_eq!(config.namespace, "default");
        assert_eq!(
            config.origin,
            format!("context \"a\" of {}", file.display())
        );

        environment.kubeconfig.clear();
        std::fs::write(dir.path().join("token"), "t").unwrap();
        std::fs::create_dir(dir.path().join(".kube")).unwrap();
        std::fs::copy(&file, dir.path().join(".kube/config")).unwrap();
        let error = Config::load_from(&ConfigSource::default(), &environment).unwrap_err();
        assert!(
            matches!(error, ConfigError::InCluster { .. }),
            "no CA: {error}"
        );
        let config = Config::load_from(&with_context("b"), &environment).unwrap();
        assert_eq!(config.namespace, "n", "a context asks for a kubeconfig");
    }

    #[test]
    fn nothing_found_says_where_it_looked() {
        let environment = Environment {
            home: Some(PathBuf::from("/nobody")),
            ..Environment::default()
        };
        let error = Config::load_from(&ConfigSource::default(), &environment).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("/nobody/.kube/config"), "{error}");
        assert!(error.contains("--kubeconfig"), "{error}");

        let environment = Environment {
            kubeconfig: vec![PathBuf::from("/nowhere/a")],
            ..environment
        };
        let error = Config::load_from(&ConfigSource::default(), &environment).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("/nowhere/a, named by KUBECONFIG"),
            "{error}"
        );
    }
}
