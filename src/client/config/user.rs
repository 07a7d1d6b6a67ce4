//! How a kubeconfig's user proves who it is.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::sign::CertifiedKey;

use super::ConfigError;
use super::kubeconfig::{Cluster, Exec, User};
use super::resolve::{Place, text};
use crate::client::credentials::{Auth, ExecPlugin};
use crate::client::secret::Secret;
use crate::client::transport::tls;

/// Refuses what would change who we are, were it ignored.
pub(super) fn refuse_unsupported(user: &User, at: &Place<'_>) -> Result<(), ConfigError> {
    if let Some(provider) = &user.auth_provider {
        let problem = format!("{:?} was removed from Kubernetes; use exec", provider.name);
        return Err(at.problem("auth-provider", problem));
    }
    Ok(())
}

/// The headers by which another user is acted as (`as`, `as-uid`, `as-groups`, `as-user-extra`).
pub(super) fn impersonation(user: &User, at: &Place<'_>) -> Result<HeaderMap, ConfigError> {
    let mut headers = HeaderMap::new();
    let mut add = |key: &str, name: &str, value: &str| {
        let problem = || at.problem(key, "holds what no HTTP header can carry");
        let name = HeaderName::try_from(name).map_err(|_| problem())?;
        headers.append(name, HeaderValue::try_from(value).map_err(|_| problem())?);
        Ok::<_, ConfigError>(())
    };
    if let Some(name) = text(user.impersonate.as_ref()) {
        add("as", "impersonate-user", name)?;
    }
    if let Some(uid) = text(user.impersonate_uid.as_ref()) {
        add("as-uid", "impersonate-uid", uid)?;
    }
    for group in user.impersonate_groups.iter().flatten() {
        add("as-groups", "impersonate-group", group)?;
    }
    for (key, values) in user.impersonate_extra.iter().flatten() {
        // Header names are case-insensitive and know few characters: the server decodes them.
        let key = utf8_percent_encode(&key.to_lowercase(), NON_ALPHANUMERIC).to_string();
        for value in values {
            add("as-user-extra", &format!("impersonate-extra-{key}"), value)?;
        }
    }
    if !headers.is_empty() && !headers.contains_key("impersonate-user") {
        let problem = "is missing: as-uid, as-groups and as-user-extra need a user";
        return Err(at.problem("as", problem));
    }
    Ok(headers)
}

/// The certificate and key that we show in the TLS handshake.
pub(super) fn client_certificate(
    user: &User,
    at: &Place<'_>,
) -> Result<Option<Arc<CertifiedKey>>, ConfigError> {
    let certificate = at.data(
        "client-certificate",
        user.client_certificate.as_ref(),
        user.client_certificate_data.as_deref(),
    )?;
    let key = at.data(
        "client-key",
        user.client_key.as_ref(),
        user.client_key_data.as_ref().map(Secret::expose),
    )?;
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some((name, _)), None) => Err(at.problem(&name, "has no client-key beside it")),
        (None, Some((name, _))) => Err(at.problem(&name, "has no client-certificate beside it")),
        (Some((name, certificate)), Some((_, key))) => tls::identity(&certificate, &key)
            .map(|identity| Some(identity.into()))
            .map_err(|problem| at.problem(&name, problem)),
    }
}

/// Where that certificate and key are, when both are files: one that is inline can't be rotated.
pub(super) fn certificate_files(user: &User, at: &Place<'_>) -> Option<(PathBuf, PathBuf)> {
    let certificate = at.file(
        user.client_certificate.as_ref(),
        user.client_certificate_data.as_deref(),
    )?;
    let key = user.client_key_data.as_ref().map(Secret::expose);
    Some((certificate, at.file(user.client_key.as_ref(), key)?))
}

