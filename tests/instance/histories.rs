//! The histories that hold the model to reality.

use std::{panic::AssertUnwindSafe, path::PathBuf};

use futures_util::FutureExt as _;

use crate::{
    harness::mysqld,
    history::{Modelled, Op, Real, random, run, written},
};

fn kept(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/instance/histories");
    folder.join(name).with_extension("txt")
}

fn check(name: &str, text: &str) -> Result<(), String> {
    let kept = std::fs::read_to_string(kept(name)).map_err(|error| format!("{name}: {error}"))?;
    if kept == text {
        return Ok(());
    }
    let (kept, now): (Vec<_>, Vec<_>) = (kept.lines().collect(), text.lines().collect());
    let longest = kept.len().max(now.len());
    let line = |lines: &[&str], at: usize| lines.get(at).copied().unwrap_or("").to_owned();
    let lines = (0..longest).map(|at| (line(&kept, at), line(&now, at)));
    let lines = lines.map(|(kept, now)| {
        if kept == now {
            format!("  {now}\n")
        } else {
            format!("- {kept}\n+ {now}\n")
        }
    });
    Err(format!("==== {name}\n{}", lines.collect::<String>()))
}

fn histories() -> impl Iterator<Item = (String, Vec<Op>)> {
    written().chain(random())
}

/// On modelled servers, with several seeds: the pace of things must not matter.
#[test]
fn the_model_does_what_real_servers_did() {
    let mut wrong = Vec::new();
    for (name, steps) in histories() {
        for seed in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            let text = runtime.block_on(async { run(&mut Modelled::new(seed), &steps).await });
            if let Err(difference) = check(&name, &text) {
                wrong.push(format!("seed {seed} {difference}"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// On real servers. `MAINSTAY_RECORD_HISTORIES` keeps what they do: of those with this in their names.
#[tokio::test(flavor = "multi_thread")]
async fn real_servers_do_what_they_did() {
    let Some(mysqld) = mysqld() else { return };
    let record = std::env::var("MAINSTAY_RECORD_HISTORIES").ok();
    let mut wrong = Vec::new();
    for (name, steps) in histories() {
        if record.as_deref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let mut real = Real::new(mysqld.clone()).await;
        let run = AssertUnwindSafe(async { run(&mut real, &steps).await });
        let Ok(text) = run.catch_unwind().await else {
            wrong.push(format!("==== {name}: see above"));
            continue;
        };
        if record.is_some() {
            std::fs::write(kept(&name), text).unwrap();
        } else if let Err(difference) = check(&name, &text) {
            wrong.push(difference);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
