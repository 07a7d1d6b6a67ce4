use super::*;
use crate::runtime::election::testing::{Server, timed_out};

const SECOND: Duration = Duration::from_secs(1);

/// One elector beside a server, with time in the test's hands.
struct Bench {
    server: Server,
    now: Instant,
    wall: u32,
}

impl Bench {
    fn new() -> Self {
        Self {
            server: Server::default(),
            now: Instant::now(),
            wall: 0,
        }
    }

    fn elector(&self, identity: &str) -> Machine {
        let options = ElectionOptions::new("ns", "a", identity);
        Machine::new(options, Jitter::seeded(1), self.now)
    }

    /// The next request of the elector once it is due.
    fn request(&mut self, elector: &mut Machine) -> Request {
        loop {
            elector.expire(self.now);
            self.wall += 1;
            if let Some(request) = elector.request(self.now, &self.wall.to_string()) {
                return request;
            }
            self.now = self.now.max(elector.next_wake());
        }
    }

    /// One request of the elector that is answered at once. Returns its verb.
    fn exchange(&mut self, elector: &mut Machine) -> &'static str {
        let request = self.request(elector);
        let answer = self.server.handle(&request);
        elector.answer(self.now, self.now, &request, answer);
        request.verb()
    }

    /// Exchanges until the elector leads, for at most `limit`.
    fn lead(&mut self, elector: &mut Machine, limit: Duration) -> bool {
        let end = self.now + limit;
        while elector.held.is_none() && self.now <= end {
            self.exchange(elector);
        }
        elector.held.is_some()
    }

    fn lose_answer(&mut self, elector: &mut Machine, carried_out: bool) {
        let request = self.request(elector);
        let sent = self.now;
        if carried_out {
            let _ = self.server.handle(&request);
        }
        self.now += 5 * SECOND;
        elector.answer(self.now, sent, &request, Err(timed_out()));
    }
}

fn leads(elector: &Machine, term: u64) -> bool {
    elector.leadership() == Leadership::Leader { term }
}

#[test]
fn linkerd2_10823_the_lease_is_made_on_demand_and_of_two_creators_one_wins() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.elector("a"), bench.elector("b"));
    assert_eq!(a.leadership(), Leadership::Unknown);
    assert_eq!(
        (bench.exchange(&mut a), bench.exchange(&mut b)),
        ("get", "get")
    );
    assert_eq!(
        (bench.exchange(&mut a), bench.exchange(&mut b)),
        ("create", "create")
    );
    assert!(leads(&a, 1), "a term is never 0");
    let record = &bench.server.lease.as_ref().unwrap().spec;
    assert_eq!(
        (record.transitions(), record.lease_duration_seconds),
        (0, Some(15))
    );
    bench.exchange(&mut b);
    let holder = "a".to_owned();
    assert_eq!(b.leadership(), Leadership::Standby { holder });
    assert_eq!(b.fence(), None);
}

#[test]
fn nobody_waits_for_a_holder_whose_end_is_proven_unless_it_renewed_meanwhile() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.elector("a"), bench.elector("b"));
    assert!(bench.lead(&mut a, SECOND));
    bench.exchange(&mut b);
    assert!(b.suspect(bench.now).is_none(), "it has just renewed");
    bench.now += 3 * SECOND;
    let record = b.suspect(bench.now).unwrap().clone();
    b.ended(bench.now, &record);
    assert_eq!(bench.exchange(&mut b), "update");
    assert!(leads(&b, 2), "long before it expires");

    // Of the next leader, what was proven does not hold: it is another process of that name.
    let mut c = bench.elector("c");
    bench.exchange(&mut c);
    bench.now += 3 * SECOND;
    let record = c.suspect(bench.now).unwrap().clone();
    let mut again = bench.server.lease.clone().unwrap();
    again.spec.acquire_time = Some("later".to_owned());
    bench.server.put(again);
    c.ended(bench.now, &record);
    assert_eq!(bench.exchange(&mut c), "update");
    assert!(!leads(&c, 3), "it lost the write, and looks");
    assert_eq!(bench.exchange(&mut c), "get");
    c.ended(bench.now, &record);
    assert!(!bench.lead(&mut c, 10 * SECOND));
}

