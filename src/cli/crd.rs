//! `mainstay crd`: prints the CustomResourceDefinition.

use std::io::{self, Write as _};

use crate::api::crd;

/// Prints the definition as YAML, ready for `kubectl apply -f -`.
pub(super) fn run() -> io::Result<()> {
    io::stdout().lock().write_all(crd::yaml().as_bytes())
}
