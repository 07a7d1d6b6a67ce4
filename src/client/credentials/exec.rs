//! Credential plugins: a program that prints an ExecCredential.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::Obtained;
use crate::client::Environment;
use crate::client::secret::Secret;
use crate::client::telemetry;
use crate::client::transport::tls;

/// Longest run of a plugin: it may have to ask an identity provider, but nobody is there to log in.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most output that is read: a token and a certificate chain are a few kilobytes.
const OUTPUT_LIMIT: u64 = 1 << 20;
/// Most of a failed plugin's standard error that is quoted.
const QUOTED: usize = 500;

/// Exit code, as client-go counts it, of a run that has none.
const NO_CODE: i32 = 1;
/// client-go's words for what became of a run.
const EXECUTION_ERROR: &str = "plugin_execution_error";
const NOT_FOUND_ERROR: &str = "plugin_not_found_error";
const INTERNAL_ERROR: &str = "client_internal_error";

/// `users[].user.exec` of a kubeconfig.
#[derive(Clone, Debug)]
pub(in crate::client) struct ExecPlugin {
    pub(in crate::client) api_version: String,
    pub(in crate::client) command: PathBuf,
    pub(in crate::client) args: Vec<String>,
    pub(in crate::client) env: Vec<(String, Secret)>,
    pub(in crate::client) install_hint: Option<String>,
    /// `spec.cluster` of what the plugin is told, where it wants to know.
    pub(in crate::client) cluster_info: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct ExecCredential {
    kind: String,
    #[serde(rename = "apiVersion")]
    api_version: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<Timestamp>,
    token: Option<Secret>,
    client_certificate_data: Option<String>,
    client_key_data: Option<Secret>,
}

impl ExecPlugin {
    /// Runs the plugin, without a terminal, and reads the credential that it prints.
    pub(super) async fn run(&self, environment: &Environment) -> Result<Obtained, String> {
        let output = tokio::time::timeout(TIMEOUT, self.output()).await;
        let output = output.unwrap_or_else(|_| {
            let problem = format!("no answer within {TIMEOUT:?}");
            Err(Failed::new(NO_CODE, EXECUTION_ERROR, problem))
        });
        let read = output.and_then(|output| {
            parse(&output, &self.api_version)
                .and_then(|status| obtained(status, environment.now()))
                .map_err(|problem| Failed::new(NO_CODE, INTERNAL_ERROR, problem))
        });
        match read {
            Ok(obtained) => {
                telemetry::plugin_ran(0, "no_error");
                if let Some(left) = obtained.life {
                    telemetry::plugin_ttl(left);
                }
                Ok(obtained)
            }
            Err(failed) => {
                telemetry::plugin_ran(failed.code, failed.status);
                let command = self.command.display();
                Err(format!("credential plugin {command}: {}", failed.problem))
            }
        }
    }

    async fn output(&self) -> Result<Vec<u8>, Failed> {
        let mut spec = serde_json::json!({"interactive": false});
        if let Some(cluster) = &self.cluster_info {
            spec["cluster"] = cluster.clone();
        }
        let info = serde_json::json!({
            "kind": "ExecCredential",
            "apiVersion": self.api_version,
            "spec": spec,
        });
        let mut child = Command::new(&self.command)
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value.expose())))
            .env("KUBERNETES_EXEC_INFO", info.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| self.not_started(&error))?;
        let (stdout, stderr) = tokio::join!(read(child.stdout.take()), read(child.stderr.take()));
        let failed = |code, problem| Failed::new(code, EXECUTION_ERROR, problem);
        let status = child.wait().await;
        let status = status.map_err(|error| failed(NO_CODE, error.to_string()))?;
        if !status.success() {
            let stderr = String::from_utf8_lossy(&stderr);
            let stderr = stderr.trim().chars().take(QUOTED).collect::<String>();
            let code = status.code().unwrap_or(NO_CODE);
            return Err(failed(code, format!("{status}: {stderr}")));
        }
        Ok(stdout)
    }

    fn not_started(&self, error: &std::io::Error) -> Failed {
        let hint = self
            .install_hint
            .as_deref()
            .unwrap_or("is it installed and in PATH?");
        let problem = format!("can't be started: {error}; {}", hint.trim());
        Failed::new(NO_CODE, NOT_FOUND_ERROR, problem)
    }
}

/// A run that gave no credential: for metrics and for the message.
struct Failed {
    code: i32,
    status: &'static str,
    problem: String,
}

impl Failed {
    fn new(code: i32, status: &'static str, problem: String) -> Self {
        Self {
            code,
            status,
            problem,
        }
    }
}

/// At most [`OUTPUT_LIMIT`] bytes; more is cut, which then does not parse.
async fn read(pipe: Option<impl tokio::io::AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // A pipe that breaks has ended: the exit status says why.
        let _ = pipe.take(OUTPUT_LIMIT).read_to_end(&mut bytes).await;
    }
    bytes
}

