//! Objects and lists as they are asked for: whole, as metadata, as a table.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::accept::{Media, Shape, not_acceptable};
use crate::apiserver::state::{Entry, Form, Page, Served};
use crate::apiserver::{ApiError, ApiServer, table, webhook as webhooks};

/// Has objects converted that are stored in another version than they are served in, where that takes
/// a webhook. `None`: it does not.
async fn converted(
    server: &ApiServer,
    served: &Served,
    entries: &[Arc<Entry>],
) -> Result<Option<Vec<Value>>, ApiError> {
    let desired = served.api_version();
    let Form::Webhook {
        storage_api_version,
        webhook,
    } = &served.form
    else {
        return Ok(None);
    };
    if *storage_api_version == desired {
        return Ok(None);
    }
    let objects = entries.iter().map(|entry| {
        let mut object = entry.value();
        object["apiVersion"] = storage_api_version.as_str().into();
        object["kind"] = served.info.kind.as_str().into();
        object
    });
    webhooks::convert(server, objects.collect(), &desired, webhook)
        .await
        .map(Some)
}

/// Objects as values, for tables.
async fn values(
    server: &ApiServer,
    served: &Served,
    entries: &[Arc<Entry>],
) -> Result<Vec<Value>, ApiError> {
    if let Some(values) = converted(server, served, entries).await? {
        return Ok(values);
    }
    let mut bytes = Vec::new();
    entries
        .iter()
        .map(|entry| {
            bytes.clear();
            served.write(entry, &mut bytes, false);
            serde_json::from_slice(&bytes).map_err(ApiError::internal)
        })
        .collect()
}

/// The metadata alone.
fn partial(entry: &Entry, meta: &str, out: &mut Vec<u8>) -> Result<(), ApiError> {
    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    let body: Metadata<'_> = serde_json::from_slice(&entry.body).map_err(ApiError::internal)?;
    out.extend_from_slice(
        format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"{meta}","metadata":"#).as_bytes(),
    );
    out.extend_from_slice(body.metadata.get().as_bytes());
    out.push(b'}');
    Ok(())
}

/// One object as `media` shapes it. `columns`: whether a table says what its columns are.
pub(super) async fn single(
    server: &ApiServer,
    served: &Served,
    entry: &Arc<Entry>,
    media: Media,
    columns: bool,
) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::with_capacity(entry.body.len() + 64);
    match media.shape {
        Shape::Object => match converted(server, served, std::slice::from_ref(entry)).await? {
            Some(values) => {
                for value in values {
                    out.extend_from_slice(value.to_string().as_bytes());
                }
            }
            None => served.write(entry, &mut out, false),
        },
        Shape::Metadata => partial(entry, media.meta, &mut out)?,
        Shape::Table => {
            let objects = values(server, served, std::slice::from_ref(entry)).await?;
            let metadata = json!({"resourceVersion": entry.rv.to_string()});
            out = tabulate(server, served, &objects, &metadata, media, columns);
        }
    }
    Ok(out)
}

/// A table of these objects.
fn tabulate(
    server: &ApiServer,
    served: &Served,
    objects: &[Value],
    metadata: &Value,
    media: Media,
    columns: bool,
) -> Vec<u8> {
    let objects: Vec<&Value> = objects.iter().collect();
    let mut table = table::table(
        &served.info,
        &objects,
        metadata,
        media.include,
        columns,
        server.now(),
    );
    // Its versions look the same.
    table["apiVersion"] = media.meta.into();
    for row in table["rows"].as_array_mut().into_iter().flatten() {
        if row["object"]["kind"] == "PartialObjectMetadata" {
            row["object"]["apiVersion"] = media.meta.into();
        }
    }
    table.to_string().into_bytes()
}

/// A list as `media` shapes it.
pub(super) async fn list(
    server: &ApiServer,
    served: &Served,
    page: &Page,
    media: Media,
) -> Result<Vec<u8>, ApiError> {
    let mut metadata = json!({"resourceVersion": page.rv.to_string()});
    match &page.next {
        Some(next) => metadata["continue"] = next.as_str().into(),
        // Lists of custom resources always have it.
        None if served.custom.is_some() && media.shape == Shape::Object => {
            metadata["continue"] = "".into();
        }
        None => {}
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    if media.shape == Shape::Table {
        let objects = values(server, served, &page.entries).await?;
        return Ok(tabulate(server, served, &objects, &metadata, media, true));
    }
    if media.shape == Shape::Metadata && !media.list {
        let group = match served.info.group.split('.').next() {
            _ if served.custom.is_some() => "unstructured",
            None | Some("") => "core",
            Some(group) => group,
        };
        let list = match &served.custom {
            Some(_) => "UnstructuredList",
            None => &served.info.list_kind,
        };
        return Err(not_acceptable(&format!(
            "you requested PartialObjectMetadata, but the requested object is a list (*{group}.{list})"
        )));
    }
    let size: usize = page.entries.iter().map(|entry| entry.body.len() + 64).sum();
    let mut out = Vec::with_capacity(size + 256);
    let (kind, api_version) = match media.shape {
        Shape::Metadata => ("PartialObjectMetadataList", media.meta.to_owned()),
        _ => (served.info.list_kind.as_str(), served.api_version()),
    };
    out.extend_from_slice(
        format!(
            r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#
        )
        .as_bytes(),
    );
    let comma = |out: &mut Vec<u8>, index: usize| {
        if index > 0 {
            out.push(b',');
        }
    };
    match (media.shape, converted(server, served, &page.entries).await?) {
        (Shape::Object, Some(values)) => {
            for (index, value) in values.iter().enumerate() {
                comma(&mut out, index);
                out.extend_from_slice(value.to_string().as_bytes());
            }
        }
        (shape, _) => {
            for (index, entry) in page.entries.iter().enumerate() {
                comma(&mut out, index);
                match shape {
                    Shape::Metadata => partial(entry, media.meta, &mut out)?,
                    _ => served.write(entry, &mut out, served.typed_items()),
                }
            }
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
    entry: &Arc<Entry>,
    media: Media,
    columns: bool,
    out: &mut BytesMut,
) -> Result<(), ApiError> {
    let object = single(server, served, entry, media, columns).await?;
    out.put_slice(format!(r#"{{"type":"{kind}","object":"#).as_bytes());
    out.put_slice(&object);
    out.put_slice(b"}\n");
    Ok(())
}

/// A bookmark.
pub(super) fn bookmark(served: &Served, rv: u64, initial: bool, media: Media) -> Bytes {
    let mut metadata = json!({"resourceVersion": rv.to_string()});
    if initial {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let partial =
        json!({"kind": "PartialObjectMetadata", "apiVersion": media.meta, "metadata": metadata});
    let object = match media.shape {
        Shape::Object => {
            json!({"kind": served.info.kind, "apiVersion": served.api_version(), "metadata": metadata})
        }
        Shape::Metadata => partial,
        Shape::Table => {
            // The row of an object of which nothing is known.
            let nothing = json!({"metadata": {"name": ""}});
            let row = table::cells(&served.info, &nothing, &[], Timestamp::UNIX_EPOCH);
            json!({
                "kind": "Table",
                "apiVersion": media.meta,
                "metadata": {"resourceVersion": rv.to_string()},
                "columnDefinitions": null,
                "rows": [{"cells": row, "object": partial}],
            })
        }
    };
    line("BOOKMARK", &object)
}

/// An error at the end of a watch.
pub(super) fn error(error: &ApiError) -> Bytes {
    line("ERROR", &error.status())
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut line = json!({"type": kind, "object": object}).to_string();
    line.push('\n');
    line.into()
}
