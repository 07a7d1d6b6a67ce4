use super::*;
use crate::client::Error;

struct Loop {
    machine: Machine,
    now: Instant,
}

impl Loop {
    fn new() -> Self {
        Self {
            machine: Machine::paging(Jitter::seeded(5)),
            now: Instant::now(),
        }
    }

    fn streaming() -> Self {
        Self {
            machine: Machine::new(Jitter::seeded(5)),
            now: Instant::now(),
        }
    }

    /// A loop whose first list is complete at version 10 and whose watch gave event 11.
    fn watching() -> Self {
        let mut this = Self::new();
        this.machine.step();
        this.machine.page(this.now, "10".to_owned(), None);
        this.step();
        this.machine.frame(this.now, "11");
        this
    }

    fn step(&mut self) -> Step {
        let step = self.machine.step();
        self.now += step.wait;
        step
    }

    fn ended(&mut self, lasted: Duration, frames: u64, end: End) {
        self.now += lasted;
        self.machine
            .watch_ended(self.now, lasted, frames, true, end);
    }
}

fn lists(step: &Step) -> Option<(Option<&'static str>, &PageRequest)> {
    match &step.action {
        Action::List { begin, request } => Some((*begin, request)),
        Action::Watch { .. } => None,
    }
}

fn watches(step: &Step) -> Option<&str> {
    match &step.action {
        Action::List { .. } => None,
        Action::Watch { request, .. } => request.resource_version.as_deref(),
    }
}

const LONG: Duration = Duration::from_secs(100);
const SHORT: Duration = Duration::from_millis(10);
const GONE: End = End::Failed(Failure::Expired);
const FAILED: End = End::Failed(Failure::Other);

#[test]
fn pages_are_followed_and_the_first_ones_version_is_watched_from() {
    let mut test = Loop::new();
    let step = test.step();
    let (begin, request) = lists(&step).unwrap();
    assert_eq!(begin, Some("initial"));
    assert_eq!(request.limit, Some(500));
    assert!(
        test.machine
            .page(test.now, "10".to_owned(), Some("t".to_owned()))
            .is_none()
    );
    let step = test.step();
    let (begin, request) = lists(&step).unwrap();
    assert_eq!(begin, None);
    assert_eq!(request.continue_token.as_deref(), Some("t"));
    let complete = test
        .machine
        .page(test.now, "12".to_owned(), Some(String::new()));
    assert_eq!(complete.as_deref(), Some("10"));
    let step = test.step();
    assert_eq!(watches(&step), Some("10"));
    let Action::Watch { request, .. } = step.action else {
        unreachable!()
    };
    assert!((240..=360).contains(&request.timeout.as_secs()));
}

#[test]
fn a_watch_that_ends_resumes_where_it_was() {
    let mut test = Loop::watching();
    test.ended(LONG, 1, End::Closed);
    let step = test.step();
    assert_eq!((watches(&step), step.wait), (Some("11"), Duration::ZERO));
    test.ended(LONG, 0, FAILED);
    let step = test.step();
    assert_eq!(watches(&step), Some("11"));
    assert!(step.wait >= Duration::from_millis(400));
    test.ended(LONG, 0, End::Silent);
    assert_eq!(watches(&test.step()), Some("11"));
}

#[test]
fn kube_1042_an_expired_watch_is_exactly_one_list_of_the_newest() {
    let mut test = Loop::watching();
    test.ended(LONG, 1, GONE);
    let step = test.step();
    let (begin, _) = lists(&step).unwrap();
    assert_eq!(begin, Some("expired"));
    assert_eq!(step.wait, Duration::ZERO);
    test.machine.page(test.now, "20".to_owned(), None);
    assert_eq!(watches(&test.step()), Some("20"));
}

#[test]
fn kube_1748_a_list_that_expires_before_it_is_watched_is_read_in_larger_pages() {
    let mut test = Loop::watching();
    let mut limits = Vec::new();
    for _ in 0..5 {
        test.ended(SHORT, 0, GONE);
        let step = test.step();
        limits.push(lists(&step).unwrap().1.limit);
        test.machine.page(test.now, "20".to_owned(), None);
        let watch = test.step();
        assert_eq!(watches(&watch), Some("20"));
    }
    // The first 410 came after a frame and is no sign of that.
    assert_eq!(
        limits,
        [Some(500), Some(2000), Some(8000), Some(32_000), None]
    );
}

