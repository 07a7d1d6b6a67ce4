//! What a client can read.

use http::HeaderMap;
use http::header::ACCEPT;

use crate::apiserver::ApiError;

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
}

impl Media {
    /// JSON, as it is.
    pub(super) const JSON: Self = Self {
        shape: Shape::Object,
        yaml: false,
        aggregated: false,
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
            .collect();
        let mut asked = values
            .iter()
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let mut any = false;
        for part in asked.by_ref() {
            any = true;
            if let Some(media) = understand(part) {
                return Ok(media);
            }
        }
        if any {
            return Err(ApiError::new(
                406,
                "NotAcceptable",
                "only the following media types are accepted: application/json, application/yaml",
            ));
        }
        Ok(Self::JSON)
    }
}

fn understand(part: &str) -> Option<Media> {
    let mut pieces = part.split(';').map(str::trim);
    let yaml = match pieces.next()? {
        "application/json" | "*/*" | "application/*" | "text/plain" | "text/html" => false,
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
