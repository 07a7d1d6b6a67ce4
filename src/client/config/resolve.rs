//! From a merged kubeconfig and a context name to one [`Config`].

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;

use super::kubeconfig::{Cluster, Entries, Entry, Kubeconfig};
use super::{Config, ConfigError, Proxy, TlsSettings, Trust, user};
use crate::client::credentials::Auth;
use crate::client::transport::{CertificateFiles, tls};

/// Resolves `context`, or the current one.
pub(super) fn resolve(files: &Kubeconfig, context: Option<&str>) -> Result<Config, ConfigError> {
    let known = || files.contexts.keys().cloned().collect();
    let name = context.or(files.current_context.as_deref());
    let name = name.ok_or_else(|| ConfigError::NoContext {
        files: files.files.clone(),
        known: known(),
    })?;
    let entry = files
        .contexts
        .get(name)
        .ok_or_else(|| ConfigError::UnknownContext {
            context: name.to_owned(),
            files: files.files.clone(),
            known: known(),
        })?;
    let at = Place::new(entry, name, format!("contexts[{name}].context"));

    let cluster_name = text(entry.value.cluster.as_ref())
        .ok_or_else(|| at.problem("cluster", "is missing; name one of clusters"))?;
    let cluster = find(&files.clusters, cluster_name, &at, "cluster")?;
    let cluster_at = Place::new(cluster, name, format!("clusters[{cluster_name}].cluster"));
    let (server, mut tls) = resolve_cluster(&cluster.value, &cluster_at)?;

    let proxy = text(cluster.value.proxy_url.as_ref())
        .map(Proxy::parse)
        .transpose();
    let proxy = proxy.map_err(|problem| cluster_at.problem("proxy-url", problem))?;

    let mut impersonation = HeaderMap::new();
    let auth = match text(entry.value.user.as_ref()) {
        None => Auth::None,
        Some(user_name) => {
            let user = find(&files.users, user_name, &at, "user")?;
            let user_at = Place::new(user, name, format!("users[{user_name}].user"));
            user::refuse_unsupported(&user.value, &user_at)?;
            impersonation = user::impersonation(&user.value, &user_at)?;
            tls.identity = user::client_certificate(&user.value, &user_at)?;
            tls.files.identity = user::certificate_files(&user.value, &user_at);
            user::authentication(&user.value, &user_at, &cluster.value, &cluster_at)?
        }
    };
    Ok(Config {
        server,
        namespace: text(entry.value.namespace.as_ref())
            .unwrap_or("default")
            .to_owned(),
        origin: format!("context {name:?} of {}", entry.file.display()),
        tls,
        auth,
        proxy,
        impersonation,
    })
}

/// Where in which file we are: relative paths start here and errors name it.
pub(super) struct Place<'a> {
    file: &'a Path,
    context: &'a str,
    prefix: String,
}

impl<'a> Place<'a> {
    fn new<T>(entry: &'a Entry<T>, context: &'a str, prefix: String) -> Self {
        Self {
            file: &entry.file,
            context,
            prefix,
        }
    }

    pub(super) fn problem(&self, key: &str, problem: impl Into<String>) -> ConfigError {
        ConfigError::Key {
            file: self.file.to_owned(),
            context: self.context.to_owned(),
            key: format!("{}.{key}", self.prefix),
            problem: problem.into(),
        }
    }

    /// `path` as kubectl understands it: relative to the kubeconfig that names it.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    /// The file that [`data`](Self::data) reads, where it reads one.
    pub(super) fn file(&self, file: Option<&String>, inline: Option<&str>) -> Option<PathBuf> {
        let inline = inline.filter(|inline| !inline.is_empty());
        text(file)
            .filter(|_| inline.is_none())
            .map(|file| self.path(file))
    }

    /// The bytes of a `key-data` (base64), else of the file that `key` names. Returned with the key
    /// that was used.
    pub(super) fn data(
        &self,
        key: &'static str,
        file: Option<&String>,
        inline: Option<&str>,
    ) -> Result<Option<(String, Vec<u8>)>, ConfigError> {
        if let Some(inline) = inline.filter(|inline| !inline.is_empty()) {
            let key = format!("{key}-data");
            let packed: String = inline.split_ascii_whitespace().collect();
            let bytes = STANDARD.decode(packed);
            let bytes =
                bytes.map_err(|error| self.problem(&key, format!("not base64: {error}")))?;
            return Ok(Some((key, bytes)));
        }
        let Some(path) = self.file(file, inline) else {
            return Ok(None);
        };
        let bytes = std::fs::read(&path).map_err(|error| {
            self.problem(key, format!("can't read {}: {error}", path.display()))
        })?;
        Ok(Some((key.to_owned(), bytes)))
    }
}

/// An empty string is as good as none, as kubectl writes them.
pub(super) fn text(value: Option<&String>) -> Option<&str> {
    value.map(String::as_str).filter(|value| !value.is_empty())
}

fn find<'a, T>(
    entries: &'a Entries<T>,
    name: &str,
    at: &Place<'_>,
    kind: &str,
) -> Result<&'a Entry<T>, ConfigError> {
    entries.get(name).ok_or_else(|| {
        let known = entries
            .keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        let known = if known.is_empty() { "none" } else { &known };
        at.problem(
            kind,
            format!("there is no {kind} {name:?} (there are: {known})"),
        )
    })
}

