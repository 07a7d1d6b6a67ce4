//! The kubeconfig file format, and how several files become one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{ConfigError, yaml};
use crate::client::secret::Secret;

/// Several kubeconfig files merged by kubectl's rule: the first file to name an entry, or to set
/// `current-context`, wins; a later entry of the same name is ignored as a whole.
#[derive(Debug, Default)]
pub(super) struct Kubeconfig {
    pub(super) files: Vec<PathBuf>,
    pub(super) current_context: Option<String>,
    pub(super) contexts: Entries<Context>,
    pub(super) clusters: Entries<Cluster>,
    pub(super) users: Entries<User>,
}

/// Named entries, each with the file that it came from (relative paths start there, and error
/// messages name it).
pub(super) type Entries<T> = BTreeMap<String, Entry<T>>;

#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) file: PathBuf,
    pub(super) value: T,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Context {
    pub(super) cluster: Option<String>,
    pub(super) user: Option<String>,
    pub(super) namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Cluster {
    pub(super) server: Option<String>,
    pub(super) tls_server_name: Option<String>,
    pub(super) insecure_skip_tls_verify: Option<bool>,
    pub(super) certificate_authority: Option<String>,
    pub(super) certificate_authority_data: Option<String>,
    pub(super) proxy_url: Option<String>,
    pub(super) extensions: Option<Vec<Extension>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Extension {
    pub(super) name: String,
    pub(super) extension: Option<serde_json::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct User {
    pub(super) client_certificate: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key: Option<String>,
    pub(super) client_key_data: Option<Secret>,
    pub(super) token: Option<Secret>,
    #[serde(rename = "tokenFile")]
    pub(super) token_file: Option<String>,
    pub(super) username: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) exec: Option<Exec>,
    pub(super) auth_provider: Option<AuthProvider>,
    #[serde(rename = "as")]
    pub(super) impersonate: Option<String>,
    #[serde(rename = "as-uid")]
    pub(super) impersonate_uid: Option<String>,
    #[serde(rename = "as-groups")]
    pub(super) impersonate_groups: Option<Vec<String>>,
    #[serde(rename = "as-user-extra")]
    pub(super) impersonate_extra: Option<BTreeMap<String, Vec<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AuthProvider {
    pub(super) name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Exec {
    pub(super) api_version: Option<String>,
    pub(super) command: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<Vec<EnvVar>>,
    pub(super) install_hint: Option<String>,
    pub(super) provide_cluster_info: Option<bool>,
    pub(super) interactive_mode: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct EnvVar {
    pub(super) name: String,
    pub(super) value: Secret,
}

/// One file as it is written. Unknown keys are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct File {
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    kind: Option<String>,
    current_context: Option<String>,
    contexts: Option<Vec<NamedContext>>,
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
}

#[derive(Debug, Deserialize)]
struct NamedContext {
    name: String,
    context: Option<Context>,
}

#[derive(Debug, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Option<Cluster>,
}

#[derive(Debug, Deserialize)]
struct NamedUser {
    name: String,
    user: Option<User>,
}

impl Kubeconfig {
    /// Reads and merges `files`. With `skip_missing`, as for the list in KUBECONFIG, a file that does
    /// not exist is passed over; [`Kubeconfig::files`] holds those that were read.
    pub(super) fn read(files: &[PathBuf], skip_missing: bool) -> Result<Self, ConfigError> {
        let mut merged = Self::default();
        for file in files {
            match std::fs::read_to_string(file) {
                Ok(text) => merged.add(file, &text)?,
                Err(error) if skip_missing && error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => {
                    let file = file.clone();
                    return Err(ConfigError::Read { file, source });
                }
            }
        }
        Ok(merged)
    }

    /// The contents of one file, wherever it may be.
    #[cfg(any(fuzzing, test))]
    pub(super) fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        config.add(Path::new("/kubeconfig"), text)?;
        Ok(config)
    }

    /// Leaves out all that names other files.
    #[cfg(any(fuzzing, test))]
    pub(super) fn forget_files(&mut self) {
        for cluster in self.clusters.values_mut() {
            cluster.value.certificate_authority = None;
        }
        for user in self.users.values_mut() {
            user.value.client_certificate = None;
            user.value.client_key = None;
        }
    }

    /// Adds the contents of one more file, of lower precedence than those before.
    fn add(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let malformed = |message| ConfigError::Malformed {
            file: path.to_owned(),
            message,
        };
        let file: File = yaml::from_str(text).map_err(malformed)?.unwrap_or_default();
        if let Some(kind) = file.kind.filter(|kind| kind != "Config") {
            return Err(malformed(format!(
                "kind is {kind:?} and should be \"Config\"; is it a kubeconfig?"
            )));
        }
        if let Some(version) = file.api_version.filter(|version| version != "v1") {
            return Err(malformed(format!(
                "apiVersion is {version:?} and should be \"v1\"; is it a kubeconfig?"
            )));
        }
        let current = file.current_context.filter(|name| !name.is_empty());
        self.current_context = self.current_context.take().or(current);
        let contexts = file.contexts.unwrap_or_default();
        let contexts = contexts.into_iter().map(|c| (c.name, c.context));
        merge(&mut self.contexts, path, "contexts", contexts)?;
        let clusters = file.clusters.unwrap_or_default();
        let clusters = clusters.into_iter().map(|c| (c.name, c.cluster));
        merge(&mut self.clusters, path, "clusters", clusters)?;
        let users = file.users.unwrap_or_default();
        let users = users.into_iter().map(|u| (u.name, u.user));
        merge(&mut self.users, path, "users", users)?;
        self.files.push(path.to_owned());
        Ok(())
    }
}

fn merge<T: Default>(
    into: &mut Entries<T>,
    file: &Path,
    list: &str,
    entries: impl Iterator<Item = (String, Option<T>)>,
) -> Result<(), ConfigError> {
    let mut added = BTreeMap::new();
    for (name, value) in entries {
        let entry = Entry {
            file: file.to_owned(),
            value: value.unwrap_or_default(),
        };
        if added.insert(name.clone(), entry).is_some() {
            return Err(ConfigError::Malformed {
                file: file.to_owned(),
                message: format!("{list}: {name:?} is there twice; remove one"),
            });
        }
    }
    for (name, entry) in added {
        into.entry(name).or_insert(entry);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(texts: &[&str]) -> Result<Kubeconfig, ConfigError> {
        let mut config = Kubeconfig::default();
        for (i, text) in texts.iter().enumerate() {
            config.add(Path::new(&format!("/f{i}")), text)?;
        }
        Ok(config)
    }

    #[test]
    fn the_first_file_wins_entry_by_entry() {
        let first = "users: [{name: red, user: {token: a}}]\ncurrent-context: ''\n";
        let second = "users: [{name: red, user: {username: u, password: p}}, {name: blue}]\n\
                      current-context: two\n";
        let third = "current-context: three\nclusters: null\nkind: Config\n";
        let config = merged(&[first, second, third]).unwrap();
        assert_eq!(config.current_context.as_deref(), Some("two"));
        let red = &config.users["red"];
        assert_eq!(red.file, Path::new("/f0"));
        assert_eq!(red.value.token.as_ref().map(Secret::expose), Some("a"));
        assert_eq!(
            red.value.username, None,
            "nothing of a later red is mixed in"
        );
        assert_eq!(config.users["blue"].file, Path::new("/f1"));
    }

    #[test]
    fn an_empty_file_and_unknown_keys_are_no_error() {
        let extra = "preferences: {colors: true}\nusers:\n- name: a\n  user: {x-y: {z: 1}}\n";
        let config = merged(&["", extra]).unwrap();
        assert!(config.users.contains_key("a"));
        assert_eq!(config.files.len(), 2);
    }

    #[test]
    fn malformed_files_name_file_and_key_and_hide_values() {
        let wrong = "users:\n- name: a\n  user:\n    token: [hunter2]\n";
        let error = merged(&[wrong]).unwrap_err().to_string();
        assert!(
            error.contains("/f0") && error.contains("users[0].user.token"),
            "{error}"
        );
        assert!(!error.contains("hunter2"), "{error}");

        let twice = "users: [{name: a}, {name: a}]\n";
        let error = merged(&[twice]).unwrap_err().to_string();
        assert!(error.contains("users: \"a\" is there twice"), "{error}");

        let error = merged(&["kind: Pod\n"]).unwrap_err().to_string();
        assert!(error.contains("is it a kubeconfig?"), "{error}");
    }

    #[test]
    fn a_missing_file_is_skipped_only_when_listed_in_kubeconfig() {
        let missing = [PathBuf::from("/does/not/exist")];
        assert!(Kubeconfig::read(&missing, true).unwrap().files.is_empty());
        let error = Kubeconfig::read(&missing, false).unwrap_err().to_string();
        assert!(
            error.contains("can't read kubeconfig /does/not/exist"),
            "{error}"
        );
    }
}