#[test]
fn the_first_process_of_a_pod_does_not_wait_for_its_predecessor_and_no_other_does_so() {
    let mut bench = Bench::new();
    for (succeeds_itself, waits) in [(true, false), (false, true)] {
        let options = ElectionOptions {
            succeeds_itself,
            ..ElectionOptions::new("ns", "a", "pod_uid")
        };
        let elector = |now| Machine::new(options.clone(), Jitter::seeded(1), now);
        bench.server = Server::default();
        let mut before = elector(bench.now);
        assert!(bench.lead(&mut before, SECOND));
        let mut after = elector(bench.now);
        bench.now += SECOND;
        assert_eq!(bench.lead(&mut after, 10 * SECOND), !waits);
        if !waits {
            assert!(leads(&after, 2), "in a term of its own");
            let exchanges = [bench.exchange(&mut before), bench.exchange(&mut before)];
            assert_eq!(exchanges, ["update", "get"]);
            assert_eq!(before.fence(), None, "should it live after all");
        }
    }
}

#[test]
fn a_leader_only_updates_and_its_fence_counts_from_sending() {
    let mut bench = Bench::new();
    let mut a = bench.elector("a");
    assert!(bench.lead(&mut a, SECOND));
    bench.now += SECOND / 2;
    for _ in 0..5 {
        let before = bench.now;
        let request = bench.request(&mut a);
        assert_eq!(request.verb(), "update");
        let pause = bench.now - before + SECOND / 2;
        assert!(pause >= SECOND * 8 / 10 && pause <= SECOND * 12 / 10);
        let sent = bench.now;
        let answer = bench.server.handle(&request);
        bench.now += SECOND / 2;
        a.answer(bench.now, sent, &request, answer);
        assert_eq!(
            a.fence(),
            Some(sent + Duration::from_millis(12_500)),
            "k8s#67651"
        );
    }
}

#[test]
fn k8s_67651_a_late_answer_does_not_lengthen_leadership() {
    let mut bench = Bench::new();
    let mut a = bench.elector("a");
    bench.exchange(&mut a);
    let request = bench.request(&mut a);
    let sent = bench.now;
    let answer = bench.server.handle(&request);
    bench.now += 11 * SECOND;
    a.answer(bench.now, sent, &request, answer);
    assert!(a.held.is_none(), "past the renew deadline it does not lead");
    assert_eq!(a.fence(), Some(sent + Duration::from_millis(12_500)));
    bench.exchange(&mut a);
    assert!(
        leads(&a, 1),
        "the lease is still its own: again in the same term"
    );
}

#[test]
fn kube_485_a_live_lease_is_not_taken_whatever_its_times_say() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.elector("a"), bench.elector("b"));
    assert!(bench.lead(&mut a, SECOND));
    // The holder's clock is decades away; it stands still, too. b looks for a minute.
    let mut lease = bench.server.lease.clone().unwrap();
    for i in 0..30 {
        lease.spec.renew_time = Some(format!("1999-01-01T00:00:{i:02}.000000Z"));
        bench.server.put(lease.clone());
        let until = bench.now + 2 * SECOND;
        while bench.now < until {
            assert_eq!(bench.exchange(&mut b), "get");
        }
    }
    // No renewal is seen any more: taken after the holder's duration, not before.
    bench.exchange(&mut b);
    let changed = b.seen.as_ref().unwrap().changed;
    assert!(bench.lead(&mut b, 20 * SECOND));
    let waited = bench.now - changed;
    assert!(waited >= 15 * SECOND && waited <= 16 * SECOND, "{waited:?}");
    assert!(leads(&b, 2));
}

#[test]
fn the_holders_own_duration_counts() {
    let mut bench = Bench::new();
    let mut lease = Lease::new("ns", "a");
    lease.spec.holder_identity = Some("other".to_owned());
    lease.spec.lease_duration_seconds = Some(40);
    lease.spec.lease_transitions = Some(6);
    bench.server.put(lease);
    let mut a = bench.elector("a");
    assert!(!bench.lead(&mut a, 39 * SECOND));
    assert!(bench.lead(&mut a, 2 * SECOND));
    assert!(leads(&a, 8));
}