fn resolve_cluster(
    cluster: &Cluster,
    at: &Place<'_>,
) -> Result<(String, TlsSettings), ConfigError> {
    let server = text(cluster.server.as_ref()).ok_or_else(|| at.problem("server", "is missing"))?;
    let uri = server
        .parse::<http::Uri>()
        .ok()
        .filter(|uri| uri.host().is_some());
    if !uri.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https"))) {
        let problem = format!("{server:?} is no URL such as https://host:6443");
        return Err(at.problem("server", problem));
    }
    if server.contains('@') {
        return Err(at.problem("server", "holds a user name; put it into users"));
    }
    let server_name = text(cluster.tls_server_name.as_ref()).map(str::to_owned);
    if let Some(name) = &server_name {
        rustls::pki_types::ServerName::try_from(name.as_str())
            .map_err(|error| at.problem("tls-server-name", format!("{name:?}: {error}")))?;
    }
    let roots = at.data(
        "certificate-authority",
        cluster.certificate_authority.as_ref(),
        cluster.certificate_authority_data.as_deref(),
    )?;
    let trust = match (roots, cluster.insecure_skip_tls_verify.unwrap_or(false)) {
        (None, true) => Trust::Anyone,
        (None, false) => Trust::System,
        (Some(_), true) => {
            let problem = "not together with a certificate-authority; remove one of them";
            return Err(at.problem("insecure-skip-tls-verify", problem));
        }
        (Some((key, pem)), false) => {
            let roots = tls::certificates(&pem).map_err(|problem| at.problem(&key, problem))?;
            Trust::Roots(roots.into())
        }
    };
    let file = at.file(
        cluster.certificate_authority.as_ref(),
        cluster.certificate_authority_data.as_deref(),
    );
    let tls = TlsSettings {
        trust,
        server_name,
        files: CertificateFiles {
            authority: file,
            identity: None,
        },
        identity: None,
    };
    Ok((server.trim_end_matches('/').to_owned(), tls))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Resolves context `x` of a kubeconfig at `DIR/config` whose cluster `c` and user `u` have these
    /// bodies (YAML flow maps).
    pub(in crate::client::config) fn resolved(
        dir: &Path,
        cluster: &str,
        user: &str,
    ) -> Result<Config, ConfigError> {
        let file = dir.join("config");
        let text = format!(
            "current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n"
        );
        std::fs::write(&file, text).unwrap();
        resolve(&Kubeconfig::read(&[file], false)?, None)
    }

    fn cluster_problem(cluster: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let error = resolved(dir.path(), cluster, "{}").unwrap_err().to_string();
        assert!(
            error.contains("config, context \"x\": clusters[c].cluster."),
            "{error}"
        );
        error
    }

    #[test]
    fn cluster_keys_are_read_inline_and_relative_to_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let ca = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap();
        std::fs::write(dir.path().join("ca.pem"), ca.cert.pem()).unwrap();
        let inline = STANDARD.encode(ca.cert.pem());
        for key in [
            "certificate-authority: ca.pem".to_owned(),
            format!("certificate-authority: missing, certificate-authority-data: {inline}"),
        ] {
            let cluster = format!("{{server: 'https://10.0.0.1:6443/', {key}}}");
            let config = resolved(dir.path(), &cluster, "{}").unwrap();
            assert_eq!(config.server, "https://10.0.0.1:6443");
            assert!(matches!(config.tls.trust, Trust::Roots(roots) if roots.len() == 1));
        }
        let cluster = "{server: 'https://a', insecure-skip-tls-verify: true, tls-server-name: b}";
        let config = resolved(dir.path(), cluster, "{}").unwrap();
        assert!(matches!(config.tls.trust, Trust::Anyone));
        assert_eq!(config.tls.server_name.as_deref(), Some("b"));
    }

    #[test]
    fn cluster_problems_name_file_context_key_and_remedy() {
        for (cluster, words) in [
            ("{}", "cluster.server: is missing"),
            (
                "{server: 'foo:6443'}",
                "is no URL such as https://host:6443",
            ),
            ("{server: 'https://u:p@a'}", "server: holds a user name"),
            (
                "{server: 'https://a', proxy-url: 'ftp://p'}",
                "proxy-url: its scheme must be",
            ),
            (
                "{server: 'https://a', certificate-authority: gone.pem}",
                "gone.pem: No such file",
            ),
            (
                "{server: 'https://a', certificate-authority-data: '%'}",
                "authority-data: not base64",
            ),
            (
                "{server: 'https://a', certificate-authority-data: YQ==}",
                "no certificate",
            ),
            (
                "{server: 'https://a', tls-server-name: 'a b'}",
                "tls-server-name: \"a b\"",
            ),
        ] {
            let error = cluster_problem(cluster);
            assert!(error.contains(words), "{error}");
        }
        let ca = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap();
        let data = STANDARD.encode(ca.cert.pem());
        let both = "insecure-skip-tls-verify: true, certificate-authority-data";
        let error = cluster_problem(&format!("{{server: 'https://a', {both}: {data}}}"));
        assert!(
            error.contains("not together with a certificate-authority"),
            "{error}"
        );
    }

    #[test]
    fn contexts_that_lead_nowhere_say_what_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        let contexts =
            "contexts: [{name: a, context: {cluster: c}}, {name: b}]\nclusters: [{name: d}]";
        std::fs::write(&file, contexts).unwrap();
        let files = Kubeconfig::read(std::slice::from_ref(&file), false).unwrap();
        let problem = |context| resolve(&files, context).unwrap_err().to_string();
        let file = file.display();
        let hint = "pass --context NAME (there are: a, b)";
        assert_eq!(
            problem(None),
            format!("kubeconfig {file} has no current-context; {hint}")
        );
        assert_eq!(
            problem(Some("z")),
            format!("kubeconfig {file} has no context \"z\"; {hint}")
        );
        let missing = problem(Some("a"));
        assert!(
            missing.ends_with("cluster: there is no cluster \"c\" (there are: d)"),
            "{missing}"
        );
        let unset = problem(Some("b"));
        assert!(unset.ends_with("contexts[b].context.cluster: is missing; name one of clusters"));
    }
}
