//! How the parties reach each other: everything goes over the network.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mainstay::apiserver::{ApiServer, PodDial, PodStream};
use mainstay::client::{Dial, Stream};
use mainstay::instance::PORT;
use mainstay::operator::instances::{Address, DialError, InstanceDial};
use mainstay::sandbox::Node;
use tokio::time::timeout;

use super::{CLUSTER, MOST_INSTANCES, NAMESPACE};
use crate::network::{Network, Party};

/// As [`InstanceDial`] promises.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Who serves the API.
pub(crate) fn api() -> Party {
    "api".into()
}

/// The pod of an instance, whichever incarnation.
pub(crate) fn pod(ordinal: u32) -> Party {
    format!("{CLUSTER}-{ordinal}").into()
}

/// Lets the API server and the instances be reached.
pub(super) fn open(network: &Network, server: &ApiServer, node: &Node) {
    let served = server.clone();
    network.serve(
        &api(),
        Arc::new(move |socket, _| {
            let server = served.clone();
            tokio::spawn(async move { server.serve_stream(socket).await });
        }),
    );
    for ordinal in 0..MOST_INSTANCES {
        let (node, name) = (node.clone(), pod(ordinal));
        network.serve(
            &pod(ordinal),
            Arc::new(move |mut socket, _| {
                let (node, name) = (node.clone(), name.clone());
                tokio::spawn(async move {
                    // Dropping the socket is what a closed port does.
                    if let Ok(mut stream) = node.dial(NAMESPACE, &name, PORT, false).await {
                        let _ = tokio::io::copy_bidirectional(&mut socket, &mut stream).await;
                    }
                });
            }),
        );
    }
    server.set_pod_dialer(Arc::new(ToPods {
        network: network.clone(),
        from: api(),
        node: node.clone(),
    }));
}

/// A client's way to the API server.
pub(super) struct ToApi {
    pub(super) network: Network,
    pub(super) from: Party,
}

impl Dial for ToApi {
    fn dial(&self, _: http::Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let (network, from) = (self.network.clone(), self.from.clone());
        Box::pin(async move {
            let socket = network.connect(&from, &api()).await?;
            Ok(Box::new(socket) as Box<dyn Stream>)
        })
    }
}

/// Somebody's way to the pods.
pub(super) struct ToPods {
    pub(super) network: Network,
    pub(super) from: Party,
    pub(super) node: Node,
}

impl InstanceDial for ToPods {
    fn dial(&self, address: &Address) -> BoxFuture<'static, Result<Box<dyn Stream>, DialError>> {
        let (network, from) = (self.network.clone(), self.from.clone());
        let (node, address) = (self.node.clone(), address.clone());
        Box::pin(async move {
            let unroutable = || DialError::Unroutable(format!("{address:?} does not answer"));
            let connecting = async {
                // Nobody is at the address of a pod that is gone.
                while !is_there(&node, &address) {
                    tokio::time::sleep(CONNECT_TIMEOUT).await;
                }
                network.connect(&from, &address.pod.as_str().into()).await
            };
            match timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(Ok(socket)) => Ok(Box::new(socket) as Box<dyn Stream>),
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    Err(DialError::Other(format!("{address:?}: {error}")))
                }
                Ok(Err(_)) | Err(_) => Err(unroutable()),
            }
        })
    }
}

fn is_there(node: &Node, address: &Address) -> bool {
    let pods = node.pods();
    pods.iter().any(|pod| pod.ip.to_string() == address.ip)
}

impl PodDial for ToPods {
    fn dial(
        &self,
        _: &str,
        pod: &str,
        port: u16,
        _: bool,
    ) -> BoxFuture<'static, io::Result<Box<dyn PodStream>>> {
        let (network, from, pod) = (self.network.clone(), self.from.clone(), Party::from(pod));
        Box::pin(async move {
            if port != PORT {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let socket = network.connect(&from, &pod).await?;
            Ok(Box::new(socket) as Box<dyn PodStream>)
        })
    }
}
