//! CustomResourceDefinitions: structural schemas, and what is made of them.

use std::sync::Arc;

use serde_json::Value;

use super::{ApiError, Cause, ResourceInfo};

/// A compiled structural schema of one version.
#[derive(Debug)]
pub(crate) struct Structural {}

impl Structural {
    /// Removes what the schema does not know; says which paths (for `fieldValidation`).
    pub(crate) fn prune(&self, _object: &mut Value) -> Vec<String> {
        unimplemented!()
    }

    /// Sets defaults.
    pub(crate) fn default(&self, _object: &mut Value) {
        unimplemented!()
    }

    /// What is wrong, the CEL rules' verdicts included (`old` for transition rules).
    pub(crate) fn validate(&self, _object: &Value, _old: Option<&Value>) -> Vec<Cause> {
        unimplemented!()
    }
}

/// One served or stored version.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) info: ResourceInfo,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    pub(crate) schema: Arc<Structural>,
    /// `openAPIV3Schema` as it was given.
    pub(crate) raw_schema: Value,
}

/// A definition, understood.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) versions: Vec<Version>,
    /// `spec.conversion.webhook.clientConfig`, where conversion is by webhook.
    pub(crate) webhook: Option<Value>,
}

impl Definition {
    /// Checks a CustomResourceDefinition object and compiles it. `object` is completed with the defaults
    /// and the status (`acceptedNames`, conditions `NamesAccepted` and `Established`, `storedVersions`)
    /// that a real server gives it.
    pub(crate) fn compile(_object: &mut Value, _now: &str) -> Result<Self, ApiError> {
        unimplemented!()
    }
}
