use super::*;
use crate::client::POD;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Fake {
    calls: Arc<Mutex<Vec<String>>>,
    /// How each call ends; after that, well.
    hang: bool,
    expired: bool,
}

impl Fake {
    async fn call(&self, call: String) {
        if self.hang {
            std::future::pending::<()>().await;
        }
        self.calls.lock().unwrap().push(call);
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

impl Target for Fake {
    async fn create(&self, namespace: &str, event: &Value) -> Result<(), Error> {
        self.call(format!("create {namespace} {}", event["note"]))
            .await;
        Ok(())
    }

    async fn patch(&self, namespace: &str, _name: &str, patch: &Value) -> Result<(), Error> {
        self.call(format!("patch {namespace} {}", patch["series"]["count"]))
            .await;
        if self.expired {
            return Err(Error::NotFound {
                what: "patch".to_owned(),
            });
        }
        Ok(())
    }
}

struct Fixture {
    target: Fake,
    recorder: EventRecorder,
    shutdown: Shutdown,
    run: tokio::task::JoinHandle<()>,
}

fn start(target: Fake) -> Fixture {
    let (queue, published) = mpsc::channel(EventLimits::DEFAULT.queue);
    let shutdown = Shutdown::new();
    let (api, stop) = (target.clone(), shutdown.clone());
    let run = tokio::spawn(async move {
        let reporter = Reporter::new("c", "i");
        let series = Series::new(&EventLimits::DEFAULT);
        let environment = Environment::system();
        write(&api, published, series, reporter, environment, &stop).await;
    });
    Fixture {
        target,
        recorder: EventRecorder { queue },
        shutdown,
        run,
    }
}

fn publish(recorder: &EventRecorder, note: &str) {
    let about = ObjectRef {
        resource: POD,
        namespace: "ns".to_owned(),
        name: "a".to_owned(),
        uid: "u".to_owned(),
    };
    recorder.publish(&about, EventType::Normal, "Reason", "Act", note.to_owned());
}

#[tokio::test(start_paused = true)]
async fn a_hot_repeat_is_one_event_with_a_count_that_is_written_now_and_then() {
    let test = start(Fake::default());
    for _ in 0..600 {
        publish(&test.recorder, "same");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    let calls = test.target.calls();
    assert_eq!(calls[0], r#"create ns "same""#);
    assert_eq!(calls.last().unwrap(), "patch ns 600");
    assert!(calls.len() <= 5, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_series_whose_event_expired_is_created_anew() {
    let test = start(Fake {
        expired: true,
        ..Fake::default()
    });
    publish(&test.recorder, "x");
    tokio::time::sleep(Duration::from_mins(1)).await;
    publish(&test.recorder, "x");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        test.target.calls(),
        [r#"create ns "x""#, "patch ns 2", r#"create ns "x""#]
    );
}

#[tokio::test(start_paused = true)]
async fn shutdown_writes_what_is_queued_and_the_counts_that_were_held_back() {
    let test = start(Fake::default());
    for note in ["a", "b", "b", "b"] {
        publish(&test.recorder, note);
    }
    test.shutdown.trigger();
    test.run.await.unwrap();
    let calls = test.target.calls();
    assert_eq!(
        calls,
        [r#"create ns "a""#, r#"create ns "b""#, "patch ns 3"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_outage_neither_blocks_publishing_nor_shutdown_and_drops_are_counted() {
    let (telemetry, recorder) = super::super::telemetry::Telemetry::detached().unwrap();
    let guard = metrics::set_default_local_recorder(&recorder);
    let test = start(Fake {
        hang: true,
        ..Fake::default()
    });
    tokio::task::yield_now().await;
    for i in 0..EventLimits::DEFAULT.queue + 5 {
        publish(&test.recorder, &i.to_string());
    }
    assert!(
        telemetry
            .render()
            .contains(r#"mainstay_events_dropped_total{reason="full"} 5"#)
    );
    let begun = Instant::now();
    test.shutdown.trigger();
    test.run.await.unwrap();
    assert_eq!(begun.elapsed(), FLUSH_LIMIT);
    publish(&test.recorder, "late");
    // One was being written and is lost with it.
    let rendered = telemetry.render();
    assert!(
        rendered.contains(r#"mainstay_events_dropped_total{reason="shutdown"} 1000"#),
        "{rendered}"
    );
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn words_that_change_each_time_are_limited_and_counted_and_leave_a_warning_its_way() {
    let (telemetry, recorder) = super::super::telemetry::Telemetry::detached().unwrap();
    let guard = metrics::set_default_local_recorder(&recorder);
    let test = start(Fake::default());
    for i in 0..100 {
        publish(&test.recorder, &i.to_string());
    }
    let about = ObjectRef {
        resource: POD,
        namespace: "ns".to_owned(),
        name: "a".to_owned(),
        uid: "u".to_owned(),
    };
    let lost = "the primary is lost".to_owned();
    test.recorder
        .publish(&about, EventType::Warning, "Reason", "Act", lost);
    test.shutdown.trigger();
    test.run.await.unwrap();
    let calls = test.target.calls();
    assert_eq!(calls.len(), 26, "{calls:?}");
    assert_eq!(calls[24], r#"create ns "24""#);
    assert_eq!(calls[25], r#"create ns "the primary is lost""#);
    let rendered = telemetry.render();
    let limited = r#"mainstay_events_dropped_total{reason="limited"} 75"#;
    assert!(rendered.contains(limited), "{rendered}");
    drop(guard);
}
