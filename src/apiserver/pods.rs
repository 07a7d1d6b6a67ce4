//! How the server reaches pods, for `proxy` and `log`. Whoever runs the pods provides it.

use std::io;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream to a port of a pod.
pub trait PodStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> PodStream for T {}

/// What is wanted of a container's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Container; the only one where none is named.
    pub container: Option<String>,
    /// Go on as the container writes.
    pub follow: bool,
    /// Of the container before the last restart.
    pub previous: bool,
    /// Only so many of the last lines.
    pub tail_lines: Option<u64>,
    /// Begin each line with its time.
    pub timestamps: bool,
}

/// Reaches pods.
pub trait PodDial: Send + Sync + 'static {
    /// Opens a stream to a port of a pod. `tls`: the request was for `https:`; what is given back is
    /// then the inside of the secured stream.
    fn dial(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
        tls: bool,
    ) -> BoxFuture<'static, io::Result<Box<dyn PodStream>>>;

    /// Opens a container's log. Without it there are no logs.
    fn log(
        &self,
        namespace: &str,
        pod: &str,
        options: LogOptions,
    ) -> BoxFuture<'static, io::Result<Box<dyn AsyncRead + Send + Unpin>>> {
        let _ = (namespace, pod, options);
        Box::pin(async {
            Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "logs are not kept here",
            ))
        })
    }
}
