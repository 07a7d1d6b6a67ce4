//! Reading: one object, or pages of a list.

use std::sync::Arc;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine as _};
use serde_json::{Value, json};

use super::object::key;
use super::selector::{Fields, Labels};
use super::update::named;
use super::{Answer, Entry, Form, Reply, Served, State, Storage, events};
use crate::apiserver::request::{Options, Request};
use crate::apiserver::{ApiError, Cause};

/// A page of a list.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Arc<Entry>>,
    /// The version that it is of.
    pub(crate) rv: u64,
    /// Where the next page begins; `None` at the end.
    pub(crate) next: Option<String>,
    /// How many there are after this page, where that is known.
    pub(crate) remaining: Option<usize>,
}

/// Which version of a list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// As it is.
    Latest,
    /// As it was.
    Exactly(u64),
}

impl State {
    /// One object.
    pub(crate) fn get(&self, request: &Request) -> Result<Answer, ApiError> {
        let served = self.resolve(request)?;
        self.not_in_future(&request.options.resource_version)?;
        let entry = self.existing(&served, request)?;
        if request.target.subresource.as_deref() == Some("scale") {
            let value = super::subresource::scale(&served, &entry.value())?;
            return Ok(Answer {
                reply: Reply::Value { code: 200, value },
                warnings: Vec::new(),
            });
        }
        let warnings = served.deprecation().into_iter().collect();
        Ok(Answer {
            reply: Reply::Object {
                code: 200,
                entry,
                served,
            },
            warnings,
        })
    }

    /// A page of a list.
    pub(crate) fn list(&self, request: &Request) -> Result<(Page, Arc<Served>), ApiError> {
        let served = self.resolve(request)?;
        let options = &request.options;
        let at = self.check_list(options)?;
        self.list_at(&served, request, at)
            .map(|page| (page, served))
    }

    /// The same as it was `back` versions ago, as a stale server would answer: an old version, or the
    /// oldest that is known.
    pub(crate) fn stale_list(
        &self,
        request: &Request,
        back: u64,
    ) -> Result<(Page, Arc<Served>), ApiError> {
        let served = self.resolve(request)?;
        let then = self
            .version
            .saturating_sub(back)
            .max(self.storage_of(&served).floor());
        self.list_at(&served, request, At::Exactly(then))
            .map(|page| (page, served))
    }

    /// One object as it was `back` versions ago.
    pub(crate) fn stale_get(&self, request: &Request, back: u64) -> Result<Answer, ApiError> {
        let served = self.resolve(request)?;
        let (namespace, name) = named(request)?;
        let storage = self.storage_of(&served);
        let then = self.version.saturating_sub(back).max(storage.floor());
        let key = key(namespace, name);
        let entry = storage
            .range_at(&key, &key, then)?
            .into_iter()
            .find(|entry| entry.key == key)
            .cloned()
            .ok_or_else(|| served.not_found(name))?;
        Ok(Answer {
            reply: Reply::Object {
                code: 200,
                entry,
                served,
            },
            warnings: Vec::new(),
        })
    }

    fn list_at(&self, served: &Served, request: &Request, at: At) -> Result<Page, ApiError> {
        let options = &request.options;
        let (labels, fields) = self.selectors(served, options)?;
        let storage = self.storage_of(served);
        let prefix = prefix(request, &fields);
        let (at, start) = if options.continue_token.is_empty() {
            (at, String::new())
        } else {
            decode_continue(&options.continue_token, self.version)?
        };
        let rv = match at {
            At::Latest => self.version,
            At::Exactly(rv) => rv,
        };
        let mut entries = storage.range_at(&prefix, &start, rv).map_err(|_| {
            if start.is_empty() {
                ApiError::expired("The resourceVersion for the provided list is too old.")
            } else {
                continue_expired(&start)
            }
        })?;
        let selective = !labels.is_empty() || !fields.is_empty();
        if selective {
            entries.retain(|entry| labels.matches(entry) && fields.matches(entry));
        }
        let limit = options
            .limit
            .and_then(|limit| usize::try_from(limit).ok())
            // What a real server has in its cache comes whole.
            .filter(|limit| *limit > 0 && options.resource_version != "0");
        let left = limit.map_or(0, |limit| entries.len().saturating_sub(limit));
        entries.truncate(entries.len() - left);
        let next = entries.last().filter(|_| left > 0).map(|last| {
            encode_continue(&format!("{}\0", last.key), i64::try_from(rv).unwrap_or(-1))
        });
        Ok(Page {
            entries: entries.into_iter().cloned().collect(),
            rv,
            next,
            remaining: (left > 0 && !selective).then_some(left),
        })
    }

    /// Label and field selectors of a request.
    pub(super) fn selectors(
        &self,
        served: &Served,
        options: &Options,
    ) -> Result<(Labels, Fields), ApiError> {
        let storage = self.storage_of(served);
        let resolve = |field: &str| resolve(served, storage, field);
        Ok((
            Labels::parse(&options.label_selector)?,
            Fields::parse(&options.field_selector, resolve)?,
        ))
    }

