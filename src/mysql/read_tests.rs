use std::time::Duration;

use super::*;

const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

fn channel(state: &str, signs: &str) -> Channel {
    Channel {
        signs: signs.into(),
        ..channel_for_tests("a", state, 0, false)
    }
}

#[test]
fn silence_ends_with_a_heartbeat_and_not_with_a_stop() {
    let (mut heard, start) = (Heard::default(), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(heard.silent_ms(&channel("ON", "1"), at(0)), 0);
    assert_eq!(heard.silent_ms(&channel("ON", "1"), at(3)), 3000);
    assert_eq!(heard.silent_ms(&channel("CONNECTING", "1c"), at(4)), 4000);
    assert_eq!(heard.silent_ms(&channel("OFF", "1o"), at(5)), 5000);
    assert_eq!(heard.silent_ms(&channel("ON", "2"), at(6)), 0);
    assert_eq!(heard.silent_ms(&channel("ON", "2"), at(7)), 1000);
}

#[test]
fn a_receiver_stopped_while_it_could_not_connect_has_not_failed() {
    let mut stopped = channel("OFF", "");
    stopped.receiver_errno = 2003;
    stopped.receiver_error =
        "Error connecting to source 'x@y:3306'. This was attempt 3/86400".into();
    assert_eq!(stopped.receiver(), ThreadState::Off);
    stopped.receiver_errno = 13114;
    stopped.receiver_error =
        "Got fatal error 1236 from source when reading data from binary log".into();
    assert!(matches!(stopped.receiver(), ThreadState::Failed(_)));
}

#[test]
fn the_same_trouble_has_the_same_words_each_second() {
    let at = |attempt: u32| {
        without_attempt(&format!(
            "Error connecting to source 'x@y:3306'. This was attempt {attempt}/315360000, with a delay of 1 seconds between attempts. Message: Can't connect (113)"
        ))
    };
    assert_eq!(
        at(1),
        "Error connecting to source 'x@y:3306'. Message: Can't connect (113)"
    );
    assert_eq!(at(1), at(2));
    assert!(is_connect_error(&at(1)));
    assert_eq!(without_attempt("Fatal"), "Fatal");
}

#[test]
fn lag_is_zero_once_all_is_applied_and_unknown_without_times() {
    let mut replica = channel("ON", "");
    replica.received = format!("{UUID}:1-5");
    (replica.queued, replica.applied) = (Some(100.0), Some(90.0));
    assert_eq!(replica.lag_seconds(&format!("{UUID}:1-5")), Some(0.0));
    assert_eq!(replica.lag_seconds(&format!("{UUID}:1-4")), Some(10.0));
    replica.applying = Some(95.5);
    assert_eq!(replica.lag_seconds(&format!("{UUID}:1-4")), Some(4.5));
    replica.queued = Some(0.0);
    assert_eq!(replica.lag_seconds(&format!("{UUID}:1-4")), None);
    assert_eq!(replica.lag_seconds("nonsense"), None);
}
