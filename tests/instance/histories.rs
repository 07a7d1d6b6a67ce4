//! The histories that hold the model to reality.

use std::{panic::AssertUnwindSafe, path::PathBuf, time::Instant};

use futures_util::{FutureExt as _, StreamExt as _, stream};

use crate::{
    harness::{AT_A_TIME, mysqld},
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

/// On real servers. `MAINSTAY_HISTORIES` picks those with one of these words in their names;
/// `MAINSTAY_RECORD_HISTORIES` keeps what they do, of those with this in their names.
#[tokio::test(flavor = "multi_thread")]
async fn real_servers_do_what_they_did() {
    let Some(mysqld) = mysqld() else { return };
    let record = std::env::var("MAINSTAY_RECORD_HISTORIES").ok();
    let only = record.clone().or(std::env::var("MAINSTAY_HISTORIES").ok());
    let wanted = |name: &str| {
        let only = only.as_deref().unwrap_or_default();
        only.is_empty() || only.split(',').any(|word| name.contains(word))
    };
    let histories: Vec<_> = histories().filter(|(name, _)| wanted(name)).collect();
    assert!(!histories.is_empty(), "no history is named {only:?}");
    let wrong: Vec<String> = stream::iter(histories)
        .map(|(name, steps)| on_real(mysqld.clone(), name, steps, record.is_some()))
        .buffer_unordered(AT_A_TIME)
        .filter_map(|outcome| async { outcome.err() })
        .collect()
        .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn on_real(
    mysqld: PathBuf,
    name: String,
    steps: Vec<Op>,
    record: bool,
) -> Result<(), String> {
    let mut real = Real::new(mysqld).await;
    let begun = Instant::now();
    let ran = AssertUnwindSafe(async { run(&mut real, &steps).await });
    let ran = ran.catch_unwind().await;
    println!("{name}: {:.0} s", begun.elapsed().as_secs_f64());
    let text = ran.map_err(|_| format!("==== {name}: see above"))?;
    if record {
        return std::fs::write(kept(&name), text).map_err(|error| error.to_string());
    }
    check(&name, &text)
}
