//! Ours and kubectl's reading of the same files: `tests/kubeconfig/cases.yaml` against what
//! `kubectl config view --minify --raw` made of them, as recorded and, where there is a kubectl
//! (KUBECTL, or in PATH), as it is now. MAINSTAY_RECORD=1 writes the record anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::kubeconfig::Kubeconfig;
use super::{Config, Trust, resolve, yaml};
use crate::client::credentials::Auth;
use crate::client::secret::Secret;
use crate::client::transport::tls;

#[derive(Deserialize)]
struct Case {
    name: String,
    /// Contents by path.
    files: BTreeMap<PathBuf, String>,
    /// KUBECONFIG.
    kubeconfig: Vec<PathBuf>,
    context: Option<String>,
    /// Whether kubectl is to put the contents of files in place of their paths, which it shows as they
    /// are written.
    #[serde(default)]
    flatten: bool,
    /// Why we refuse what kubectl takes.
    stricter: Option<String>,
}

/// A case's files, and what stands in the table for what is made anew each time.
struct Scene {
    folder: tempfile::TempDir,
    case: Case,
    placeholders: Vec<(&'static str, String)>,
}

/// By case: kubectl's output, or `null` where it refused.
type Record = BTreeMap<String, Value>;

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/kubeconfig")
        .join(file)
}

