//! Histories that a seed decides.

use super::{
    Op::{self, *},
    written::THREE,
};

/// Seeds of random histories.
const SEEDS: std::ops::Range<u64> = 0..10;
/// How many steps they have.
const STEPS: u64 = 16;

/// All of them, by name.
pub(crate) fn random() -> impl Iterator<Item = (String, Vec<Op>)> {
    SEEDS.map(|seed| (format!("random_{seed}"), steps(seed)))
}

/// Orders without plan, to three instances that work at first.
fn steps(seed: u64) -> Vec<Op> {
    let mut state = seed;
    let mut roll = |sides: u8| {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u8::try_from((z ^ (z >> 31)) % u64::from(sides)).unwrap()
    };
    let mut steps = THREE.to_vec();
    for row in 1..=STEPS {
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
