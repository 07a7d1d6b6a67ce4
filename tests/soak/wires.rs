//! The ways from other processes to the pods: at each pod's address somebody listens with the cluster's
//! certificate, which modelled instances have no use for, and passes on what comes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay::client::{Client, SECRET};
use mainstay::instance::PORT;
use mainstay::sandbox::{Node, PodFacts};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

/// Between two looks which pods there are.
const LOOK: Duration = Duration::from_millis(200);

/// One pod's. Dropped, nothing listens at its address any more, and what was open is closed.
struct Wire {
    uid: String,
    listening: AbortHandle,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Keeps a way to each pod that there is. Never ends.
pub(crate) async fn lay(node: Node, client: Client) {
    let mut wires: BTreeMap<IpAddr, Wire> = BTreeMap::new();
    loop {
        let pods: BTreeMap<IpAddr, PodFacts> =
            node.pods().into_iter().map(|pod| (pod.ip, pod)).collect();
        wires.retain(|ip, wire| pods.get(ip).is_some_and(|pod| pod.uid == wire.uid));
        for (ip, pod) in pods {
            if wires.contains_key(&ip) {
                continue;
            }
            // A listener of the pod before may not be gone yet.
            let Ok(listener) = TcpListener::bind((ip, PORT)).await else {
                continue;
            };
            let uid = pod.uid.clone();
            let listening =
                tokio::spawn(listen(node.clone(), client.clone(), pod, listener)).abort_handle();
            wires.insert(ip, Wire { uid, listening });
        }
        sleep(LOOK).await;
    }
}

async fn listen(node: Node, client: Client, pod: PodFacts, listener: TcpListener) {
    let mut tls = None;
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        if tls.is_none() {
            tls = acceptor(&client, &pod).await;
        }
        // Without a certificate the connection is closed.
        if let Some(tls) = tls.clone() {
            connections.spawn(pass(node.clone(), pod.clone(), tls, stream));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// What proves that a pod is an instance of its cluster; `None` where there is no certificate yet.
async fn acceptor(client: &Client, pod: &PodFacts) -> Option<TlsAcceptor> {
    let (cluster, _) = pod.name.rsplit_once('-')?;
    let name = format!("{cluster}-tls");
    let secret = client.get(SECRET, Some(&pod.namespace), &name);
    let secret: Value = secret.await.ok()?;
    let file = |name: &str| STANDARD.decode(secret["data"][name].as_str()?).ok();
    let certificates = file("tls.crt")?;
    let certificates = CertificateDer::pem_slice_iter(&certificates).collect::<Result<_, _>>();
    let key = PrivateKeyDer::from_pem_slice(&file("tls.key")?).ok()?;
    let config = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .ok()?
        .with_no_client_auth()
        .with_single_cert(certificates.ok()?, key)
        .ok()?;
    Some(TlsAcceptor::from(Arc::new(config)))
}

/// Until either side ends. Where there is no container, the connection is closed.
async fn pass(node: Node, pod: PodFacts, tls: TlsAcceptor, stream: TcpStream) {
    let Ok(mut stream) = tls.accept(stream).await else {
        return;
    };
    if let Ok(mut inside) = node.dial(&pod.namespace, &pod.name, PORT, false).await {
        let _ = copy_bidirectional(&mut stream, &mut inside).await;
    }
}