#[test]
fn a_released_lease_is_taken_at_the_next_look() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.elector("a"), bench.elector("b"));
    assert!(bench.lead(&mut a, SECOND));
    bench.exchange(&mut b);
    assert!(a.stop());
    assert_eq!(a.fence(), None, "closed before it is released");
    let release = a.release("w").unwrap();
    bench.server.handle(&release).unwrap();
    let record = &bench.server.lease.as_ref().unwrap().spec;
    assert_eq!(
        (record.holder(), record.lease_duration_seconds),
        ("", Some(1))
    );
    assert!(bench.lead(&mut b, SECOND * 12 / 10));
    assert!(leads(&b, 2));
}

#[test]
fn kubert_134_a_leader_that_cannot_renew_demotes_in_place_and_campaigns_again() {
    let mut bench = Bench::new();
    let mut a = bench.elector("a");
    assert!(bench.lead(&mut a, SECOND));
    let sent = a.held.unwrap().sent;
    while a.held.is_some() {
        bench.lose_answer(&mut a, false);
    }
    // The second lost answer is out 5 s after it was asked for; the shell looks in between.
    assert!(bench.now - sent <= 13 * SECOND);
    for _ in 0..50 {
        bench.lose_answer(&mut a, false);
        assert!(a.held.is_none() && a.fence().is_none_or(|fence| fence <= bench.now));
    }
    assert!(bench.lead(&mut a, 2 * SECOND));
}

#[test]
fn a_write_whose_answer_was_lost_is_recognised() {
    let mut bench = Bench::new();
    let mut a = bench.elector("a");
    bench.exchange(&mut a);
    bench.lose_answer(&mut a, true);
    assert_eq!(a.fence(), None, "unknown is not led");
    assert!(
        bench.lead(&mut a, 3 * SECOND),
        "without waiting for its own lease to expire"
    );
    assert!(leads(&a, 1));
    bench.lose_answer(&mut a, true);
    assert_eq!(
        (bench.exchange(&mut a), bench.exchange(&mut a)),
        ("get", "update")
    );
    assert!(leads(&a, 1));
}

#[test]
fn a_namesake_is_somebody_else() {
    let mut bench = Bench::new();
    let (mut a, mut twin) = (bench.elector("a"), bench.elector("a"));
    assert!(bench.lead(&mut a, SECOND));
    assert!(!bench.lead(&mut twin, 14 * SECOND));
    assert!(
        bench.lead(&mut twin, 2 * SECOND),
        "a restarted process waits as anyone does"
    );
    assert!(leads(&twin, 2));
    bench.exchange(&mut a);
    bench.exchange(&mut a);
    assert_eq!(a.fence(), None);
}

#[test]
fn who_saw_the_holder_waits_although_the_lease_was_deleted() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.elector("a"), bench.elector("b"));
    assert!(bench.lead(&mut a, SECOND));
    bench.exchange(&mut b);
    bench.server.lease = None;
    let deleted = bench.now;
    assert!(bench.lead(&mut b, 20 * SECOND));
    assert!(bench.now - deleted >= 14 * SECOND);
    assert!(leads(&b, 2), "and the term goes on");

    // The leader itself stops, makes it anew, and counts that as a new leadership.
    let mut bench = Bench::new();
    let mut a = bench.elector("a");
    assert!(bench.lead(&mut a, SECOND));
    bench.server.lease = None;
    assert_eq!(bench.exchange(&mut a), "update");
    assert_eq!(a.fence(), None);
    assert_eq!(bench.exchange(&mut a), "create");
    assert!(leads(&a, 2));
}

#[test]
fn a_raised_term_is_in_the_lease_before_it_is_visible() {
    let mut bench = Bench::new();
    let mut a = bench.elector("a");
    a.raise(bench.now, 9);
    assert!(bench.lead(&mut a, SECOND));
    assert!(leads(&a, 1), "only a leader raises");
    a.raise(bench.now, 9);
    let request = bench.request(&mut a);
    assert!(leads(&a, 1));
    let sent = bench.now;
    a.raise(sent, 12);
    let answer = bench.server.handle(&request);
    a.answer(sent, sent, &request, answer);
    assert!(leads(&a, 9));
    bench.exchange(&mut a);
    assert_eq!(bench.now, sent, "at once");
    assert!(leads(&a, 12));
    a.raise(bench.now, 5);
    bench.exchange(&mut a);
    assert!(leads(&a, 12));
}