/// Bearer token, token file, basic or exec: at most one kind, as kubectl demands.
pub(super) fn authentication(
    user: &User,
    at: &Place<'_>,
    cluster: &Cluster,
    cluster_at: &Place<'_>,
) -> Result<Auth, ConfigError> {
    let token = user
        .token
        .clone()
        .filter(|token| !token.expose().is_empty());
    let file = text(user.token_file.as_ref());
    let username = text(user.username.as_ref());
    let bearer = token.is_some() || file.is_some();
    if (bearer && username.is_some()) || (user.exec.is_some() && (bearer || username.is_some())) {
        let key = if user.exec.is_some() {
            "exec"
        } else {
            "username"
        };
        let problem = "more than one way to authenticate (token, username, exec); keep one";
        return Err(at.problem(key, problem));
    }
    if let Some(exec) = &user.exec {
        return exec_plugin(exec, at, cluster, cluster_at).map(|plugin| Auth::Exec(plugin.into()));
    }
    Ok(match (file, token, username) {
        (Some(file), fallback, _) => Auth::TokenFile {
            file: at.path(file),
            fallback,
        },
        (None, Some(token), _) => Auth::Token(token),
        (None, None, Some(username)) => Auth::Basic {
            username: username.to_owned(),
            password: user.password.clone().unwrap_or_else(|| Secret::new("")),
        },
        (None, None, None) => Auth::None,
    })
}

fn exec_plugin(
    exec: &Exec,
    at: &Place<'_>,
    cluster: &Cluster,
    cluster_at: &Place<'_>,
) -> Result<ExecPlugin, ConfigError> {
    let api_version = text(exec.api_version.as_ref()).unwrap_or_default();
    if ![
        "client.authentication.k8s.io/v1",
        "client.authentication.k8s.io/v1beta1",
    ]
    .contains(&api_version)
    {
        let problem = format!(
            "{api_version:?} is not supported; use a plugin of client.authentication.k8s.io/v1"
        );
        return Err(at.problem("exec.apiVersion", problem));
    }
    if exec.interactive_mode.as_deref() == Some("Always") {
        let problem = "Always: this plugin wants a terminal, which Mainstay does not give it";
        return Err(at.problem("exec.interactiveMode", problem));
    }
    let command =
        text(exec.command.as_ref()).ok_or_else(|| at.problem("exec.command", "is missing"))?;
    // A bare name is looked up in PATH; anything with a slash is relative to the file.
    let command = if command.contains('/') {
        at.path(command)
    } else {
        PathBuf::from(command)
    };
    let cluster_info = if exec.provide_cluster_info.unwrap_or(false) {
        Some(cluster_info(cluster, cluster_at)?)
    } else {
        None
    };
    let env = exec.env.iter().flatten();
    Ok(ExecPlugin {
        api_version: api_version.to_owned(),
        command,
        args: exec.args.clone().unwrap_or_default(),
        env: env
            .map(|var| (var.name.clone(), var.value.clone()))
            .collect(),
        install_hint: exec.install_hint.clone(),
        cluster_info,
    })
}

