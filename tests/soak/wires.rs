//! The ways from other processes to the pods: at each pod's address somebody listens who passes bytes on.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use mainstay::instance::PORT;
use mainstay::sandbox::{Node, PodFacts};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

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
pub(crate) async fn lay(node: Node) {
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
            let listening = tokio::spawn(listen(node.clone(), pod, listener)).abort_handle();
            wires.insert(ip, Wire { uid, listening });
        }
        sleep(LOOK).await;
    }
}

async fn listen(node: Node, pod: PodFacts, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            connections.spawn(pass(node.clone(), pod.clone(), stream));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Until either side ends. Where there is no container, the connection is closed.
async fn pass(node: Node, pod: PodFacts, mut stream: TcpStream) {
    if let Ok(mut inside) = node.dial(&pod.namespace, &pod.name, PORT, false).await {
        let _ = copy_bidirectional(&mut stream, &mut inside).await;
    }
}
