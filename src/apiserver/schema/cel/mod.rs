//! `x-kubernetes-validations`: rules in CEL.

use serde_json::Value;

use super::node::Node;
use crate::apiserver::Cause;

/// One rule, compiled.
#[derive(Debug)]
pub(super) struct Rule {}

#[derive(Debug, Default)]
pub(super) struct Compiled {
    pub(super) rule_error: Option<String>,
    pub(super) message_error: Option<String>,
    pub(super) uses_old_self: bool,
}

pub(super) fn compile(_schema: &Value, _rule: &Value, _root: bool) -> Compiled {
    Compiled::default()
}

pub(super) fn attach(_node: &mut Node, _schema: &Value) {}

pub(super) fn evaluate(
    _node: &Node,
    _value: &Value,
    _old: Option<&Value>,
    _path: &str,
    _causes: &mut Vec<Cause>,
) {
}
