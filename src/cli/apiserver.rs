//! `mainstay apiserver`: an API server in memory.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::net::TcpListener;

use crate::apiserver::{Access, ApiServer, ApiServerOptions, Client};
use crate::client::{ClientOptions, Config, ConfigError, ConfigSource};

/// Cluster and user in the kubeconfig.
const NAME: &str = "mainstay";

/// Options of `mainstay apiserver`.
#[derive(Debug, Args)]
pub(super) struct ApiServerArgs {
    /// Address to listen on; port 0 takes any that is free
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Serve HTTPS, with a certificate that is made for this run
    #[arg(long)]
    tls: bool,
    /// Where to write the kubeconfig; a file in the temporary directory where this is left out
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Let in only who has this token (may be repeated); the kubeconfig gets the first
    #[arg(long = "token", value_name = "NAME=TOKEN", value_parser = token)]
    tokens: Vec<(String, String)>,
    /// Answer nothing, but pass all requests on to the server of this kubeconfig, with the faults that
    /// `/faults` asks for
    #[arg(long, value_name = "KUBECONFIG", conflicts_with = "tokens")]
    upstream: Option<PathBuf>,
    /// Events kept for each resource: how far back a watch can begin
    #[arg(long, default_value_t = ApiServerOptions::default().history, value_name = "EVENTS")]
    history: usize,
    /// Seed of UIDs, generated names and faults
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn token(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, token)) if !name.is_empty() && !token.is_empty() => {
            Ok((name.to_owned(), token.to_owned()))
        }
        _ => Err("NAME=TOKEN is wanted".to_owned()),
    }
}

/// Serves until SIGTERM or SIGINT. Prints the path of the kubeconfig once it listens.
pub(super) async fn run(args: ApiServerArgs) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| format!("can't listen on {}: {error}", args.listen))?;
    let address = listener.local_addr()?;
    let access = if args.tls {
        Access::tls(NAME, ["localhost".to_owned(), address.ip().to_string()])?
    } else {
        Access::plain(NAME)
    };
    let tokens: BTreeMap<String, Client> = args
        .tokens
        .iter()
        .map(|(name, token)| (token.clone(), Client::admin(name)))
        .collect();
    let upstream = match args.upstream {
        Some(kubeconfig) => Some(upstream(kubeconfig).await?),
        None => None,
    };
    let server = ApiServer::new(ApiServerOptions {
        upstream,
        history: args.history,
        seed: args.seed,
        tokens,
        ..ApiServerOptions::default()
    });
    let path = args.kubeconfig_out.unwrap_or_else(|| {
        std::env::temp_dir().join(format!("mainstay-{}.kubeconfig", address.port()))
    });
    // kubectl asks for a password where it has to show nothing over TLS.
    let token = args.tokens.first().map_or("any", |(_, token)| token);
    write_private(&path, &access.kubeconfig(address, NAME, token))?;
    println!("{}", path.display());
    server.serve(listener, access.server(), stopped()?).await;
    Ok(())
}

/// Reaches the server of a kubeconfig. What a request suffers on the way is for its sender to see: nothing
/// is limited and no breaker opens.
async fn upstream(kubeconfig: PathBuf) -> Result<crate::client::Client, ConfigError> {
    let source = ConfigSource {
        kubeconfig: Some(kubeconfig),
        context: None,
    };
    let client =
        crate::client::Client::new(Config::load(&source).await?, ClientOptions::default())?;
    Ok(client.election_lane())
}

/// Ready at SIGTERM or SIGINT.
fn stopped() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Writes a file that only its owner can read: there may be a token in it.
fn write_private(path: &Path, text: &str) -> Result<(), String> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| format!("can't write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_name_and_a_value() {
        assert!(token("a=").is_err() && token("a=b=c").is_ok());
    }
}
