//! The embedded server, in this process, over a real socket.

use std::collections::BTreeMap;

use mainstay::apiserver::{ApiServer, ApiServerOptions, Client};
use tokio::net::TcpListener;

use super::{CLIENTS, Credentials, Target};
use crate::http::{Http, Pem};

/// Starts one, which ends with the process.
pub(crate) async fn start() -> Result<Target, String> {
    let tokens: BTreeMap<String, Client> = CLIENTS
        .iter()
        .map(|(name, user, group)| {
            let client = Client {
                name: (*user).to_owned(),
                groups: vec![(*group).to_owned()],
                rules: group.is_empty().then(Vec::new),
            };
            (format!("{name}-token"), client)
        })
        .collect();
    let server = ApiServer::new(ApiServerOptions {
        tokens,
        ..ApiServerOptions::default()
    });
    let failed = |error: std::io::Error| error.to_string();
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    tokio::spawn(async move { server.serve(listener, None, std::future::pending()).await });
    Ok(Target {
        http: Http::new(&format!("http://{address}"), &Pem::default())?,
        credentials: Credentials::Tokens,
        shared: false,
        accounts: false,
    })
}
