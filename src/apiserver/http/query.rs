//! Queries.

use std::borrow::Cow;

use serde_json::json;

use crate::apiserver::request::{Options, PatchKind, Verb};
use crate::apiserver::{ApiError, Cause};

/// Longest name of a field manager.
const MANAGER_LIMIT: usize = 128;

/// Undoes percent-encoding; in queries a plus is a space.
pub(super) fn decode(text: &str, query: bool) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |byte: u8| {
            char::from(byte)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        };
        let escaped = (bytes[at] == b'%' && at + 2 < bytes.len())
            .then(|| Some(hex(bytes[at + 1])? * 16 + hex(bytes[at + 2])?))
            .flatten();
        match (bytes[at], escaped) {
            (_, Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', None) if query => out.push(b' '),
            (byte, None) => out.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// The pairs of a query.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key, true), decode(value, true))
        })
}

/// Understands a query. The first value of a key counts, as in Go. Also says whether it asks to watch.
pub(super) fn options(query: &str) -> Result<(Options, bool), ApiError> {
    let mut options = Options::default();
    let mut watch = false;
    let mut seen: Vec<Cow<'_, str>> = Vec::new();
    for (key, value) in pairs(query) {
        if seen.contains(&key) && key != "dryRun" {
            continue;
        }
        let text = || value.clone().into_owned();
        match &*key {
            "labelSelector" => options.label_selector = text(),
            "fieldSelector" => options.field_selector = text(),
            "limit" => {
                options.limit = number(&value)?.and_then(|limit: i64| u64::try_from(limit).ok());
            }
            "continue" => options.continue_token = text(),
            "resourceVersion" => options.resource_version = text(),
            "resourceVersionMatch" => options.resource_version_match = text(),
            "allowWatchBookmarks" => options.allow_bookmarks = boolean(&value),
            "sendInitialEvents" => options.send_initial_events = Some(boolean(&value)),
            "timeoutSeconds" => options.timeout_seconds = number(&value)?,
            "watch" => watch = boolean(&value),
            "dryRun" if value.is_empty() => {}
            "dryRun" => options.dry_run.push(text()),
            "fieldManager" => options.field_manager = Some(text()),
            "fieldValidation" => options.field_validation = text(),
            "force" => options.force = Some(boolean(&value)),
            "propagationPolicy" => options.propagation_policy = Some(text()),
            "gracePeriodSeconds" => options.grace_period_seconds = number(&value)?,
            "orphanDependents" => options.orphan_dependents = Some(boolean(&value)),
            _ => {}
        }
        seen.push(key);
    }
    Ok((options, watch))
}

/// Checks the options of a write, which real servers know by the name of its verb. (Those of reads and
/// deletions are checked where they are used.)
pub(super) fn check(verb: Verb, options: &Options) -> Result<(), ApiError> {
    let kind = match verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch(_) => "PatchOptions",
        _ => return Ok(()),
    };
    let mut causes = Vec::new();
    let manager = options.field_manager.as_deref().unwrap_or_default();
    if verb == Verb::Patch(PatchKind::Apply) {
        if manager.is_empty() {
            causes.push(Cause::required(
                "fieldManager",
                "is required for apply patch",
            ));
        }
    } else if options.force.is_some() && matches!(verb, Verb::Patch(_)) {
        let why = "may not be specified for non-apply patch";
        causes.push(Cause::forbidden("force", why));
    }
    if manager.len() > MANAGER_LIMIT {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: "fieldManager".to_owned(),
            message: format!("Too long: may not be more than {MANAGER_LIMIT} bytes"),
        });
    }
    if let Some((at, bad)) = manager.char_indices().find(|(_, c)| c.is_control()) {
        let why = format!(
            "invalid character U+{:04X} (at position {at})",
            u32::from(bad)
        );
        let shown = manager
            .escape_default()
            .to_string()
            .replace("\\u{7}", "\\a");
        causes.push(Cause {
            reason: "FieldValueInvalid",
            field: "fieldManager".to_owned(),
            message: format!("Invalid value: \"{shown}\": {why}"),
        });
    }
    if options.dry_run.iter().any(|value| value != "All") {
        causes.push(Cause::not_supported(
            "dryRun",
            &json!(options.dry_run),
            &["All"],
        ));
    }
    let known = ["", "Ignore", "Strict", "Warn"];
    let validation = options.field_validation.as_str();
    if !known.contains(&validation) {
        causes.push(Cause::not_supported(
            "fieldValidation",
            &validation.into(),
            &known,
        ));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid("meta.k8s.io", kind, "", &causes))
}

/// As Kubernetes reads booleans in queries: anything but `false` and `0` is true.
fn boolean(value: &str) -> bool {
    !matches!(value.to_lowercase().as_str(), "false" | "0")
}

fn number<T: std::str::FromStr>(value: &str) -> Result<Option<T>, ApiError> {
    if value.is_empty() {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|_| {
        ApiError::bad_request(format!(
            "strconv.ParseInt: parsing {value:?}: invalid syntax"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let (options, watch) = options(
            "watch=1&labelSelector=a%3Db%2Cc+in+(d)&limit=5&allowWatchBookmarks=true&dryRun=All",
        )
        .unwrap();
        assert!(watch && options.allow_bookmarks && options.is_dry_run());
        assert_eq!(options.label_selector, "a=b,c in (d)");
        assert_eq!(options.limit, Some(5));
    }

    #[test]
    fn options_are_known_by_their_verb() {
        let (bad, _) = options("dryRun=Some&fieldValidation=Sometimes&force=true").unwrap();
        let said = |verb| check(verb, &bad).unwrap_err().message;
        assert!(
            said(Verb::Create).starts_with("CreateOptions.meta.k8s.io \"\" is invalid: [dryRun: ")
        );
        assert!(said(Verb::Patch(PatchKind::Merge)).contains("force: Forbidden: may not be"));
        assert!(said(Verb::Patch(PatchKind::Apply)).contains("fieldManager: Required value: is"));
        let (long, _) = options(&format!("fieldManager={}", "a".repeat(129))).unwrap();
        assert_eq!(
            check(Verb::Update, &long).unwrap_err().message,
            "UpdateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes"
        );
        let (bell, _) = options("fieldManager=a%07b").unwrap();
        assert_eq!(
            check(Verb::Create, &bell).unwrap_err().message,
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\ab\": \
             invalid character U+0007 (at position 1)"
        );
    }
}
