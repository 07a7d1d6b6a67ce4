//! The histories that hold the model to reality.

use std::{panic::AssertUnwindSafe, path::PathBuf};

use futures_util::FutureExt as _;

use crate::{
    harness::mysqld,
    history::{
        Modelled,
        Op::{self, *},
        Real, run,
    },
};

/// Three instances, 0 the writable primary that waits for one acknowledgement.
const THREE: &[Op] = &[
    Start(0),
    Start(1),
    Start(2),
    Follow(1, 0),
    Follow(2, 0),
    Promote(0, 1),
    Open(0),
    EnsureApp(0),
    CreateTable(0),
    CatchUp(1, 0),
    CatchUp(2, 0),
];

/// Two instances, 0 the writable primary that waits for an acknowledgement of 1.
const TWO: &[Op] = &[
    Start(0),
    Start(1),
    Follow(1, 0),
    Promote(0, 1),
    Open(0),
    EnsureApp(0),
    CreateTable(0),
    CatchUp(1, 0),
];

/// One instance, writable.
const ONE: &[Op] = &[
    Start(0),
    Promote(0, 0),
    Open(0),
    EnsureApp(0),
    CreateTable(0),
];

/// Name, beginning, what follows.
type History = (&'static str, &'static [Op], &'static [Op]);

const HISTORIES: &[History] = &[
    (
        "a_new_instance_is_closed",
        &[],
        &[
            Start(0),
            Look,
            Open(0),
            SetAcks(0, 1),
            StopReceiver(0),
            Demote(0),
            PromoteBeyond(0),
            Promote(0, 0),
            Look,
            Open(0),
            Demote(0),
            Open(0),
        ],
    ),
    (
        "writes_are_acknowledged_and_replicated",
        THREE,
        &[
            Insert(0, 1),
            Insert(1, 2),
            Insert(0, 3),
            Insert(0, 1),
            CatchUp(1, 0),
            CatchUp(2, 0),
        ],
    ),
    (
        "a_switchover",
        THREE,
        &[
            Insert(0, 1),
            Demote(0),
            Insert(0, 2),
            Promote(1, 1),
            Look,
            Follow(2, 1),
            Follow(0, 1),
            Open(1),
            Insert(1, 3),
            CatchUp(0, 1),
            CatchUp(2, 1),
        ],
    ),
    (
        "a_failover_leaves_the_old_primary_with_what_nobody_has",
        THREE,
        &[
            Insert(0, 1),
            CatchUp(1, 0),
            CatchUp(2, 0),
            StopReceiver(1),
            StopReceiver(2),
            InsertWaiting(0, 2),
            Look,
            Kill(0),
            Answer(2),
            Promote(1, 1),
            Follow(2, 1),
            Open(1),
            Insert(1, 3),
            CatchUp(2, 1),
            Start(0),
            Look,
            Follow(0, 1),
            CatchUp(0, 1),
            Look,
            StopReceiver(0),
            Clone(0, 1),
            Runs(0),
            Follow(0, 1),
            CatchUp(0, 1),
        ],
    ),
    (
        "a_commit_waits_for_as_many_as_it_needs",
        THREE,
        &[
            SetAcks(0, 2),
            Insert(0, 1),
            CatchUp(1, 0),
            CatchUp(2, 0),
            StopReceiver(2),
            InsertWaiting(0, 2),
            Look,
            Follow(2, 0),
            Answer(2),
            CatchUp(2, 0),
            StopReceiver(2),
            InsertWaiting(0, 3),
            SetAcks(0, 1),
            Answer(3),
            Insert(0, 4),
        ],
    ),
    (
        "semi_sync_off_answers_what_waits",
        TWO,
        &[
            StopReceiver(1),
            InsertWaiting(0, 1),
            Look,
            SetAcks(0, 0),
            Answer(1),
            Insert(0, 3),
        ],
    ),
    (
        "a_demotion_answers_nothing_that_waits",
        TWO,
        &[
            StopReceiver(1),
            InsertWaiting(0, 1),
            Demote(0),
            Answer(1),
            Runs(0),
            Insert(0, 2),
            Look,
            Open(0),
            Promote(0, 1),
            Open(0),
            InsertWaiting(0, 3),
            Follow(1, 0),
            Answer(3),
            CatchUp(1, 0),
        ],
    ),
    (
        "silent_replicas_do_not_count",
        THREE,
        &[
            FollowSilently(1, 0),
            FollowSilently(2, 0),
            InsertWaiting(0, 1),
            Receive(1, 0),
            Look,
            Follow(1, 0),
            Look,
            Insert(0, 2),
            Answer(1),
        ],
    ),
    (
        "what_was_received_survives_a_crash_of_the_replica",
        TWO,
        &[
            HoldApplier(1),
            Insert(0, 1),
            Insert(0, 2),
            Receive(1, 0),
            KillMysqld(1),
            Look,
            Kill(0),
            Promote(1, 0),
            Open(1),
            Insert(1, 3),
        ],
    ),
    (
        "a_new_source_does_not_cost_what_was_received",
        THREE,
        &[
            HoldApplier(2),
            Insert(0, 1),
            Receive(2, 0),
            CatchUp(1, 0),
            StopReceiver(2),
            StopReceiver(1),
            Look,
            Promote(1, 0),
            Open(1),
            Follow(2, 1),
            Look,
            FreeApplier(2),
            Insert(1, 2),
            CatchUp(2, 1),
        ],
    ),
    (
        "a_source_refuses_who_lacks_what_was_purged",
        TWO,
        &[
            StopReceiver(1),
            SetAcks(0, 0),
            Insert(0, 1),
            Purge(0),
            Insert(0, 2),
            Follow(1, 0),
            Look,
            Clone(1, 0),
            Runs(1),
            CatchUp(1, 0),
            Insert(0, 3),
            CatchUp(1, 0),
        ],
    ),
    (
        "a_source_refuses_who_has_more_of_it",
        THREE,
        &[
            StopReceiver(2),
            Insert(0, 1),
            CatchUp(1, 0),
            Demote(0),
            Clone(0, 2),
            Runs(0),
            Look,
            PromoteAnyway(0, 0),
            Open(0),
            Follow(1, 0),
            Look,
            Insert(0, 2),
            Follow(2, 0),
            CatchUp(2, 0),
        ],
    ),
    (
        "an_errant_row_breaks_the_applier",
        TWO,
        &[
            InsertErrant(1, 7),
            Insert(0, 1),
            CatchUp(1, 0),
            Look,
            Insert(0, 7),
            Receive(1, 0),
            Look,
            Follow(1, 0),
            StopReceiver(1),
            Promote(1, 0),
            Clone(1, 0),
            Runs(1),
            CatchUp(1, 0),
            Insert(0, 8),
        ],
    ),
    (
        "clones_that_can_not_be",
        TWO,
        &[
            Clone(0, 1),
            Insert(0, 1),
            CatchUp(1, 0),
            Kill(0),
            Clone(1, 0),
            Runs(1),
            Look,
            Clone(1, 1),
            Promote(1, 0),
            Open(1),
            Clone(1, 0),
        ],
    ),
    (
        "a_clone_of_a_replica",
        THREE,
        &[
            Insert(0, 1),
            CatchUp(1, 0),
            Kill(2),
            Insert(0, 2),
            CatchUp(1, 0),
            Start(2),
            Look,
            Clone(2, 1),
            Runs(2),
            Look,
            Follow(2, 0),
            CatchUp(2, 0),
            Insert(0, 3),
            CatchUp(2, 0),
        ],
    ),
    (
        "a_crash_of_the_only_instance",
        ONE,
        &[
            Insert(0, 1),
            KillMysqld(0),
            Look,
            Insert(0, 2),
            Open(0),
            Promote(0, 0),
            Open(0),
            Insert(0, 2),
            Kill(0),
            Start(0),
            Look,
            Terminate(0),
            Start(0),
        ],
    ),
    (
        "a_frozen_replica_acknowledges_when_it_thaws",
        TWO,
        &[
            Freeze(1),
            InsertWaiting(0, 1),
            Thaw(1),
            Answer(1),
            CatchUp(1, 0),
        ],
    ),
    (
        "commits_behind_one_that_waits",
        TWO,
        &[
            StopReceiver(1),
            InsertWaiting(0, 1),
            InsertBehind(0, 2),
            InsertBehind(0, 3),
            Look,
            Follow(1, 0),
            Answer(1),
            Answer(2),
            Answer(3),
            CatchUp(1, 0),
        ],
    ),
    (
        "a_crash_commits_all_that_waited",
        TWO,
        &[
            StopReceiver(1),
            InsertWaiting(0, 1),
            InsertBehind(0, 2),
            InsertBehind(0, 3),
            KillMysqld(0),
            Answer(1),
            Answer(2),
            Answer(3),
        ],
    ),
    (
        "a_new_volume_under_an_old_server_id",
        THREE,
        &[
            Demote(0),
            Promote(1, 1),
            Follow(2, 1),
            Follow(0, 1),
            Open(1),
            Insert(1, 1),
            CatchUp(0, 1),
            Demote(1),
            Promote(0, 1),
            Follow(2, 0),
            Open(0),
            Insert(0, 2),
            Erase(1),
            Start(1),
            Follow(1, 0),
            Look,
            Insert(0, 3),
        ],
    ),
    (
        "a_source_that_is_silent_is_connected_to_anew",
        TWO,
        &[
            Freeze(0),
            Wait(15),
            Look,
            Thaw(0),
            Insert(0, 1),
            CatchUp(1, 0),
            Look,
        ],
    ),
    (
        "sigterm_kills_what_would_answer",
        TWO,
        &[
            Insert(0, 1),
            CatchUp(1, 0),
            StopReceiver(1),
            InsertWaiting(0, 2),
            Terminate(0),
            Answer(2),
            Start(0),
            Look,
            Terminate(1),
            Start(1),
        ],
    ),
    (
        "a_replica_that_comes_again_takes_its_acknowledgement_back",
        THREE,
        &[
            SetAcks(0, 2),
            StopReceiver(2),
            InsertWaiting(0, 1),
            Receive(1, 0),
            StopReceiver(1),
            Follow(1, 0),
            Look,
            Follow(2, 0),
            Answer(1),
            Look,
            Insert(0, 2),
            CatchUp(1, 0),
            CatchUp(2, 0),
        ],
    ),
    (
        "a_replica_that_goes_does_not",
        THREE,
        &[
            SetAcks(0, 2),
            StopReceiver(2),
            InsertWaiting(0, 1),
            Receive(1, 0),
            Wait(1),
            StopReceiver(1),
            Wait(3),
            Follow(2, 0),
            Answer(1),
            CatchUp(2, 0),
        ],
    ),
];

fn kept(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/instance/histories");
    folder.join(name).with_extension("txt")
}

fn steps(history: &History) -> Vec<Op> {
    [history.1, history.2].concat()
}

/// Seeds of random histories.
const SEEDS: std::ops::Range<u64> = 0..6;
/// How many steps they have.
const STEPS: usize = 16;

/// All histories, by name.
fn histories() -> impl Iterator<Item = (String, Vec<Op>)> {
    let written = HISTORIES
        .iter()
        .map(|history| (history.0.to_owned(), steps(history)));
    written.chain(SEEDS.map(|seed| (format!("random_{seed}"), random(seed))))
}

/// Orders without plan, to three instances that work at first.
fn random(seed: u64) -> Vec<Op> {
    let mut state = seed;
    let mut roll = |sides: u8| {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u8::try_from((z ^ (z >> 31)) % u64::from(sides)).unwrap()
    };
    let mut steps = THREE.to_vec();
    for row in 1..=STEPS as u64 {
        let i = roll(3);
        let other = (i + 1 + roll(2)) % 3;
        let acks = u32::from(roll(3));
        let some = match roll(20) {
            0..=4 => vec![Insert(i, row)],
            5..=8 => vec![Follow(i, other)],
            9 => vec![FollowSilently(i, other)],
            10 => vec![StopReceiver(i)],
            11 => vec![Demote(i)],
            12 => vec![PromoteAnyway(i, acks), Open(i)],
            13 => vec![Promote(i, acks), Open(i)],
            14 => vec![SetAcks(i, acks)],
            15 => vec![KillMysqld(i)],
            16 => vec![Clone(i, other), Runs(i)],
            17 => vec![Purge(i)],
            18 => vec![InsertErrant(i, row)],
            _ => vec![Demote(i), Follow(i, other)],
        };
        steps.extend(some);
        steps.push(Rest);
    }
    steps
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

/// On modelled servers, with several seeds: the pace of things must not matter.
#[test]
fn the_model_does_what_real_servers_did() {
    let mut wrong = Vec::new();
    for (name, steps) in histories() {
        for seed in 0..3 {
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
