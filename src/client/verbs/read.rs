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
use crate::client::watch::{Decoded, WatchStream, read_object};
use crate::client::{Client, Error, ListOptions, Resource, WatchOptions};

/// Largest page of a list.
const LIST_LIMIT: usize = 64 << 20;

/// One page of a list, its objects read as `T`: as raw JSON unless said otherwise.
#[derive(Debug)]
pub struct ListPage<T = Box<RawValue>> {
    /// The version that the list is of; watch from here once all pages are read.
    pub resource_version: String,
    /// Where the next page begins; `None` on the last.
    pub continue_token: Option<String>,
    /// The objects (`apiVersion` and `kind` may be left out, as servers do).
    pub items: Vec<Decoded<T>>,
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

    /// One page of the objects in a namespace, or (with `None`) in all. They are read as `T` in one
    /// pass over the page; one that is no `T` is said within the page.
    ///
    /// # Errors
    /// [`Error::Gone`] when the continue token is too old, among others.
    pub async fn list<T: DeserializeOwned>(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<ListPage<T>, Error> {
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

/// Reads one page of a list: whole, or item by item where one of them is no `T`.
pub(in crate::client) fn page<T: DeserializeOwned>(
    subject: &Subject,
    body: &[u8],
) -> Result<ListPage<T>, Error> {
    #[derive(Deserialize)]
    struct List<T> {
        metadata: Metadata,
        items: Option<Vec<T>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        #[serde(default)]
        resource_version: String,
        #[serde(rename = "continue")]
        continue_token: Option<String>,
    }
    fn paged<T>(metadata: Metadata, items: impl Iterator<Item = Decoded<T>>) -> ListPage<T> {
        let token = metadata.continue_token;
        ListPage {
            resource_version: metadata.resource_version,
            continue_token: token.filter(|token| !token.is_empty()),
            items: items.collect(),
        }
    }
    if let Ok(List { metadata, items }) = decode::<List<T>>(subject, body) {
        return Ok(paged(metadata, items.into_iter().flatten().map(Ok)));
    }
    let list: List<Box<RawValue>> = decode(subject, body)?;
    let items = list.items.iter().flatten();
    Ok(paged(list.metadata, items.map(|raw| read_object(raw))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::POD;
    use crate::client::testing::{FakeServer, Reply};

    #[tokio::test]
    async fn a_list_comes_page_by_page() {
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
        let page: ListPage = client.list(POD, None, &options).await.unwrap();
        assert_eq!(page.resource_version, "5");
        let items = page.items.iter().map(|item| item.as_ref().unwrap().get());
        let items: Vec<_> = items.collect();
        assert_eq!(items, [r#"{"a":1}"#, r#"{"b": 2}"#]);
        options.continue_token = page.continue_token;
        options.resource_version = None;
        let last: ListPage = client.list(POD, None, &options).await.unwrap();
        assert!(last.items.is_empty() && last.continue_token.is_none());
        assert!(matches!(
            client.list::<Box<RawValue>>(POD, None, &options).await,
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

    #[test]
    fn an_item_that_is_no_t_is_said_within_its_page() {
        #[derive(Debug, Deserialize)]
        struct Numbered {
            n: u8,
        }
        let subject = Subject::collection(Verb::List, POD, None);
        let read = |items: &str| {
            let body = format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{items}]}}"#);
            page::<Numbered>(&subject, body.as_bytes()).map(|page| page.items)
        };
        let items = read(r#"{"n":1},{"n":2,"m":{}}"#).unwrap();
        assert!(matches!(
            items[..],
            [Ok(Numbered { n: 1 }), Ok(Numbered { n: 2 })]
        ));
        let items = read(r#"{"n":1},{"n":"two"},{"n":3}"#).unwrap();
        let [Ok(Numbered { n: 1 }), Err(odd), Ok(Numbered { n: 3 })] = &items[..] else {
            panic!("{items:?}");
        };
        assert_eq!(odd.raw.get(), r#"{"n":"two"}"#);
        assert!(matches!(read(r#"{"n":1"#), Err(Error::Decode { .. })));
    }
}
