//! Reviews: resources that are asked by creating them. There is no RBAC here, so everything is
//! allowed; what tokens may do is decided before a request comes here.

use serde_json::{Value, json};

use super::{Answer, Reply, Served, State};
use crate::apiserver::ApiError;
use crate::apiserver::request::Request;

pub(super) fn answer(state: &State, served: &Served, request: &Request) -> Result<Answer, ApiError> {
    let mut value = request.body.clone();
    state.check_type(served, &mut value)?;
    if value["metadata"].is_null() {
        value["metadata"] = json!({});
    }
    let user =
        json!({"username": request.agent, "groups": ["system:masters", "system:authenticated"]});
    let status: Value = match served.info.kind.as_str() {
        "SelfSubjectReview" => json!({"userInfo": user}),
        "TokenReview" => json!({"authenticated": true, "user": user}),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"allowed": true}),
    };
    value["status"] = status;
    Ok(Answer {
        reply: Reply::Value { code: 201, value },
        warnings: Vec::new(),
    })
}
