//! The way to an API server in the same process.

use std::io;

use futures_util::future::BoxFuture;

use crate::apiserver::ApiServer;
use crate::client::{Dial, Stream};

/// Bytes under way in either direction.
const CAPACITY: usize = 64 << 10;

/// Connections to this API server in memory, whatever address is asked for.
#[derive(Clone, Debug)]
pub struct InMemory(pub ApiServer);

impl Dial for InMemory {
    fn dial(&self, _: http::Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let server = self.0.clone();
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(CAPACITY);
            tokio::spawn(async move { server.serve_stream(far).await });
            Ok(Box::new(near) as Box<dyn Stream>)
        })
    }
}
