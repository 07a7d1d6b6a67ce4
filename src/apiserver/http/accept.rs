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
}

impl Media {
    /// JSON, as it is.
    pub(super) const JSON: Self = Self {
        shape: Shape::Object,
        yaml: false,
        aggregated: false,
        list: false,
        include: IncludeObject::Metadata,
    };

    /// Takes the first thing of an `Accept` header that can be had.
    ///
    /// # Errors
    /// 406 for none.
    pub(super) fn negotiate(headers: &HeaderMap) -> Result<Self, ApiError> {
        let values: Vec<&str> = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .collect();
        if values.is_empty() {
            return Ok(Self::JSON);
        }
        if let Some(media) = values.iter().find_map(|part| understand(part)) {
            return Ok(media);
        }
        // Two layers of a real server refuse, each in its words.
        let spoken = values.iter().any(|part| SPOKEN.contains(&essence(part)));
        Err(if spoken {
            let message = format!(
                "only the following media types are accepted: {}",
                SPOKEN[..3].join(", ")
            );
            ApiError::new(406, "NotAcceptable", message)
        } else {
            let known = SPOKEN[..3].join(", ");
            ApiError {
                details: json!({}),
                ..ApiError::new(
                    406,
                    "NotAcceptable",
                    format!("406: Not Acceptable\n\nAvailable representations: {known}"),
                )
            }
        })
    }
}

/// What a real server can write. (Protobuf is read here, but not written: clients that take it take
/// JSON as well.)
const SPOKEN: [&str; 4] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "*/*",
];

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
    let (shape, aggregated) = match (get("as"), get("g"), get("v")) {
        (None, ..) => (Shape::Object, false),
        (Some("Table"), Some("meta.k8s.io"), Some("v1")) => (Shape::Table, false),
        (
            Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
            Some("meta.k8s.io"),
            Some("v1"),
        ) => (Shape::Metadata, false),
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
        include: IncludeObject::Metadata,
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
        let old = "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(media(old).unwrap().shape, Shape::Object);
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
    }
}
