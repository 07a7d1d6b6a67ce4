//! `/faults`: faults by `curl`.
//!
//! GET lists the rules and what was injected; POST adds a rule and answers with its number; PUT takes
//! a list in place of all; DELETE `/faults/NUMBER` removes one, `/faults` all of them; POST
//! `/faults/freeze`, `/faults/thaw` and `/faults/compact` do that.

use http::{Method, Response};
use serde_json::{Value, json};

use super::accept::Media;
use super::{Body, answer};
use crate::apiserver::{ApiError, ApiServer, Rule};

pub(super) fn faults(
    server: &ApiServer,
    method: &Method,
    path: &[String],
    body: &Value,
) -> Result<Response<Body>, ApiError> {
    let faults = server.faults();
    let rule = |value: &Value| -> Result<Rule, ApiError> {
        Rule::from_json(value)
            .map_err(|problem| ApiError::bad_request(format!("not a rule: {problem}")))
    };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match (method.as_str(), path.as_slice()) {
        ("GET", []) => {}
        ("POST", []) => {
            let id = faults.add(rule(body)?);
            return Ok(answer::value(201, &json!({ "id": id }), Media::JSON));
        }
        ("PUT", []) => {
            let rules = body
                .as_array()
                .ok_or_else(|| ApiError::bad_request("a list of rules is wanted"))?;
            let rules = rules.iter().map(rule).collect::<Result<Vec<_>, _>>()?;
            faults.clear();
            for rule in rules {
                faults.add(rule);
            }
        }
        ("DELETE", []) => faults.clear(),
        ("DELETE", [id]) => {
            let removed = id.parse().is_ok_and(|id| faults.remove(id));
            if !removed {
                return Err(ApiError::no_such_path());
            }
        }
        ("POST", ["freeze"]) => faults.freeze(),
        ("POST", ["thaw"]) => faults.thaw(),
        ("POST", ["compact"]) => server.compact(),
        _ => return Err(ApiError::no_such_path()),
    }
    let rules: Vec<Value> = faults
        .rules_in_effect()
        .into_iter()
        .map(|(id, rule, hits)| json!({"id": id, "rule": rule, "hits": hits}))
        .collect();
    let value =
        json!({"frozen": faults.is_frozen(), "rules": rules, "injected": faults.injected()});
    Ok(answer::value(200, &value, Media::JSON))
}
