//! What changes nothing: get, list, watch.

use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{OBJECT_LIMIT, on_collection, on_object};
use crate::client::answer::decode;
use crate::client::call::{Call, Subject, Verb, Wanted};
use crate::client::limiter::Priority;
use crate::client::request::ReplyBody;
use crate::client::watch::WatchStream;
use crate::client::{Client, Error, ListOptions, Resource, WatchOptions};

/// Largest page of a list.
const LIST_LIMIT: usize = 64 << 20;

/// One page of a list; items undecoded.
#[derive(Debug)]
pub struct ListPage {
    /// The version that the list is of; watch from here once all pages are read.
    pub resource_version: String,
    /// Where the next page begins; `None` on the last.
    pub continue_token: Option<String>,
    /// The objects, each as its JSON (`apiVersion` and `kind` may be left out, as servers do).
    pub items: Vec<Box<RawValue>>,
}

impl Client {
    /// The object `name`.
    ///
    /// # Errors
    /// [`Error::NotFound`], among others.
    pub async fn get<T: DeserializeOwned>(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<T, Error> {
        let call = on_object(Verb::Get, Method::GET, resource, namespace, name, None)?;
        self.run_and_decode(&call).await
    }

    /// One page of the objects in a namespace, or (with `None`) in all.
    ///
    /// # Errors
    /// [`Error::Gone`] when the continue token is too old, among others.
    pub async fn list(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<ListPage, Error> {
        let limit = options.limit.map(|limit| limit.to_string());
        let call = on_collection(Verb::List, Method::GET, resource, namespace, LIST_LIMIT)?
            .with_optional("labelSelector", options.label_selector.as_deref())
            .with_optional("fieldSelector", options.field_selector.as_deref())
            .with_optional("limit", limit.as_deref())
            .with_optional("continue", options.continue_token.as_deref())
            .with_optional("resourceVersion", options.resource_version.as_deref());
        match self.run(&call).await?.body {
            ReplyBody::Whole(body) => {
                page(&call.subject, &body).map_err(|error| error.at_url(&self.url_of(&call)))
            }
            ReplyBody::Stream(_) => unreachable!("a whole body was wanted"),
        }
    }

    /// Opens a watch. The deadline holds until the server has accepted it; how long it may then be
    /// silent is for the caller to judge.
    ///
    /// # Errors
    /// [`Error::Gone`] when the resource version is too old, among others.
    pub async fn watch(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        options: &WatchOptions,
    ) -> Result<WatchStream, Error> {
        let timeout = options
            .timeout
            .map(|timeout| timeout.as_secs().max(1).to_string());
        let mut call = on_collection(Verb::Watch, Method::GET, resource, namespace, 0)?
            .with_query("watch", "true")
            .with_query("allowWatchBookmarks", "true")
            .with_optional("labelSelector", options.label_selector.as_deref())
            .with_optional("fieldSelector", options.field_selector.as_deref())
            .with_optional("resourceVersion", options.resource_version.as_deref())
            .with_optional("timeoutSeconds", timeout.as_deref());
        if options.send_initial_events {
            call = call
                .with_query("sendInitialEvents", "true")
                .with_query("resourceVersionMatch", "NotOlderThan");
        }
        call.wanted = Wanted::Stream;
        match self.run(&call).await?.body {
            ReplyBody::Stream(body) => {
                let url = self.url_of(&call);
                Ok(WatchStream::new(body, call.subject, url))
            }
            ReplyBody::Whole(_) => unreachable!("a stream was wanted"),
        }
    }

    /// GET /version: proves that server and credentials work.
    pub async fn server_version(&self) -> Result<String, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            git_version: String,
        }
        let subject = Subject {
            what: "get /version".to_owned(),
            verb: Verb::Get,
            label: "version",
            resource: "/version".to_owned(),
            namespace: None,
            key: String::new(),
            gvk: "version".to_owned(),
            priority: Priority::Normal,
        };
        let call = Call::new(subject, Method::GET, "/version".to_owned(), OBJECT_LIMIT);
        let version: Version = self.run_and_decode(&call).await?;
        Ok(version.git_version)
    }
}

/// Reads one page of a list.
pub(in crate::client) fn page(subject: &Subject, body: &[u8]) -> Result<ListPage, Error> {
    #[derive(Deserialize)]
    struct List {
        metadata: Metadata,
        items: Option<Vec<Box<RawValue>>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        #[serde(default)]
        resource_version: String,
        #[serde(rename = "continue")]
        continue_token: Option<String>,
    }
    let list: List = decode(subject, body)?;
    let token = list.metadata.continue_token;
    Ok(ListPage {
        resource_version: list.metadata.resource_version,
        continue_token: token.filter(|token| !token.is_empty()),
        items: list.items.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::POD;
    use crate::client::testing::{FakeServer, Reply};

    #[tokio::test]
    async fn a_list_comes_page_by_page_with_items_undecoded() {
        let server = FakeServer::replying([
            Reply::json(
                r#"{"metadata":{"resourceVersion":"5","continue":"c/1"},"items":[{"a":1},{"b": 2}]}"#,
            ),
            Reply::json(r#"{"metadata":{"resourceVersion":"5","continue":""},"items":null}"#),
            Reply::status(410, r#"{"kind":"Status","reason":"Expired"}"#),
        ]);
        let client = server.client();
        let mut options = ListOptions {
            label_selector: Some("a=b".to_owned()),
            limit: Some(2),
            resource_version: Some("0".to_owned()),
            ..ListOptions::default()
        };
        let page = client.list(POD, None, &options).await.unwrap();
        assert_eq!(page.resource_version, "5");
        let items: Vec<_> = page.items.iter().map(|item| item.get()).collect();
        assert_eq!(items, [r#"{"a":1}"#, r#"{"b": 2}"#]);
        options.continue_token = page.continue_token;
        options.resource_version = None;
        let last = client.list(POD, None, &options).await.unwrap();
        assert!(last.items.is_empty() && last.continue_token.is_none());
        assert!(matches!(
            client.list(POD, None, &options).await,
            Err(Error::Gone { .. })
        ));
        let queries: Vec<_> = server
            .requests()
            .into_iter()
            .map(|r| r.path_and_query)
            .collect();
        assert_eq!(
            queries[0],
            "/api/v1/pods?labelSelector=a%3Db&limit=2&resourceVersion=0"
        );
        assert_eq!(
            queries[1],
            "/api/v1/pods?labelSelector=a%3Db&limit=2&continue=c%2F1"
        );
    }
}
