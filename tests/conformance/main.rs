//! The truth test: the embedded API server answers as a real one does.
//!
//! `cases/` has requests and watches (`script.rs` says how they are written). Each case runs on the
//! embedded server and on a real kube-apiserver, each time in a namespace of its own; the answers
//! are normalised (`normal.rs`) and compared: status, headers that mean something, body. What is
//! meant to differ is listed with its reason in `src/apiserver/differences.md`; the test fails on a
//! difference that is not listed, and on a listed one that does not show.
//!
//! The real one is, in this order:
//! - the server of the kubeconfig file that `MAINSTAY_CONFORMANCE_KUBECONFIG` names;
//! - etcd, kube-apiserver and kube-controller-manager started here, from `KUBEBUILDER_ASSETS` or as
//!   `tests/cluster/cluster build` made them;
//! - none, or `MAINSTAY_CONFORMANCE=recorded`: its answers are read from `recorded/`, where
//!   `MAINSTAY_RECORD=1` wrote them.
//!
//! A recording that is no longer what a server of its version answers is a failure too.
//!
//! Arguments pick the cases whose name contains one of them: `cargo test --test conformance --
//! watch`.

mod compare;
mod http;
mod normal;
mod real;
mod recording;
mod report;
mod run;
mod script;
mod target;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use real::Real;
use report::Report;
use script::Script;
use target::Target;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    match runtime.block_on(compare_all()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("conformance: {what}");
            ExitCode::FAILURE
        }
    }
}

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs the cases; whether all is well.
async fn compare_all() -> Result<bool, String> {
    let filters: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let mut scripts = Script::read_all(&project("tests/conformance/cases"))?;
    for script in &mut scripts {
        let name = script.name.clone();
        script.cases.retain(|case| {
            let name = format!("{name}: {}", case.name);
            filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
        });
    }
    scripts.retain(|script| !script.cases.is_empty());
    if scripts.is_empty() {
        return Ok(true);
    }

    let mut real = Real::find().await?;
    if std::env::var_os("MAINSTAY_RECORD").is_some() {
        return real.record(&scripts).await.map(|()| true);
    }
    let embedded = target::embedded::start().await?;
    let listed = compare::listed(&project("src/apiserver/differences.md"))?;
    let mut report = Report::new(listed, filters.is_empty());
    println!("the embedded API server beside {}", real.describe());
    for script in &scripts {
        compare_script(script, &mut real, &embedded, &mut report).await?;
    }
    Ok(report.finish())
}

async fn compare_script(
    script: &Script,
    real: &mut Real,
    embedded: &Target,
    report: &mut Report,
) -> Result<(), String> {
    let recorded = real.recorded(&script.name)?;
    for case in &script.cases {
        let (answers, ours) = tokio::join!(real.answers(case), run::run(embedded, case));
        let kept = recorded.get(&case.name);
        let name = format!("{}: {}", script.name, case.name);
        match (answers?, kept) {
            (Some(answers), kept) => {
                if let Some(kept) = kept.filter(|_| real.is_of_the_recorded_version()) {
                    report.stale(&name, kept, &answers);
                }
                report.add(&script.name, &name, &answers, &ours?);
            }
            (None, Some(kept)) => report.add(&script.name, &name, kept, &ours?),
            (None, None) => report.missing(&name),
        }
    }
    Ok(())
}
