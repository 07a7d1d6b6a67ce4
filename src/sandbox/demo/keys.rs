//! What each key does.

use std::time::Duration;

use super::screen::Key;
use super::script::{Action, Pod};
use super::snapshot::Snapshot;

/// How late the API server is while it is slow.
const SLOW: Duration = Duration::from_millis(500);
/// Instances that a MySQLCluster may have.
const MOST: u32 = 9;

/// What a key asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    /// Do this.
    Do(Action),
    /// Show everything anew.
    Look,
    /// End the demo.
    Quit,
}

/// What `key` asks for, as things are.
pub(super) fn pressed(key: Key, snapshot: &Snapshot) -> Option<Pressed> {
    let cluster = &snapshot.cluster;
    let act = |action| Some(Pressed::Do(action));
    let holds = |part: &str| snapshot.faults.iter().any(|fault| fault.contains(part));
    match key {
        Key::Interrupt | Key::Char('q') => Some(Pressed::Quit),
        Key::Resized => Some(Pressed::Look),
        Key::Char('p') => act(Action::KillPrimary),
        Key::Char('P') => act(Action::DeletePod(Pod::Primary)),
        Key::Char('l') => act(Action::KillLeader),
        Key::Char('h') => act(Action::Heal),
        Key::Char('c') if holds("cut off") => act(Action::Heal),
        Key::Char('c') => act(Action::Cut {
            pod: Pod::Primary,
            heal_after: None,
        }),
        Key::Char('s') if holds("API server") => act(Action::Heal),
        Key::Char('s') => act(Action::SlowApi {
            delay: SLOW,
            heal_after: None,
        }),
        Key::Char('w') => act(Action::Load(!snapshot.rates.writing)),
        Key::Char('o') => act(Action::Switchover(None)),
        Key::Char('+' | '=') if cluster.wanted < MOST => act(Action::Scale(cluster.wanted + 1)),
        Key::Char('-') if cluster.wanted > 1 => act(Action::Scale(cluster.wanted - 1)),
        Key::Char(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_go_both_ways() {
        let mut snapshot = Snapshot::default();
        let action = |key: char, snapshot: &Snapshot| match pressed(Key::Char(key), snapshot) {
            Some(Pressed::Do(action)) => action.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(action('w', &snapshot), "load on");
        assert_eq!(action('c', &snapshot), "cut primary");
        assert_eq!(action('s', &snapshot), "slow api 500ms");
        snapshot.rates.writing = true;
        snapshot.faults = vec!["demo-0 is cut off".into()];
        assert_eq!(action('w', &snapshot), "load off");
        assert_eq!(action('c', &snapshot), "heal");
        assert_eq!(action('s', &snapshot), "slow api 500ms");
    }

    #[test]
    fn nobody_scales_beyond_what_the_schema_allows() {
        let mut snapshot = Snapshot::default();
        assert_eq!(pressed(Key::Char('-'), &snapshot), None);
        snapshot.cluster.wanted = 9;
        assert_eq!(pressed(Key::Char('+'), &snapshot), None);
        let scale = Some(Pressed::Do(Action::Scale(8)));
        assert_eq!(pressed(Key::Char('-'), &snapshot), scale);
        assert_eq!(pressed(Key::Interrupt, &snapshot), Some(Pressed::Quit));
        assert_eq!(pressed(Key::Char('x'), &snapshot), None);
    }
}
