//! What a client can read.

use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::json;

use crate::apiserver::ApiError;
use crate::apiserver::table::IncludeObject;

/// What an answer shows of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// All of them.
    Object,
    /// A table for people.
    Table,
    /// Their metadata.
    Metadata,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Media {
    pub(super) shape: Shape,
    pub(super) yaml: bool,
    /// Aggregated discovery was asked for.
    pub(super) aggregated: bool,
    /// The shape is one of a list.
    pub(super) list: bool,
    /// What goes with each row of a table.
    pub(super) include: IncludeObject,
    /// The version of tables and of metadata.
    pub(super) meta: &'static str,
}

impl Media {
    /// JSON, as it is.
    pub(super) const JSON: Self = Self {
        shape: Shape::Object,
        yaml: false,
        aggregated: false,
        list: false,
        include: IncludeObject::Metadata,
        meta: META[0],
    };

    /// Takes the first thing of an `Accept` header that can be had.
    ///
    /// # Errors
    /// 406 for none.
    pub(super) fn negotiate(headers: &HeaderMap) -> Result<Self, ApiError> {
        choose(headers, &SPOKEN[..3], |_| true)
    }

    /// The same for a watch, which is not written in YAML.
    ///
    /// # Errors
    /// 406 for none.
    pub(super) fn of_watch(headers: &HeaderMap) -> Result<Self, ApiError> {
        choose(headers, &STREAMED, |media| !media.yaml)
    }
}

/// The first of an `Accept` header that can be had and `suits`; `offered` is what a refusal names.
fn choose(
    headers: &HeaderMap,
    offered: &[&str],
    suits: impl Fn(&Media) -> bool,
) -> Result<Media, ApiError> {
    let values: Vec<&str> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    if values.is_empty() {
        return Ok(Media::JSON);
    }
    let mut known = values.iter().filter_map(|part| understand(part));
    if let Some(media) = known.find(suits) {
        return Ok(media);
    }
    // Two layers of a real server refuse, each in its words.
    let spoken = values.iter().any(|part| SPOKEN.contains(&essence(part)));
    Err(if spoken {
        let offered = offered.join(", ");
        not_acceptable(&format!(
            "only the following media types are accepted: {offered}"
        ))
    } else {
        let known = SPOKEN[..3].join(", ");
        ApiError {
            details: json!({}),
            ..not_acceptable(&format!(
                "406: Not Acceptable\n\nAvailable representations: {known}"
            ))
        }
    })
}

/// What a real server can write. (Protobuf is read here, but not written: clients that take it take
/// JSON as well.)
const SPOKEN: [&str; 4] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "*/*",
];

/// … and write a watch in.
const STREAMED: [&str; 2] = [
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// Versions of tables and of metadata.
const META: [&str; 2] = ["meta.k8s.io/v1", "meta.k8s.io/v1beta1"];

/// 406.
pub(super) fn not_acceptable(message: &str) -> ApiError {
    ApiError::new(406, "NotAcceptable", message)
}

/// A media type without its parameters.
fn essence(part: &str) -> &str {
    part.split(';').next().unwrap_or_default().trim()
}

fn understand(part: &str) -> Option<Media> {
    let mut pieces = part.split(';').map(str::trim);
    let yaml = match pieces.next()? {
        "application/json" | "*/*" => false,
        "application/yaml" => true,
        _ => return None,
    };
    let parameters: Vec<(&str, &str)> = pieces.filter_map(|piece| piece.split_once('=')).collect();
    let get = |name: &str| {
        parameters
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    };
    let meta = META
        .into_iter()
        .find(|meta| meta.split_once('/') == get("g").zip(get("v")));
    let (shape, aggregated) = match (get("as"), get("g"), get("v")) {
        (None, ..) => (Shape::Object, false),
        (Some("Table"), ..) if meta.is_some() => (Shape::Table, false),
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), ..) if meta.is_some() => {
            (Shape::Metadata, false)
        }
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => {
            (Shape::Object, true)
        }
        _ => return None,
    };
    Some(Media {
        shape,
        yaml,
        aggregated,
        list: get("as").is_some_and(|shape| shape.ends_with("List")),
        meta: meta.unwrap_or(META[0]),
        ..Media::JSON
    })
}

/// Whether a client takes compressed answers.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(http::header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| {
            part.split(';')
                .next()
                .is_some_and(|coding| coding.trim() == "gzip")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(accept: &str) -> Result<Media, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        Media::negotiate(&headers)
    }

    #[test]
    fn the_first_that_can_be_had_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(media(kubectl).unwrap().shape, Shape::Table);
        let proto = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(media(proto).unwrap(), Media::JSON);
        let old = media("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json");
        let old = old.unwrap();
        assert_eq!((old.shape, old.meta), (Shape::Table, "meta.k8s.io/v1beta1"));
        let none = "application/json;as=Table;v=v0;g=meta.k8s.io,application/json";
        assert_eq!(media(none).unwrap(), Media::JSON);
        assert!(
            media("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
                .unwrap()
                .aggregated
        );
        assert_eq!(
            media("application/vnd.kubernetes.protobuf")
                .unwrap_err()
                .code,
            406
        );
        assert_eq!(Media::negotiate(&HeaderMap::new()).unwrap(), Media::JSON);
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, "application/yaml".parse().unwrap());
        assert!(Media::negotiate(&headers).unwrap().yaml);
        assert_eq!(Media::of_watch(&headers).unwrap_err().code, 406);
    }
}