#[test]
fn a_lost_continue_token_restarts_the_list() {
    let mut test = Loop::new();
    test.step();
    test.machine
        .page(test.now, "10".to_owned(), Some("t".to_owned()));
    test.machine.list_failed(test.now, Failure::Other);
    let step = test.step();
    assert_eq!(
        lists(&step).unwrap().1.continue_token.as_deref(),
        Some("t"),
        "it may be good"
    );
    test.machine.list_failed(test.now, Failure::Expired);
    let step = test.step();
    let (begin, request) = lists(&step).unwrap();
    assert_eq!((begin, &request.continue_token), (Some("expired"), &None));
}

#[test]
fn three_brief_watches_without_a_frame_are_a_list() {
    let mut test = Loop::watching();
    test.ended(SHORT, 0, End::Closed);
    assert_eq!(watches(&test.step()), Some("11"));
    test.ended(SHORT, 0, FAILED);
    let step = test.step();
    assert!(step.wait > Duration::ZERO, "no tight loop");
    test.ended(SHORT, 0, End::Closed);
    assert_eq!(lists(&test.step()).unwrap().0, Some("barren"));

    // A frame or a longer watch in between starts the count anew.
    let mut test = Loop::watching();
    for i in 0..10 {
        test.ended(SHORT, 0, End::Closed);
        test.step();
        test.ended(SHORT, 0, End::Closed);
        assert_eq!(watches(&test.step()), Some("11"));
        if i % 2 == 0 {
            test.ended(LONG, 0, End::Closed);
        } else {
            test.machine.frame(test.now, "11");
            test.ended(SHORT, 1, End::Closed);
        }
        test.step();
    }
}

#[test]
fn k8s_100878_a_refused_watch_is_never_a_list() {
    let mut test = Loop::watching();
    let after = Duration::from_secs(7);
    for _ in 0..10 {
        let refused = End::Failed(Failure::Throttled(Some(after)));
        test.machine.watch_ended(test.now, SHORT, 0, false, refused);
        let step = test.step();
        assert_eq!(watches(&step), Some("11"));
        assert!(step.wait >= after && step.wait <= BACKOFF_CAP);
    }
    let forever = End::Failed(Failure::Throttled(Some(Duration::from_hours(1))));
    test.machine.watch_ended(test.now, SHORT, 0, false, forever);
    assert_eq!(test.step().wait, BACKOFF_CAP, "capped");
}

#[test]
fn the_backoff_grows_to_its_cap_and_resets_after_two_healthy_minutes() {
    let mut test = Loop::watching();
    let mut waits = Vec::new();
    for _ in 0..12 {
        test.machine.watch_ended(test.now, SHORT, 0, false, FAILED);
        waits.push(test.step().wait);
    }
    assert!(waits[0] <= Duration::from_millis(1200));
    assert!(waits[11] >= Duration::from_secs(15) && waits[11] <= BACKOFF_CAP);
    test.machine.frame(test.now, "12");
    test.ended(Duration::from_secs(119), 1, FAILED);
    assert!(
        test.step().wait >= Duration::from_secs(15),
        "not healthy long enough"
    );
    test.machine.frame(test.now, "13");
    test.ended(HEALTHY_AFTER, 1, FAILED);
    assert!(test.step().wait <= Duration::from_millis(1200));
}

#[test]
fn errors_are_told_apart() {
    let what = String::new;
    let unavailable = |message: &str| Error::Unavailable {
        what: what(),
        code: Some(504),
        unsent: false,
        message: message.to_owned(),
    };
    assert_eq!(
        Failure::from(&Error::Gone { what: what() }),
        Failure::Expired
    );
    assert_eq!(
        Failure::from(&unavailable(
            "Timeout: Too large resource version: 9, current: 2"
        )),
        Failure::Expired
    );
    assert_eq!(Failure::from(&unavailable("etcd is away")), Failure::Other);
    for (code, failure) in [
        (400, Failure::Refused),
        (422, Failure::Refused),
        (413, Failure::Other),
    ] {
        let (what, message) = (what(), what());
        let invalid = Error::Invalid {
            what,
            code,
            message,
        };
        assert_eq!(Failure::from(&invalid), failure);
    }
}