fn scenes() -> Vec<Scene> {
    let table = std::fs::read_to_string(data("cases.yaml")).unwrap();
    let cases: Vec<Case> = yaml::from_str(&table).unwrap().unwrap();
    let pair = rcgen::generate_simple_self_signed(["me".to_owned()]).unwrap();
    let (certificate, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
    cases
        .into_iter()
        .map(|case| Scene::new(case, &certificate, &key))
        .collect()
}

impl Scene {
    fn new(case: Case, certificate: &str, key: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let placeholders = vec![
            ("$CERTIFICATE64", STANDARD.encode(certificate)),
            ("$KEY64", STANDARD.encode(key)),
            ("$CERTIFICATE", certificate.to_owned()),
            ("$KEY", key.to_owned()),
            ("$DIR", folder.path().display().to_string()),
        ];
        for (path, text) in &case.files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let fill = |text: String, (name, value): &(&str, String)| text.replace(name, value);
            let text = placeholders.iter().fold(text.clone(), fill);
            std::fs::write(path, text).unwrap();
        }
        Self {
            folder,
            case,
            placeholders,
        }
    }

    fn paths(&self) -> Vec<PathBuf> {
        let files = self.case.kubeconfig.iter();
        files.map(|file| self.folder.path().join(file)).collect()
    }

    fn ours(&self) -> Result<Facts, String> {
        let resolved = Kubeconfig::read(&self.paths(), true)
            .and_then(|files| resolve::resolve(&files, self.case.context.as_deref()));
        resolved
            .map(|config| facts(&config))
            .map_err(|error| error.to_string())
    }

    /// Its output with placeholders; `null` where it refuses.
    fn asked(&self, kubectl: &Path) -> Value {
        let mut command = Command::new(kubectl);
        command.args(["config", "view", "--minify", "--raw", "--output=json"]);
        command.env("KUBECONFIG", std::env::join_paths(self.paths()).unwrap());
        command.env("HOME", self.folder.path());
        if self.case.flatten {
            command.arg("--flatten");
        }
        if let Some(context) = &self.case.context {
            command.arg(format!("--context={context}"));
        }
        let output = command.output().unwrap();
        if !output.status.success() {
            return Value::Null;
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let hide = |text: String, (name, value): &(&str, String)| text.replace(value, name);
        serde_json::from_str(&self.placeholders.iter().fold(text, hide)).unwrap()
    }

    fn problem(&self, view: &Value) -> Option<String> {
        let name = &self.case.name;
        let fill = |text: String, (name, value): &(&str, String)| text.replace(name, value);
        let text = self.placeholders.iter().fold(view.to_string(), fill);
        let view: Value = serde_json::from_str(&text).unwrap();
        match (self.ours(), view) {
            (Err(_), Value::Null) => None,
            (Err(_), _) if self.case.stricter.is_some() => None,
            (Err(error), _) => Some(format!("{name}: refused only by us: {error}")),
            (Ok(_), Value::Null) => Some(format!("{name}: refused only by kubectl")),
            (Ok(ours), view) => {
                let theirs = self.their_facts(&view);
                (ours != theirs).then(|| format!("{name}: {ours:#?} is not {theirs:#?}"))
            }
        }
    }

    /// Of a path that kubectl shows as it is written: that of the one file which it can mean.
    fn absolute(&self, written: &str) -> String {
        let written: PathBuf = Path::new(written).components().collect();
        let written = written.strip_prefix(".").unwrap_or(&written);
        let mut files = self.case.files.keys();
        let meant = files.find(|file| file.ends_with(written)).unwrap();
        self.folder.path().join(meant).display().to_string()
    }

    /// The same as [`facts`], of what kubectl shows.
    fn their_facts(&self, view: &Value) -> Facts {
        let context = &view["contexts"][0]["context"];
        let cluster = &view["clusters"][0]["cluster"];
        let user = &view["users"][0]["user"];
        let text = |from: &Value, key: &str| from[key].as_str().map(str::to_owned);
        let mut facts = Facts::new();
        let mut add = |key, value: Option<String>| value.map(|value| facts.insert(key, value));
        add(
            "server",
            text(cluster, "server").map(|url| url.trim_end_matches('/').to_owned()),
        );
        add(
            "namespace",
            Some(text(context, "namespace").unwrap_or_else(|| "default".to_owned())),
        );
        add(
            "insecure",
            cluster["insecure-skip-tls-verify"]
                .as_bool()
                .map(|is| is.to_string()),
        );
        let pem = |from: &Value, key: &str| {
            let inline =
                text(from, &format!("{key}-data")).map(|data| STANDARD.decode(data).unwrap());
            inline.or_else(|| text(from, key).map(|file| std::fs::read(file).unwrap()))
        };
        let first = |pem: Vec<u8>| STANDARD.encode(&tls::certificates(&pem).unwrap()[0]);
        add(
            "authority",
            pem(cluster, "certificate-authority").map(first),
        );
        add("certificate", pem(user, "client-certificate").map(first));
        add("server name", text(cluster, "tls-server-name"));
        add(
            "proxy",
            text(cluster, "proxy-url").map(|url| {
                let (scheme, rest) = url.split_once("://").unwrap();
                match rest.split_once('@') {
                    None => url.clone(),
                    Some((user, host)) => {
                        format!("{scheme}://{host} as {}", user.replace("%20", " "))
                    }
                }
            }),
        );
        add("token", text(user, "token"));
        add(
            "token file",
            text(user, "tokenFile").map(|path| self.absolute(&path)),
        );
        let password = || text(user, "password").unwrap_or_default();
        add(
            "basic",
            text(user, "username").map(|name| format!("{name}:{}", password())),
        );
        let exec = &user["exec"];
        if let Some(command) = text(exec, "command") {
            let words = |value: &Value| value.as_str().unwrap().to_owned();
            let list = |key: &str| exec[key].as_array().cloned().unwrap_or_default();
            let args: Vec<String> = list("args").iter().map(words).collect();
            let pair = |var: &Value| format!(" {}={}", words(&var["name"]), words(&var["value"]));
            let env: String = list("env").iter().map(pair).collect();
            let told = exec["provideClusterInfo"].as_bool().unwrap_or(false);
            let version = words(&exec["apiVersion"]);
            let command = if command.contains('/') {
                self.absolute(&command)
            } else {
                command
            };
            add(
                "exec",
                Some(format!("{version} {command} {args:?}{env} {told}")),
            );
        }
        let mut headers = String::new();
        let mut header = |name: &str, value: String| headers.push_str(&format!("{name}={value} "));
        if let Some(name) = text(user, "as") {
            header("impersonate-user", name);
        }
        if let Some(uid) = text(user, "as-uid") {
            header("impersonate-uid", uid);
        }
        for group in user["as-groups"].as_array().into_iter().flatten() {
            header("impersonate-group", group.as_str().unwrap().to_owned());
        }
        let none = Map::new();
        for (key, values) in user["as-user-extra"].as_object().unwrap_or(&none) {
            for value in values.as_array().unwrap() {
                let value = value.as_str().unwrap().to_owned();
                header(&format!("impersonate-extra-{}", key.to_lowercase()), value);
            }
        }
        add("as", Some(headers).filter(|headers| !headers.is_empty()));
        facts
    }
}

/// What a kubeconfig comes to, comparable: certificates by content.
type Facts = BTreeMap<&'static str, String>;

fn facts(config: &Config) -> Facts {
    let mut facts = Facts::new();
    facts.insert("server", config.server.clone());
    facts.insert("namespace", config.namespace.clone());
    let mut add = |key, value: Option<String>| value.map(|value| facts.insert(key, value));
    match &config.tls.trust {
        Trust::System => None,
        Trust::Anyone => add("insecure", Some("true".to_owned())),
        Trust::Roots(roots) => add("authority", Some(STANDARD.encode(&roots[0]))),
    };
    let identity = config.tls.identity.as_ref();
    add(
        "certificate",
        identity.map(|identity| STANDARD.encode(&identity.cert[0])),
    );
    add("server name", config.tls.server_name.clone());
    add(
        "proxy",
        config.proxy.as_ref().map(|proxy| {
            let user = proxy
                .user()
                .map(|(name, word)| format!(" as {name}:{}", word.expose()));
            format!("{proxy}{}", user.unwrap_or_default())
        }),
    );
    let word = |secret: &Secret| secret.expose().to_owned();
    match &config.auth {
        Auth::None => None,
        Auth::Token(token) => add("token", Some(word(token))),
        Auth::TokenFile { file, fallback } => {
            add("token", fallback.as_ref().map(word));
            add("token file", Some(file.display().to_string()))
        }
        Auth::Basic { username, password } => {
            add("basic", Some(format!("{username}:{}", word(password))))
        }
        Auth::Exec(plugin) => {
            let env = plugin
                .env
                .iter()
                .map(|(name, value)| format!(" {name}={}", word(value)));
            let env: String = env.collect();
            let told = plugin.cluster_info.is_some();
            let (version, command) = (&plugin.api_version, &plugin.command);
            // What `./` leaves behind.
            let command: PathBuf = command.components().collect();
            let command = command.display();
            add(
                "exec",
                Some(format!("{version} {command} {:?}{env} {told}", plugin.args)),
            )
        }
    };
    let headers = config.impersonation.iter();
    let headers = headers.map(|(name, value)| format!("{name}={} ", value.to_str().unwrap()));
    let headers: String = headers.collect();
    add("as", Some(headers).filter(|headers| !headers.is_empty()));
    facts
}

fn kubectl() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECTL").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join("kubectl"));
    named.or_else(|| found.find(|file| file.is_file()))
}

#[test]
fn kubeconfigs_come_to_what_kubectl_made_of_them() {
    let record: Record =
        serde_json::from_slice(&std::fs::read(data("recorded.json")).unwrap()).unwrap();
    let scenes = scenes();
    assert_eq!(
        record.len(),
        scenes.len(),
        "record it anew: MAINSTAY_RECORD=1"
    );
    let problems = scenes
        .iter()
        .filter_map(|scene| scene.problem(&record[&scene.case.name]));
    let problems: Vec<_> = problems.collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn kubeconfigs_come_to_what_kubectl_makes_of_them_now() {
    let Some(kubectl) = kubectl() else {
        println!("SKIPPED: no kubectl in KUBECTL or PATH; the recorded outputs were checked");
        return;
    };
    let (mut record, mut problems) = (Record::new(), Vec::new());
    for scene in scenes() {
        let view = scene.asked(&kubectl);
        problems.extend(scene.problem(&view));
        record.insert(scene.case.name, view);
    }
    if std::env::var_os("MAINSTAY_RECORD").is_some() {
        let text = serde_json::to_string_pretty(&record).unwrap();
        std::fs::write(data("recorded.json"), text + "\n").unwrap();
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