fn parse(output: &[u8], api_version: &str) -> Result<Status, String> {
    // serde_json's message for a mistyped value quotes it, so only the place is told.
    let credential: ExecCredential = serde_json::from_slice(output).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("what it printed is no ExecCredential (line {line}, column {column})")
    })?;
    if credential.kind != "ExecCredential" || credential.api_version != api_version {
        return Err(format!(
            "it printed {} {} instead of {api_version} ExecCredential",
            credential.api_version, credential.kind
        ));
    }
    credential
        .status
        .ok_or_else(|| "it printed no status".to_owned())
}

fn obtained(status: Status, now: Timestamp) -> Result<Obtained, String> {
    let identity = match (&status.client_certificate_data, &status.client_key_data) {
        (None, None) => None,
        (Some(chain), Some(key)) => Some(tls::identity(chain.as_bytes(), key.expose().as_bytes())?),
        _ => return Err("it printed a client certificate without key, or the reverse".to_owned()),
    };
    if status.token.is_none() && identity.is_none() {
        return Err("it printed neither a token nor a client certificate".to_owned());
    }
    Ok(Obtained {
        token: status.token,
        identity,
        life: status.expiration_timestamp.map(|expiry| life(expiry, now)),
    })
}

/// Nine tenths of the time left: a request that starts just before the expiry must still arrive.
fn life(expiry: Timestamp, now: Timestamp) -> Duration {
    let left = Duration::try_from(expiry.duration_since(now)).unwrap_or_default();
    left.mul_f64(0.9)
}

/// Reads what a plugin may have printed.
#[cfg(any(fuzzing, test))]
pub(in crate::client) fn fuzz(output: &[u8]) {
    let status = parse(output, "client.authentication.k8s.io/v1");
    let obtained = status.and_then(|status| obtained(status, Timestamp::UNIX_EPOCH));
    let problem = obtained.err().unwrap_or_default();
    assert!(problem.len() < 1000 + 2 * output.len(), "{}", problem.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "client.authentication.k8s.io/v1";

    fn shell(script: &str) -> ExecPlugin {
        ExecPlugin {
            api_version: V1.to_owned(),
            command: PathBuf::from("sh"),
            args: vec!["-c".to_owned(), script.to_owned()],
            env: vec![("EXTRA".to_owned(), Secret::new("from-env"))],
            install_hint: None,
            cluster_info: Some(serde_json::json!({"server": "https://a"})),
        }
    }

    fn printing(status: &str) -> String {
        format!(r#"{{"kind":"ExecCredential","apiVersion":"{V1}","status":{status}}}"#)
    }

    #[tokio::test]
    async fn k1126_a_plugin_gets_cluster_and_environment_and_gives_a_token() {
        let body = printing(r#"{"token":"'$EXTRA'"}"#);
        let script = format!(
            r#"case "$KUBERNETES_EXEC_INFO" in *'"server":"https://a"'*) echo '{body}';; esac"#
        );
        let obtained = shell(&script).run(&Environment::system()).await.unwrap();
        assert_eq!(obtained.token.unwrap().expose(), "from-env");
        assert!(obtained.life.is_none());
    }

    #[tokio::test]
    async fn plugins_that_fail_say_why_and_how_to_mend_it() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let failed = async |script: &str| {
            shell(script)
                .run(&Environment::system())
                .await
                .err()
                .unwrap()
        };
        let error = failed("echo log in first >&2; exit 3").await;
        assert!(
            error.contains("credential plugin sh: exit status: 3: log in first"),
            "{error}"
        );
        let error = failed("echo '{\"token\": \"hunter2\"}'").await;
        assert!(
            error.contains("no ExecCredential") && !error.contains("hunter2"),
            "{error}"
        );
        let error = failed(&format!("echo '{}'", printing("{}"))).await;
        assert!(error.contains("neither a token nor"), "{error}");

        let missing = ExecPlugin {
            command: PathBuf::from("no-such-plugin"),
            install_hint: Some("install it from example.com".to_owned()),
            ..shell("")
        };
        let error = missing.run(&Environment::system()).await.err().unwrap();
        assert!(error.contains("install it from example.com"), "{error}");
        let counted = recorder.handle().render();
        for labels in [
            "code=\"3\",call_status=\"plugin_execution_error\"} 1",
            "code=\"1\",call_status=\"client_internal_error\"} 2",
            "code=\"1\",call_status=\"plugin_not_found_error\"} 1",
        ] {
            assert!(counted.contains(labels), "{labels} is not in\n{counted}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn k1950_a_plugin_that_hangs_is_ended() {
        // The fifo never gets a writer: the shell blocks for ever without a sleep.
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let script = format!("mkfifo {0} && read line < {0}", fifo.display());
        let error = shell(&script)
            .run(&Environment::system())
            .await
            .err()
            .unwrap();
        assert!(error.contains("no answer within 30s"), "{error}");
    }

    #[test]
    fn a_credential_is_used_for_nine_tenths_of_its_life() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let left = life("2026-01-01T00:00:10Z".parse().unwrap(), now);
        assert_eq!(left, Duration::from_secs(9));
        let past = life("2025-01-01T00:00:10Z".parse().unwrap(), now);
        assert_eq!(past, Duration::ZERO);
    }
}
