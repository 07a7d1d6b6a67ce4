//! Kubernetes' verbs on typed resources: each builds one [`Call`], which `request.rs` runs.

mod ours;
mod read;
mod write;

use http::Method;
use serde::de::DeserializeOwned;

pub use read::ListPage;
#[cfg(any(fuzzing, test))]
pub(super) use read::page;

use super::answer::decode;
use super::call::{Call, Subject, Verb, check_names};
use super::request::{Reply, ReplyBody};
use super::{Client, Error, Resource};

/// Largest single object: etcd stores 1.5 MiB, its JSON with managed fields is a few times that.
const OBJECT_LIMIT: usize = 16 << 20;

impl Client {
    pub(super) async fn run_and_decode<T: DeserializeOwned>(
        &self,
        call: &Call,
    ) -> Result<T, Error> {
        self.decoded(call, self.run(call).await?)
    }

    fn decoded<T: DeserializeOwned>(&self, call: &Call, reply: Reply) -> Result<T, Error> {
        match reply.body {
            ReplyBody::Whole(body) => {
                decode(&call.subject, &body).map_err(|error| error.at_url(&self.url_of(call)))
            }
            ReplyBody::Stream(_) => unreachable!("a whole body was wanted"),
        }
    }
}

fn on_collection(
    verb: Verb,
    method: Method,
    resource: Resource,
    namespace: Option<&str>,
    limit: usize,
) -> Result<Call, Error> {
    let subject = Subject::collection(verb, resource, namespace);
    check_names(&subject, resource, namespace, None)?;
    Ok(Call::new(
        subject,
        method,
        resource.collection_path(namespace),
        limit,
    ))
}

fn on_object(
    verb: Verb,
    method: Method,
    resource: Resource,
    namespace: Option<&str>,
    name: &str,
    subresource: Option<&str>,
) -> Result<Call, Error> {
    let subject = Subject::object(verb, resource, namespace, name, subresource);
    check_names(&subject, resource, namespace, Some(name))?;
    let path = resource.object_path(namespace, name, subresource);
    Ok(Call::new(subject, method, path, OBJECT_LIMIT))
}
