//! What is refused, in the words of an API server.

use serde_json::{Value, json};

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable: `FieldValueRequired`, `FieldValueInvalid`, `FieldValueNotSupported`, …
    pub reason: &'static str,
    /// Path of the field, such as `spec.ports[0].name`.
    pub field: String,
    /// For a person, without the field.
    pub message: String,
}

impl Cause {
    /// A value that is not what it has to be. Texts are quoted, as Go's `%#v` does.
    #[must_use]
    pub fn invalid(field: impl Into<String>, value: &Value, problem: &str) -> Self {
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            message: format!("Invalid value: {value}: {problem}"),
        }
    }

    /// A value that is missing.
    #[must_use]
    pub fn required(field: impl Into<String>, problem: &str) -> Self {
        let message = match problem {
            "" => "Required value".to_owned(),
            problem => format!("Required value: {problem}"),
        };
        Self {
            reason: "FieldValueRequired",
            field: field.into(),
            message,
        }
    }

    /// A value that must not be there.
    #[must_use]
    pub fn forbidden(field: impl Into<String>, problem: &str) -> Self {
        Self {
            reason: "FieldValueForbidden",
            field: field.into(),
            message: format!("Forbidden: {problem}"),
        }
    }

    /// A value that is none of those that are known.
    #[must_use]
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let known: Vec<String> = supported.iter().map(|known| format!("{known:?}")).collect();
        Self {
            reason: "FieldValueNotSupported",
            field: field.into(),
            message: format!(
                "Unsupported value: {value}: supported values: {}",
                known.join(", ")
            ),
        }
    }
}

/// A failure, which becomes a `Status` object.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// HTTP status.
    pub code: u16,
    /// `NotFound`, `Conflict`, …; empty where a real server has none.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
    /// `details` of the `Status`, `causes` included; null for none.
    pub details: Value,
    /// `Retry-After` in seconds.
    pub retry_after: Option<u32>,
    /// `metadata.continue`: where a list that expired can go on.
    pub continue_token: Option<String>,
}

impl ApiError {
    /// A failure without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
            retry_after: None,
            continue_token: None,
        }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 410, for a version that is forgotten.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 500.
    pub fn internal(problem: impl std::fmt::Display) -> Self {
        Self {
            details: json!({"causes": [{"message": problem.to_string()}]}),
            ..Self::new(
                500,
                "InternalError",
                format!("Internal error occurred: {problem}"),
            )
        }
    }

    /// The same with `details` that name an object. `kind` is the resource's plural, as real servers
    /// put it there.
    fn about(self, group: &str, kind: &str, name: &str) -> Self {
        let mut details = json!({"kind": kind});
        for (key, value) in [("name", name), ("group", group)] {
            if !value.is_empty() {
                details[key] = value.into();
            }
        }
        Self { details, ..self }
    }

    /// 404 for an object.
    #[must_use]
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let qualified = dotted(resource, group);
        Self::new(404, "NotFound", format!("{qualified} {name:?} not found"))
            .about(group, resource, name)
    }

    /// 404 for a path.
    #[must_use]
    pub fn no_such_path() -> Self {
        Self {
            details: json!({}),
            ..Self::new(
                404,
                "NotFound",
                "the server could not find the requested resource",
            )
        }
    }

    /// 409 for a creation.
    #[must_use]
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let qualified = dotted(resource, group);
        Self::new(
            409,
            "AlreadyExists",
            format!("{qualified} {name:?} already exists"),
        )
        .about(group, resource, name)
    }

    /// 409 for an update.
    #[must_use]
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let qualified = dotted(resource, group);
        let message = format!("Operation cannot be fulfilled on {qualified} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(group, resource, name)
    }

    /// 403.
    #[must_use]
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{} is forbidden: {why}", dotted(resource, group)),
            _ => format!("{} {name:?} is forbidden: {why}", dotted(resource, group)),
        };
        let error = Self::new(403, "Forbidden", message);
        if resource.is_empty() {
            Self {
                details: json!({}),
                ..error
            }
        } else {
            error.about(group, resource, name)
        }
    }

    /// 405.
    #[must_use]
    pub fn method_not_allowed(group: &str, resource: &str, action: &str) -> Self {
        let qualified = dotted(resource, group);
        let message = format!("{action} is not supported on resources of kind {qualified:?}");
        Self::new(405, "MethodNotAllowed", message).about(group, resource, "")
    }

    /// 422 with its causes, in the words of a real server.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let mut said: Vec<String> = Vec::new();
        for cause in causes {
            let text = format!("{}: {}", cause.field, cause.message);
            if !said.contains(&text) {
                said.push(text);
            }
        }
        let all = match said.as_slice() {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let dotted = dotted(kind, group);
        let causes: Vec<Value> = causes
            .iter()
            .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}))
            .collect();
        let mut error = Self::new(
            422,
            "Invalid",
            format!("{dotted} {name:?} is invalid: {all}"),
        )
        .about(group, kind, name);
        error.details["causes"] = causes.into();
        error
    }

    /// The `Status` object.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        if let Some(seconds) = self.retry_after {
            status["details"]["retryAfterSeconds"] = seconds.into();
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        status
    }
}

fn dotted(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_speak_as_kube_apiserver_does() {
        let error = ApiError::not_found("apps", "deployments", "a");
        assert_eq!(error.message, "deployments.apps \"a\" not found");
        assert_eq!(
            error.status()["details"],
            json!({"name": "a", "group": "apps", "kind": "deployments"})
        );
        let causes = [
            Cause::required("metadata.name", "name or generateName is required"),
            Cause::invalid("spec.a", &json!("x"), "no"),
        ];
        let error = ApiError::invalid("", "Pod", "", &causes);
        assert_eq!(
            error.message,
            "Pod \"\" is invalid: [metadata.name: Required value: name or generateName is required, \
             spec.a: Invalid value: \"x\": no]"
        );
        assert_eq!(error.status()["details"]["causes"][1]["field"], "spec.a");
    }
}
