//! What a client can read.

use http::HeaderMap;
use http::header::ACCEPT;

use serde_json::json;

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
    /// The shape is one of a list.
    pub(super) list: bool,
}

impl Media {
    /// JSON, as it is.
    pub(super) const JSON: Self = Self {
        shape: Shape::Object,
        yaml: false,
        aggregated: false,
        list: false,
    };

    /// Takes the first thing of an `Accept` header that can be had.
    ///
    /// # Errors
    /// 406 for none.
    pub(super) fn negotiate(headers: &HeaderMap) -> Result<Self, ApiError> {
        Self::choose(headers, false)
    }

    /// The same for a document about the API, which can be had as aggregated discovery.
    ///
    /// # Errors
    /// 406 for none.
    pub(super) fn negotiate_document(headers: &HeaderMap) -> Result<Self, ApiError> {
        Self::choose(headers, true)
    }

    fn choose(headers: &HeaderMap, document: bool) -> Result<Self, ApiError> {
        let asked: Vec<&str> = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .collect();
        if asked.is_empty() {
            return Ok(Self::JSON);
        }
        let known: Vec<Asked<'_>> = asked.iter().filter_map(|part| Asked::parse(part)).collect();
        let media = known.iter().find_map(|asked| asked.media(document));
        // The language is judged first, in other words than the shape.
        media.ok_or_else(|| match known.is_empty() {
            true => ApiError {
                details: json!({}),
                ..not_acceptable(&format!(
                    "406: Not Acceptable\n\nAvailable representations: {LANGUAGES}"
                ))
            },
            false => not_acceptable(&format!(
                "only the following media types are accepted: {LANGUAGES}"
            )),
        })
    }
}

/// What a real server speaks.
const LANGUAGES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// 406.
pub(super) fn not_acceptable(message: &str) -> ApiError {
    ApiError::new(406, "NotAcceptable", message)
}

/// One thing of an `Accept` header, in a language that is spoken here.
struct Asked<'a> {
    yaml: bool,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Asked<'a> {
    fn parse(part: &'a str) -> Option<Self> {
        let mut pieces = part.split(';').map(str::trim);
        let yaml = match pieces.next()? {
            "application/json" | "*/*" | "application/*" => false,
            "application/yaml" => true,
            _ => return None,
        };
        let parameters = pieces.filter_map(|piece| piece.split_once('=')).collect();
        Some(Self { yaml, parameters })
    }

    fn media(&self, document: bool) -> Option<Media> {
        let get = |name: &str| {
            let mut parameters = self.parameters.iter();
            parameters
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        let (group, version) = (get("g"), get("v"));
        let meta = group == Some("meta.k8s.io") && version == Some("v1");
        let (shape, aggregated) = match get("as") {
            None => (Shape::Object, false),
            Some("Table") if meta => (Shape::Table, false),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if meta => {
                (Shape::Metadata, false)
            }
            Some("APIGroupDiscoveryList")
                if document && group == Some("apidiscovery.k8s.io") && version == Some("v2") =>
            {
                (Shape::Object, true)
            }
            Some(_) => return None,
        };
        Some(Media {
            shape,
            yaml: self.yaml,
            aggregated,
            list: get("as").is_some_and(|shape| shape.ends_with("List")),
        })
    }
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
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, discovery.parse().unwrap());
        assert!(Media::negotiate_document(&headers).unwrap().aggregated);
        assert_eq!(media(discovery).unwrap_err().code, 406);
        assert_eq!(
            media("application/vnd.kubernetes.protobuf")
                .unwrap_err()
                .code,
            406
        );
        assert_eq!(Media::negotiate(&HeaderMap::new()).unwrap(), Media::JSON);
    }
}
