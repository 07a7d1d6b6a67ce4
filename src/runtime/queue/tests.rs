//! The queue as its users see it: many producers, many workers, time.

use super::*;
use crate::runtime::telemetry::Telemetry;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// Serves the queue with `workers` until it drains; `work` says how each run ends.
async fn serve(
    queue: &Queue,
    workers: usize,
    work: impl Fn(&ObjectKey) -> Finish + Clone + Send + 'static,
) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..workers {
        let (queue, work) = (queue.clone(), work.clone());
        tasks.spawn(async move {
            while let Some(item) = queue.next().await {
                tokio::task::yield_now().await;
                queue.done(&item.key, work(&item.key), Duration::ZERO);
            }
        });
    }
    tokio::select! {
        biased;
        () = queue.drive_timer() => {}
        _ = tasks.join_all() => {}
    }
}

fn queue() -> Queue {
    Queue::new("test", &Environment::system())
}

#[tokio::test]
async fn kube_1324_a_change_during_a_run_is_exactly_one_more_run() {
    let queue = queue();
    queue.add(key("a"), Priority::Normal);
    let item = queue.next().await.unwrap();
    for _ in 0..3 {
        queue.add(key("a"), Priority::Normal);
    }
    assert_eq!(queue.len(), 0, "never on two workers");
    queue.done(&item.key, Finish::Success, Duration::ZERO);
    assert_eq!(queue.len(), 1);
    let item = queue.next().await.unwrap();
    queue.done(&item.key, Finish::Success, Duration::ZERO);
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn kube_925_thousands_of_keys_that_requeue_at_once_all_finish() {
    let queue = queue();
    for i in 0..5000 {
        queue.add(key(&i.to_string()), Priority::Low);
    }
    let runs = Arc::new(AtomicUsize::new(0));
    let (counter, drained) = (Arc::clone(&runs), queue.clone());
    serve(&queue, 8, move |_| {
        match counter.fetch_add(1, Ordering::Relaxed) {
            0..5000 => Finish::SuccessAfter(Duration::ZERO),
            9999 => {
                drained.drain();
                Finish::Success
            }
            _ => Finish::Success,
        }
    })
    .await;
    assert_eq!(runs.load(Ordering::Relaxed), 10_000);
    assert_eq!(
        queue.left(),
        Left {
            running: 0,
            queued: 0
        }
    );
}

#[tokio::test(start_paused = true)]
async fn the_earliest_delay_wins_and_an_add_makes_it_ready_now_cr_1720() {
    let queue = queue();
    let begun = Instant::now();
    queue.add_after(key("a"), Duration::from_mins(1));
    queue.add_after(key("a"), Duration::from_secs(20));
    queue.add_after(key("a"), Duration::from_secs(40));
    queue.add_after(key("b"), Duration::from_secs(5));
    let (served, taker) = (Arc::new(Mutex::new(Vec::new())), queue.clone());
    let seen = Arc::clone(&served);
    let work = serve(&queue, 2, move |key| {
        seen.lock()
            .unwrap()
            .push((key.name.to_string(), begun.elapsed().as_secs()));
        Finish::Success
    });
    let script = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        taker.add_after(key("a"), Duration::from_secs(100));
        taker.add(key("a"), Priority::Normal);
        tokio::time::sleep(Duration::from_mins(5)).await;
        taker.drain();
    };
    tokio::join!(work, script);
    let expected = [("b", 5), ("a", 20), ("a", 30)].map(|(name, at)| (name.to_owned(), at));
    assert_eq!(*served.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_coalesces_and_hands_out_after_it_resumes() {
    let queue = queue();
    queue.pause(Pause::Standby);
    let served = Arc::new(AtomicUsize::new(0));
    let (counter, script) = (Arc::clone(&served), queue.clone());
    let work = serve(&queue, 2, move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Finish::Success
    });
    let script = async {
        for _ in 0..10 {
            script.add(key("a"), Priority::Normal);
            script.add(key("b"), Priority::High);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(served.load(Ordering::Relaxed), 0);
        assert_eq!(script.len(), 2);
        script.resume(Pause::Standby);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(served.load(Ordering::Relaxed), 2);
        script.drain();
    };
    tokio::join!(work, script);
}

#[tokio::test(start_paused = true)]
async fn hot_keys_do_not_starve_a_cold_one() {
    let queue = queue();
    for i in 0..50 {
        queue.add(key(&i.to_string()), Priority::Normal);
    }
    queue.add(key("cold"), Priority::Normal);
    let runs = Arc::new(AtomicUsize::new(0));
    let (counter, drained) = (Arc::clone(&runs), queue.clone());
    serve(&queue, 1, move |key| {
        if &*key.name == "cold" {
            drained.drain();
            return Finish::Success;
        }
        counter.fetch_add(1, Ordering::Relaxed);
        Finish::SuccessAfter(Duration::ZERO)
    })
    .await;
    assert_eq!(runs.load(Ordering::Relaxed), 50, "first come, first served");
}

/// Real threads: producers, consumers and a drain in the middle, many times.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cr_3538_a_drain_never_hangs_and_no_key_is_on_two_workers() {
    for round in 0..300 {
        let queue = queue();
        let running = Arc::new(Mutex::new(HashSet::new()));
        let producer = {
            let queue = queue.clone();
            tokio::spawn(async move {
                for i in 0..60_u64 {
                    queue.add(key(&(i % 7).to_string()), Priority::Normal);
                    queue.add_after(key(&(i % 5).to_string()), Duration::from_micros(i));
                    if i % 8 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                if round % 2 == 0 {
                    queue.drain();
                }
            })
        };
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let (queue, running) = (queue.clone(), Arc::clone(&running));
                tokio::spawn(async move {
                    while let Some(item) = queue.next().await {
                        assert!(running.lock().unwrap().insert(item.key.clone()));
                        tokio::task::yield_now().await;
                        assert!(running.lock().unwrap().remove(&item.key));
                        queue.done(&item.key, Finish::Success, Duration::ZERO);
                    }
                })
            })
            .collect();
        let timer = {
            let queue = queue.clone();
            tokio::spawn(async move { queue.drive_timer().await })
        };
        producer.await.unwrap();
        queue.drain();
        for worker in workers {
            tokio::time::timeout(Duration::from_secs(20), worker)
                .await
                .unwrap()
                .unwrap();
        }
        assert_eq!(queue.left().running, 0);
        timer.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_have_client_gos_names_and_meanings() {
    let (telemetry, recorder) = Telemetry::detached().unwrap();
    let queue = metrics::with_local_recorder(&recorder, || Queue::new("q", &Environment::system()));
    let has = |line: &str| {
        queue.measure();
        let text = telemetry.render();
        assert!(text.contains(&format!("\n{line}\n")), "{line} in {text}");
    };
    queue.add(key("a"), Priority::Normal);
    queue.add(key("a"), Priority::Normal);
    queue.add_after(key("b"), Duration::from_secs(9));
    has(r#"workqueue_depth{name="q"} 1"#);
    has(r#"workqueue_adds_total{name="q"} 1"#);
    tokio::time::advance(Duration::from_secs(2)).await;
    has(r#"mainstay_workqueue_oldest_seconds{name="q"} 2"#);
    queue.pause(Pause::Breaker);
    has(r#"mainstay_workqueue_oldest_seconds{name="q"} 0"#);
    queue.resume(Pause::Breaker);
    queue.next().await.unwrap();
    has(r#"workqueue_depth{name="q"} 0"#);
    has(r#"workqueue_queue_duration_seconds_sum{name="q"} 2"#);
    tokio::time::advance(Duration::from_secs(3)).await;
    has(r#"workqueue_longest_running_processor_seconds{name="q"} 3"#);
    has(r#"workqueue_unfinished_work_seconds{name="q"} 3"#);
    queue.done(&key("a"), Finish::Failed, Duration::from_secs(3));
    has(r#"workqueue_retries_total{name="q"} 1"#);
    has(r#"workqueue_work_duration_seconds_count{name="q"} 1"#);
}

/// One wake-up may stand for many keys: every idle worker must get its own.
#[tokio::test(start_paused = true)]
async fn keys_that_become_ready_together_run_on_all_workers() {
    let queue = queue();
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (queue, both) = (queue.clone(), Arc::clone(&both));
            tokio::spawn(async move {
                for _ in 0..2 {
                    let item = queue.next().await.unwrap();
                    both.wait().await;
                    queue.done(&item.key, Finish::Success, Duration::ZERO);
                }
            })
        })
        .collect();
    let timer = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.drive_timer().await })
    };
    queue.pause(Pause::Standby);
    queue.add(key("a"), Priority::Normal);
    queue.add(key("b"), Priority::Normal);
    tokio::time::sleep(Duration::from_secs(1)).await;
    queue.resume(Pause::Standby);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // And by the timer, which is running already and sleeps towards a later time.
    let begun = Instant::now();
    queue.add_after(key("later"), Duration::from_mins(1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    queue.add_after(key("a"), Duration::from_secs(5));
    queue.add_after(key("b"), Duration::from_secs(5));
    for worker in workers {
        tokio::time::timeout(Duration::from_mins(5), worker)
            .await
            .unwrap()
            .unwrap();
    }
    assert_eq!(begun.elapsed().as_secs(), 6);
    timer.abort();
}

/// Workers that are given up while they wait, woken or not, in every order.
#[tokio::test]
async fn a_wake_up_that_is_given_up_goes_to_another() {
    for given_up in 0..3 {
        let queue = queue();
        let mut waiting: Vec<_> = (0..3).map(|_| Task::new(queue.clone())).collect();
        for task in &mut waiting {
            assert!(task.poll().is_pending());
        }
        queue.add(key("a"), Priority::Normal);
        let woken: Vec<_> = waiting.iter().map(Task::woken).collect();
        assert_eq!(
            woken.iter().filter(|woken| **woken).count(),
            1,
            "one for one key"
        );
        drop(waiting.remove(given_up));
        let served = waiting.iter_mut().filter(|task| task.woken());
        let served = served.filter_map(|task| match task.poll() {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        });
        assert_eq!(served.count(), 1, "without the {given_up}th");
    }
}

/// Real threads, and workers that are given up all the time: a key that nobody is woken for would
/// stay, and the round not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_up_is_lost_among_workers_that_are_given_up() {
    for round in 0..50 {
        let queue = queue();
        let runs = Arc::new(AtomicUsize::new(0));
        let workers: Vec<_> = (0..4_u64)
            .map(|worker| {
                let (queue, runs) = (queue.clone(), Arc::clone(&runs));
                tokio::spawn(async move {
                    let mut chance = worker + 10 * round;
                    loop {
                        chance = chance
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        let mut patience = chance >> 62;
                        let impatient = poll_fn(|context| {
                            if patience == 0 {
                                return Poll::Ready(());
                            }
                            patience -= 1;
                            // The last one waits as long as it takes.
                            if worker > 0 {
                                context.waker().wake_by_ref();
                            }
                            Poll::Pending
                        });
                        let item = tokio::select! {
                            biased;
                            item = queue.next() => item,
                            () = impatient, if worker > 0 => continue,
                        };
                        let Some(item) = item else { return };
                        queue.done(&item.key, Finish::Success, Duration::ZERO);
                        runs.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for i in 0..200 {
            queue.add(key(&i.to_string()), Priority::Normal);
            if i % 16 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let all = async {
            while runs.load(Ordering::Relaxed) < 200 {
                tokio::task::yield_now().await;
            }
        };
        let all = tokio::time::timeout(Duration::from_secs(20), all).await;
        assert!(all.is_ok(), "{} of 200 ran", runs.load(Ordering::Relaxed));
        queue.drain();
        for worker in workers {
            worker.await.unwrap();
        }
    }
}

/// A `next` that is polled by hand.
struct Task {
    next: std::pin::Pin<Box<dyn Future<Output = Option<Item>>>>,
    flag: Arc<Flag>,
}

#[derive(Default)]
struct Flag(std::sync::atomic::AtomicBool);

impl std::task::Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Task {
    fn new(queue: Queue) -> Self {
        Self {
            next: Box::pin(async move { queue.next().await }),
            flag: Arc::default(),
        }
    }

    fn woken(&self) -> bool {
        self.flag.0.load(Ordering::SeqCst)
    }

    fn poll(&mut self) -> Poll<Option<Item>> {
        let waker = Arc::clone(&self.flag).into();
        self.next.as_mut().poll(&mut Context::from_waker(&waker))
    }
}