    fn check_list(&self, options: &Options) -> Result<At, ApiError> {
        let invalid =
            |causes: Vec<Cause>| Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &causes));
        let (rv, matching) = (
            options.resource_version.as_str(),
            options.resource_version_match.as_str(),
        );
        let path = "resourceVersionMatch";
        let mut causes = Vec::new();
        if !matching.is_empty() {
            if rv.is_empty() {
                causes.push(Cause::forbidden(
                    path,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !options.continue_token.is_empty() {
                causes.push(Cause::forbidden(
                    path,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if matching != "Exact" && matching != "NotOlderThan" {
                causes.push(Cause::not_supported(
                    path,
                    &matching.into(),
                    &["Exact", "NotOlderThan", ""],
                ));
            }
            if matching == "Exact" && rv == "0" {
                causes.push(Cause::forbidden(
                    path,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if options.send_initial_events.is_some() {
            causes.push(Cause::forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        }
        if !causes.is_empty() {
            return invalid(causes);
        }
        if !options.continue_token.is_empty() && !matches!(rv, "" | "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let version = self.not_in_future(rv).map_err(|error| match error.code {
            500 => ApiError::bad_request(format!("invalid resource version: {}", error.message)),
            _ => error,
        })?;
        let exact = matching == "Exact"
            || matching.is_empty() && options.limit.is_some_and(|limit| limit > 0);
        Ok(match version {
            Some(version) if version > 0 && exact => At::Exactly(version),
            _ => At::Latest,
        })
    }

    /// Parses a resource version, and refuses one that has not been given out yet.
    pub(super) fn not_in_future(&self, rv: &str) -> Result<Option<u64>, ApiError> {
        if rv.is_empty() {
            return Ok(None);
        }
        let version = parse_version(rv)?;
        if version > self.version {
            let message = format!(
                "Timeout: Too large resource version: {version}, current: {}",
                self.version
            );
            let mut error = ApiError::new(504, "Timeout", message);
            error.details = json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]});
            error.retry_after = Some(1);
            return Err(error);
        }
        Ok(Some(version))
    }
}

/// A resource version as a number.
///
/// # Errors
/// 500 for what is none, as real servers have it.
pub(super) fn parse_version(rv: &str) -> Result<u64, ApiError> {
    rv.parse().map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {rv:?}: invalid syntax");
        let cause = Cause::invalid("resourceVersion", &rv.into(), &why);
        ApiError::new(500, "", format!("{}: {}", cause.field, cause.message))
    })
}

/// What the keys of a request begin with.
pub(super) fn prefix(request: &Request, fields: &Fields) -> String {
    match (
        request.target.namespace.as_deref(),
        request.target.name.as_deref().or(fields.name()),
    ) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        (Some(namespace), None) => format!("{namespace}/"),
        (None, _) => String::new(),
    }
}

fn resolve(served: &Served, storage: &Storage, field: &str) -> Result<usize, ApiError> {
    let stored = match served.form {
        Form::Events => events::selectable(field),
        _ => Some(field.to_owned()).filter(|field| {
            served
                .custom
                .as_ref()
                .is_none_or(|custom| custom.selectable.contains(field))
        }),
    };
    stored
        .and_then(|stored| storage.selectable.iter().position(|known| *known == stored))
        .ok_or_else(|| {
            ApiError::bad_request(if served.custom.is_some() || !storage.selectable.is_empty() {
                format!("field label not supported: {field}")
            } else {
                format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
            })
        })
}

fn encode_continue(start: &str, rv: i64) -> String {
    let token = json!({"v": "meta.k8s.io/v1", "rv": rv, "start": start});
    URL_SAFE_NO_PAD.encode(token.to_string())
}

fn decode_continue(token: &str, latest: u64) -> Result<(At, String), ApiError> {
    let refuse = || ApiError::bad_request("invalid continue token: continue key is not valid");
    let bytes = URL_SAFE_NO_PAD
        .decode(token.trim_end_matches('='))
        .map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(length) => length.saturating_sub(1),
                DecodeError::InvalidPadding => 0,
            };
            let mut error = refuse();
            error
                .message
                .push_str(&format!(": illegal base64 data at input byte {at}"));
            error
        })?;
    let token: Value = serde_json::from_slice(&bytes).map_err(|_| refuse())?;
    let start = token["start"].as_str().ok_or_else(refuse)?.to_owned();
    let rv = token["rv"].as_i64().ok_or_else(refuse)?;
    match u64::try_from(rv) {
        Ok(0) => Err(refuse()),
        Ok(rv) if rv > latest => Err(refuse()),
        Ok(rv) => Ok((At::Exactly(rv), start)),
        Err(_) => Ok((At::Latest, start)),
    }
}

fn continue_expired(start: &str) -> ApiError {
    let mut error = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a \
         new list without the continue parameter, or use the continue token in this response to retrieve \
         the remainder of the results. Continuing with the provided token results in an inconsistent list \
         - objects that were created, modified, or deleted between the time the first chunk was returned \
         and now may show up in the list.",
    );
    error.continue_token = Some(encode_continue(start, -1));
    error
}
