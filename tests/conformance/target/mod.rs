//! Servers that the cases run on.

pub(crate) mod embedded;
mod kubeconfig;
mod pair;

use std::time::{Duration, SystemTime};

use http::Response;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::http::{Http, whole};
pub(crate) use pair::{Pair, programs};

/// Clients of the servers that are started here: name, user and group for their token file. Any
/// other name that a case uses stands for a client whom the server does not know.
const CLIENTS: [(&str, &str, &str); 2] =
    [("admin", "admin", "system:masters"), ("alice", "alice", "")];

/// How often a new namespace is looked at until it is ready, and how far apart.
const LOOKS: u32 = 6000;
const PAUSE: Duration = Duration::from_millis(20);

/// A server.
#[derive(Debug)]
pub(crate) struct Target {
    http: Http,
    credentials: Credentials,
    /// Others use it too, or controllers of workloads and nodes run: `!alone` cases stay away, and
    /// what was made is removed.
    pub(crate) shared: bool,
    /// Whether a namespace is ready only with its service account.
    accounts: bool,
}

/// How clients say who they are.
#[derive(Debug)]
enum Credentials {
    /// By a token, `NAME-token`.
    Tokens,
    /// As administrator by what the connection carries, as others by impersonation.
    Impersonation(Option<String>),
}

impl Target {
    /// The server of a kubeconfig file.
    pub(crate) fn of_kubeconfig(file: &str) -> Result<Self, String> {
        kubeconfig::read(file)
    }

    /// Sends a request as `client`, by default the administrator.
    pub(crate) async fn send(
        &self,
        client: Option<&str>,
        method: &str,
        path: &str,
        mut headers: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, String> {
        let known = |name: &str| CLIENTS.iter().any(|(known, ..)| *known == name);
        let token = match (&self.credentials, client) {
            (_, Some("nobody")) => None,
            (Credentials::Tokens, client) => Some(format!("{}-token", client.unwrap_or("admin"))),
            (Credentials::Impersonation(token), client) => {
                if let Some(client) = client.filter(|client| known(client)) {
                    headers.push(("impersonate-user".to_owned(), client.to_owned()));
                }
                match client {
                    Some(client) if !known(client) => Some(format!("{client}-token")),
                    _ => token.clone(),
                }
            }
        };
        if let Some(token) = token {
            headers.push(("authorization".to_owned(), format!("Bearer {token}")));
        }
        self.http.head(method, path, &headers, body).await
    }

    /// A request as administrator: the status and the body.
    pub(crate) async fn admin(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<(u16, Value), String> {
        let headers = match body {
            Some(_) => vec![("content-type".to_owned(), "application/json".to_owned())],
            None => Vec::new(),
        };
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let response = self.send(None, method, path, headers, body).await?;
        let status = response.status().as_u16();
        let body = whole(response.into_body()).await?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// Makes a namespace with a name that is used nowhere else.
    pub(crate) async fn make_namespace(&self) -> Result<String, String> {
        let name = format!("truth-{}", letters());
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match self.admin("POST", "/api/v1/namespaces", Some(body)).await? {
            (201, _) => {}
            (status, body) => return Err(format!("no namespace for the case: {status} {body}")),
        }
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        for _ in 0..LOOKS {
            if !self.accounts || self.admin("GET", &account, None).await?.0 == 200 {
                return Ok(name);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(format!("namespace {name} gets no service account"))
    }

    /// Removes a case's namespace and what it made, where somebody would be bothered. Nothing is held
    /// by a finalizer any more.
    pub(crate) async fn clean(&self, namespace: &str, created: Vec<String>) {
        if !self.shared {
            return;
        }
        let namespace = format!("/api/v1/namespaces/{namespace}");
        let free = json!({"metadata": {"finalizers": null}}).to_string();
        for path in created.into_iter().rev().chain([namespace]) {
            let kind = (
                "content-type".to_owned(),
                "application/merge-patch+json".to_owned(),
            );
            let body = free.clone().into_bytes();
            // It may be gone already.
            drop(self.send(None, "PATCH", &path, vec![kind], body).await);
            drop(self.admin("DELETE", &path, None).await);
        }
    }
}

/// Eight letters that are not the same twice.
fn letters() -> String {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let mut rest = now.as_micros();
    (0..8)
        .map(|_| {
            let letter = char::from(b'a' + u8::try_from(rest % 26).unwrap_or(0));
            rest /= 26;
            letter
        })
        .collect()
}
