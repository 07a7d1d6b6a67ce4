//! What is said of the operator's metrics is true: the documentation is what the code says, the code emits
//! what its tables have, and alerts and dashboard ask for nothing else.

mod emitted;
mod manifests;
mod page;
mod promql;
mod tables;

use std::path::PathBuf;

/// A file of the component that has scraping, alerts and the dashboard.
fn component(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("manifests/components/monitoring")
        .join(file)
}

#[test]
fn the_documentation_is_what_the_code_says() {
    let printed = std::process::Command::new(env!("CARGO_BIN_EXE_mainstay"))
        .arg("metrics")
        .output()
        .unwrap();
    let written = std::fs::read(component("METRICS.md")).unwrap();
    assert!(
        printed.stdout == written,
        "METRICS.md is not what `mainstay metrics` prints: just metrics"
    );
}
