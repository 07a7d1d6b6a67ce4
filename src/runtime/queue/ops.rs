//! What the model does to a queue, at random.

use std::time::Duration;

use proptest::prelude::*;

use super::{Finish, Priority};
use crate::runtime::ObjectKey;

/// Three are of one namespace, two of another, one of a third.
pub(super) const KEYS: u8 = 6;

pub(super) fn name(key: u8) -> ObjectKey {
    let namespace = ["a", "a", "a", "b", "b", "c"][key as usize];
    ObjectKey::new(namespace, &key.to_string())
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Add(u8, Priority),
    AddAfter(u8, Duration),
    Take,
    /// The n-th running key (modulo) ends.
    Done(usize, Finish),
    Advance(Duration),
    Pause(bool),
    Discard(u8),
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        (1_u64..20).prop_map(Duration::from_millis),
        (20_u64..3000).prop_map(Duration::from_millis),
        (3_u64..900).prop_map(Duration::from_secs),
    ]
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![
        Just(Priority::Low),
        Just(Priority::Normal),
        Just(Priority::High)
    ]
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let finish = prop_oneof![
        2 => Just(Finish::Success),
        1 => duration().prop_map(Finish::SuccessAfter),
        1 => Just(Finish::Permanent),
        2 => Just(Finish::Conflict),
        2 => Just(Finish::Interrupted),
        5 => Just(Finish::Failed),
    ];
    prop_oneof![
        4 => (0..KEYS, priority()).prop_map(|(key, priority)| Op::Add(key, priority)),
        2 => (0..KEYS, duration()).prop_map(|(key, delay)| Op::AddAfter(key, delay)),
        6 => Just(Op::Take),
        6 => (0_usize..4, finish).prop_map(|(nth, finish)| Op::Done(nth, finish)),
        4 => duration().prop_map(Op::Advance),
        1 => any::<bool>().prop_map(Op::Pause),
        1 => (0..KEYS).prop_map(Op::Discard),
    ]
}