/// `spec.cluster` of KUBERNETES_EXEC_INFO.
fn cluster_info(cluster: &Cluster, at: &Place<'_>) -> Result<serde_json::Value, ConfigError> {
    let roots = at.data(
        "certificate-authority",
        cluster.certificate_authority.as_ref(),
        cluster.certificate_authority_data.as_deref(),
    )?;
    let extensions = cluster.extensions.iter().flatten();
    let config = extensions
        .filter(|extension| extension.name == "client.authentication.k8s.io/exec")
        .find_map(|extension| extension.extension.clone());
    let mut info = serde_json::json!({
        "server": cluster.server,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify.unwrap_or(false),
    });
    if let Some(name) = text(cluster.tls_server_name.as_ref()) {
        info["tls-server-name"] = name.into();
    }
    if let Some((_, roots)) = roots {
        info["certificate-authority-data"] = STANDARD.encode(roots).into();
    }
    if let Some(config) = config {
        info["config"] = config;
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::super::resolve::tests::resolved;
    use super::*;

    const CLUSTER: &str = "{server: 'https://a'}";

    fn auth(user: &str) -> Auth {
        let dir = tempfile::tempdir().unwrap();
        resolved(dir.path(), CLUSTER, user).unwrap().auth
    }

    fn problem(user: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let error = resolved(dir.path(), CLUSTER, user).unwrap_err().to_string();
        assert!(
            error.contains("config, context \"x\": users[u].user."),
            "{error}"
        );
        error
    }

    #[test]
    fn every_way_to_authenticate_is_read() {
        assert!(matches!(auth("{}"), Auth::None));
        assert!(matches!(auth("{token: t}"), Auth::Token(token) if token.expose() == "t"));
        let basic = auth("{username: u, password: p}");
        assert!(matches!(basic, Auth::Basic { password, .. } if password.expose() == "p"));
        let both = auth("{tokenFile: t, token: fallback}");
        assert!(
            matches!(both, Auth::TokenFile { file, fallback: Some(_) } if file.ends_with("t")),
            "the file wins and the token is what to start with"
        );
        let exec = "{apiVersion: client.authentication.k8s.io/v1, command: ./get-token, env: null, \
                    args: [a], interactiveMode: IfAvailable, provideClusterInfo: true}";
        let Auth::Exec(plugin) = auth(&format!("{{exec: {exec}}}")) else {
            panic!("an exec plugin");
        };
        assert!(plugin.command.is_absolute() && plugin.command.ends_with("get-token"));
        assert_eq!(plugin.cluster_info.as_ref().unwrap()["server"], "https://a");
    }

    #[test]
    fn impersonation_becomes_headers() {
        let dir = tempfile::tempdir().unwrap();
        let user =
            "{as: jane, as-uid: '7', as-groups: [a, b], as-user-extra: {Scopes/x: [read, write]}}";
        let headers = resolved(dir.path(), CLUSTER, user).unwrap().impersonation;
        assert_eq!(
            (&headers["impersonate-user"], &headers["impersonate-uid"]),
            (&"jane".parse().unwrap(), &"7".parse().unwrap())
        );
        let all = |name: &str| {
            headers
                .get_all(name)
                .iter()
                .map(|v| v.to_str().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(all("impersonate-group"), ["a", "b"]);
        assert_eq!(all("impersonate-extra-scopes%2fx"), ["read", "write"]);
    }

    #[test]
    fn a_client_certificate_comes_with_its_key() {
        let dir = tempfile::tempdir().unwrap();
        let pair = rcgen::generate_simple_self_signed(["me".to_owned()]).unwrap();
        std::fs::write(dir.path().join("me.crt"), pair.cert.pem()).unwrap();
        let key = STANDARD.encode(pair.signing_key.serialize_pem());
        let user = format!("{{client-certificate: me.crt, client-key-data: {key}}}");
        let config = resolved(dir.path(), CLUSTER, &user).unwrap();
        assert!(config.tls.identity.is_some());
        assert!(!format!("{config:?}").contains(&key));

        let other = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
        let other = STANDARD.encode(other.signing_key.serialize_pem());
        let user = format!("{{client-certificate: me.crt, client-key-data: {other}}}");
        let error = resolved(dir.path(), CLUSTER, &user)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("client-certificate: certificate and key do not match"),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_supported_is_refused_by_key() {
        let exec = "apiVersion: client.authentication.k8s.io/v1, command: c";
        for (user, words) in [
            ("{as-groups: [g]}".to_owned(), "user.as: is missing"),
            (
                "{auth-provider: {name: gcp}}".to_owned(),
                "user.auth-provider: \"gcp\" was removed",
            ),
            ("{token: t, username: u}".to_owned(), "more than one way"),
            (
                format!("{{token: t, exec: {{{exec}}}}}"),
                "user.exec: more than one way",
            ),
            (
                "{exec: {command: c}}".to_owned(),
                "exec.apiVersion: \"\" is not supported",
            ),
            (
                format!("{{exec: {{{exec}, interactiveMode: Always}}}}"),
                "wants a terminal",
            ),
            (
                "{client-certificate-data: YQ==}".to_owned(),
                "has no client-key beside it",
            ),
            (
                "{client-key-data: YQ==}".to_owned(),
                "has no client-certificate beside it",
            ),
        ] {
            let error = problem(&user);
            assert!(error.contains(words), "{error}");
        }
    }
}
