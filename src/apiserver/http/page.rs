//! Objects and lists as they are asked for: whole, as metadata, as a table.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::accept::{Media, Shape};
use crate::apiserver::state::{Entry, Form, Page, Served};
use crate::apiserver::{ApiError, ApiServer, webhook as webhooks};

/// One object, complete, in the version that is served.
pub(super) async fn object(
    server: &ApiServer,
    served: &Served,
    entry: &Entry,
) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::with_capacity(entry.body.len() + 64);
    item(server, served, entry, false, &mut out).await?;
    Ok(out)
}

/// Writes one object. `typed`: without `apiVersion` and `kind`.
async fn item(
    server: &ApiServer,
    served: &Served,
    entry: &Entry,
    typed: bool,
    out: &mut Vec<u8>,
) -> Result<(), ApiError> {
    match &served.form {
        Form::Webhook {
            storage_api_version,
            webhook,
        } if *storage_api_version != served.api_version() => {
            let mut object = entry.value();
            object["apiVersion"] = storage_api_version.as_str().into();
            object["kind"] = served.info.kind.as_str().into();
            let desired = served.api_version();
            for converted in webhooks::convert(server, vec![object], &desired, webhook).await? {
                out.extend_from_slice(converted.to_string().as_bytes());
            }
        }
        _ => served.write(entry, out, typed),
    }
    Ok(())
}

/// The same as a value, for tables.
async fn value(server: &ApiServer, served: &Served, entry: &Entry) -> Result<Value, ApiError> {
    let bytes = object(server, served, entry).await?;
    serde_json::from_slice(&bytes).map_err(ApiError::internal)
}

/// The metadata alone.
fn partial(entry: &Entry, typed: bool, out: &mut Vec<u8>) -> Result<(), ApiError> {
    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    let body: Metadata<'_> = serde_json::from_slice(&entry.body).map_err(ApiError::internal)?;
    let head: &[u8] = if typed {
        br#"{"metadata":"#
    } else {
        br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#
    };
    out.extend_from_slice(head);
    out.extend_from_slice(body.metadata.get().as_bytes());
    out.push(b'}');
    Ok(())
}

/// One object as `media` shapes it.
pub(super) async fn single(
    server: &ApiServer,
    served: &Served,
    entry: &Entry,
    media: Media,
) -> Result<Vec<u8>, ApiError> {
    match media.shape {
        Shape::Object => object(server, served, entry).await,
        Shape::Metadata => {
            let mut out = Vec::new();
            partial(entry, false, &mut out)?;
            Ok(out)
        }
        Shape::Table => {
            let object = value(server, served, entry).await?;
            let table = table(
                server,
                served,
                &[object],
                &json!({"resourceVersion": entry.rv.to_string()}),
                true,
            );
            Ok(table.to_string().into_bytes())
        }
    }
}

/// A table of these objects.
pub(super) fn table(
    server: &ApiServer,
    served: &Served,
    objects: &[Value],
    metadata: &Value,
    columns: bool,
) -> Value {
    let _ = (server, served, objects, metadata, columns);
    json!({})
}

/// A list as `media` shapes it.
pub(super) async fn list(
    server: &ApiServer,
    served: &Served,
    page: &Page,
    media: Media,
) -> Result<Vec<u8>, ApiError> {
    let mut metadata = json!({"resourceVersion": page.rv.to_string()});
    if let Some(next) = &page.next {
        metadata["continue"] = next.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    if media.shape == Shape::Table {
        let mut objects = Vec::with_capacity(page.entries.len());
        for entry in &page.entries {
            objects.push(value(server, served, entry).await?);
        }
        return Ok(table(server, served, &objects, &metadata, true)
            .to_string()
            .into_bytes());
    }
    let size: usize = page.entries.iter().map(|entry| entry.body.len() + 1).sum();
    let mut out = Vec::with_capacity(size + 256);
    let (kind, api_version) = match media.shape {
        Shape::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1".to_owned()),
        _ => (served.info.list_kind.as_str(), served.api_version()),
    };
    out.extend_from_slice(
        format!(
            r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#
        )
        .as_bytes(),
    );
    for (index, entry) in page.entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match media.shape {
            Shape::Metadata => partial(entry, false, &mut out)?,
            _ => item(server, served, entry, served.typed_items(), &mut out).await?,
        }
    }
    out.extend_from_slice(b"]}");
    Ok(out)
}

/// One event of a watch: a line.
pub(super) async fn event(
    server: &ApiServer,
    served: &Served,
    kind: &str,
    entry: &Entry,
    media: Media,
    columns: bool,
    out: &mut BytesMut,
) -> Result<(), ApiError> {
    out.put_slice(format!(r#"{{"type":"{kind}","object":"#).as_bytes());
    let object = match media.shape {
        Shape::Table => {
            let object = value(server, served, entry).await?;
            let metadata = json!({"resourceVersion": entry.rv.to_string()});
            table(server, served, &[object], &metadata, columns)
                .to_string()
                .into_bytes()
        }
        _ => single(server, served, entry, media).await?,
    };
    out.put_slice(&object);
    out.put_slice(b"}\n");
    Ok(())
}

/// A bookmark.
pub(super) fn bookmark(served: &Served, rv: u64, initial: bool, media: Media) -> Bytes {
    let mut metadata = json!({"resourceVersion": rv.to_string(), "creationTimestamp": null});
    if initial {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let object = match media.shape {
        Shape::Object => {
            json!({"kind": served.info.kind, "apiVersion": served.api_version(), "metadata": metadata})
        }
        Shape::Metadata => {
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
        }
        Shape::Table => json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": rv.to_string()}, "columnDefinitions": null,
            "rows": [{"cells": [], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata}}]}),
    };
    let mut line = json!({"type": "BOOKMARK", "object": object}).to_string();
    line.push('\n');
    line.into()
}

/// An error at the end of a watch.
pub(super) fn error(error: &ApiError) -> Bytes {
    let mut line = json!({"type": "ERROR", "object": error.status()}).to_string();
    line.push('\n');
    line.into()
}