/// What a watch that is asked for all objects first was begun for.
fn streams(step: &Step) -> Option<&'static str> {
    match &step.action {
        Action::Watch { begin, request } if request.resource_version.is_none() => *begin,
        _ => None,
    }
}

#[test]
fn a_watch_that_begins_with_all_objects_goes_on_as_the_watch() {
    let mut test = Loop::streaming();
    assert_eq!(streams(&test.step()), Some("initial"));
    assert!(test.machine.awaits_objects());
    assert_eq!(test.machine.silence(LONG), WatchLimits::DEFAULT.patience);
    // The version of one object says nothing of the collection.
    test.machine.frame(test.now, "9");
    test.machine.streamed(test.now, "10");
    assert_eq!(test.machine.silence(LONG), LONG + SILENCE_SLACK);
    test.machine.frame(test.now, "11");
    test.ended(LONG, 4, FAILED);
    assert_eq!(watches(&test.step()), Some("11"), "it is resumed");
    test.ended(LONG, 0, GONE);
    let step = test.step();
    assert_eq!(streams(&step), Some("expired"));
    assert!(step.wait.is_zero());
}

#[test]
fn a_server_that_does_not_give_all_objects_first_is_asked_for_lists_from_then_on() {
    let refused = End::Failed(Failure::Refused);
    for (end, reason) in [
        (refused, "refused"),
        (End::Silent, "stalled"),
        (End::Closed, "stalled"),
    ] {
        let mut test = Loop::streaming();
        test.step();
        test.ended(SHORT, 0, end);
        let step = test.step();
        assert_eq!(lists(&step).map(|(begin, _)| begin), Some(Some(reason)));
        assert!(step.wait.is_zero());
        test.machine.page(test.now, "10".to_owned(), None);
        test.step();
        test.machine.frame(test.now, "11");
        test.ended(LONG, 1, GONE);
        assert!(lists(&test.step()).is_some());
    }
}

#[test]
fn a_busy_or_broken_server_is_asked_for_a_list_this_time() {
    let mut test = Loop::streaming();
    test.step();
    let after = Some(Duration::from_secs(7));
    test.ended(SHORT, 0, End::Failed(Failure::Throttled(after)));
    let step = test.step();
    assert!(lists(&step).is_some() && step.wait >= Duration::from_secs(7));
    test.machine.page(test.now, "10".to_owned(), None);
    test.step();
    test.machine.frame(test.now, "11");
    test.ended(LONG, 1, GONE);
    assert_eq!(streams(&test.step()), Some("expired"));

    for _ in 1..BROKEN_LIMIT {
        test.ended(LONG, 1, FAILED);
        let step = test.step();
        assert_eq!(streams(&step), Some("retry"));
        assert!(!step.wait.is_zero());
    }
    test.ended(LONG, 1, FAILED);
    assert!(lists(&test.step()).is_some());
}

#[test]
fn the_limits_that_are_asked_for_are_those_of_its_requests() {
    let limits = WatchLimits {
        page_size: 7,
        timeout: LONG,
        patience: SHORT,
        ..WatchLimits::DEFAULT
    };
    let mut test = Loop::streaming();
    test.machine = test.machine.with_limits(limits);
    let Action::Watch { request, .. } = test.step().action else {
        panic!("it begins with a watch");
    };
    let (shortest, longest) = (LONG.mul_f64(0.8), LONG.mul_f64(1.2));
    assert!(request.timeout >= shortest && request.timeout <= longest);
    assert_eq!(test.machine.silence(LONG), SHORT);
    test.ended(SHORT, 0, End::Silent);
    let step = test.step();
    assert_eq!(
        lists(&step).map(|(_, request)| request.limit),
        Some(Some(7))
    );
}
