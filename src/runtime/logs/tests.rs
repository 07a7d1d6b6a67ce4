use std::io;

use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Dispatch, Instrument as _};

use super::*;
use crate::client::Environment;
use crate::runtime::queue::Priority;
use crate::runtime::{
    Controller, ControllerOptions, ObjectKey, Outcome, Queue, ReconcileError, Reconciler,
};

/// What was written.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(lock(&self.0).clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Logs of this thread, from now on.
fn capture(
    format: LogFormat,
    filter: &str,
    repeats: Duration,
) -> (Captured, LogControl, (DefaultGuard, Dispatch)) {
    let captured = Captured::default();
    let writer = captured.clone();
    let (subscriber, control) = subscriber(format, filter, repeats, move || writer.clone(), false);
    let guard = set_default(subscriber);
    // With a single one, a place in the code that another test's thread comes by first, which logs
    // nothing, would be silent for good.
    let second = Dispatch::new(tracing_subscriber::registry());
    (captured, control, (guard, second))
}

/// Logs at each level, and fails.
struct Chatty;

impl Reconciler for Chatty {
    async fn reconcile(&self, _: &ObjectKey) -> Result<Outcome, ReconcileError> {
        tracing::debug!("looking");
        tokio::task::yield_now().await;
        tracing::info!("acting");
        tracing::warn!("odd");
        Err(ReconcileError::Permanent("no way".to_owned()))
    }
}

async fn reconcile_one() {
    let queue = Queue::new("test", &Environment::system());
    queue.add(ObjectKey::new("team", "orders"), Priority::High);
    let options = ControllerOptions::default();
    let controller = Controller::new("test", queue.clone(), Arc::new(Chatty), options);
    let shutdown = Shutdown::new();
    let stop = shutdown.clone();
    let run = controller.run(shutdown, Duration::from_secs(1));
    let enough = async move {
        while !queue.is_empty() {
            tokio::task::yield_now().await;
        }
        stop.trigger();
    };
    tokio::join!(run, enough);
}

#[tokio::test(start_paused = true)]
async fn each_line_of_a_reconcile_names_its_object_whatever_format_and_filter() {
    for format in [LogFormat::Text, LogFormat::Json] {
        for (filter, lines) in [
            ("mainstay=debug", 4),
            ("info", 3),
            ("warn", 2),
            // The span's own module is not let through.
            ("mainstay::runtime::logs=info", 2),
        ] {
            let (captured, _control, _guard) = capture(format, filter, Duration::ZERO);
            reconcile_one().await;
            let written = captured.lines();
            assert_eq!(written.len(), lines, "{format:?} {filter}: {written:#?}");
            for line in written {
                assert!(line.contains("team/orders"), "{format:?} {filter}: {line}");
                assert!(line.contains("trace"), "{format:?} {filter}: {line}");
                if format == LogFormat::Json {
                    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
                    assert_eq!(line["span"]["key"], "team/orders");
                    assert_eq!(line["span"]["controller"], "test");
                }
            }
        }
    }
}

#[test]
fn the_filter_changes_and_one_that_can_not_be_read_changes_nothing() {
    let (captured, control, _guard) = capture(LogFormat::Text, "info", Duration::ZERO);
    tracing::debug!("first");
    control.set("mainstay=debug").unwrap();
    tracing::debug!("second");
    for bad in ["mainstay=loud", "a=b=c", "", "  "] {
        let why = control.set(bad).unwrap_err();
        assert!(why.contains("log filter"), "{why}");
        assert_eq!(control.filter(), "mainstay=debug");
    }
    tracing::debug!("third");
    control.set("off").unwrap();
    tracing::error!("fourth");
    let written = captured.lines();
    assert_eq!(written.len(), 2, "{written:?}");
    assert!(written[0].contains("second") && written[1].contains("third"));
}

#[tokio::test(start_paused = true)]
async fn a_warning_that_repeats_is_written_once_in_a_minute_and_counted() {
    let minute = Duration::from_mins(1);
    let (captured, control, _guard) = capture(LogFormat::Text, "mainstay=debug", minute);
    let shutdown = Shutdown::new();
    let stop = shutdown.clone();
    let warn = async {
        for second in 0..58_u64 {
            for name in ["a", "b"] {
                let span = tracing::error_span!("reconcile", key = %name, trace = second);
                let again = Some(Duration::from_millis(17 * second));
                let error = format!("no answer in {second}.5s");
                async { tracing::warn!(%error, ?again, tries = second, "reconcile failed") }
                    .instrument(span)
                    .await;
            }
            tracing::debug!("looking");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        for _ in 0..2 {
            tracing::error!("something else");
            tokio::time::sleep(Duration::from_secs(4)).await;
        }
        stop.trigger();
    };
    tokio::join!(control.summarise(shutdown), warn);
    let lines = captured.lines();
    let count = |words: &[&str]| {
        let all = |line: &&String| words.iter().all(|word| line.contains(word));
        lines.iter().filter(all).count()
    };
    assert_eq!(count(&["looking"]), 58, "debug is let through");
    for key in ["key=a", "key=b"] {
        let first = ["WARN", key, "no answer in 0.5s", "repeated"];
        assert_eq!(count(&first[..3]) - count(&first), 1, "{lines:#?}");
        let summary = [
            "WARN",
            key,
            "repeated 57 times in 60 s: reconcile failed error=no answer in 0.5s",
        ];
        assert_eq!(count(&summary), 1, "{lines:#?}");
    }
    assert_eq!(count(&["ERROR", "something else"]), 2, "with its summary");
    assert_eq!(
        count(&["ERROR", "repeated once in 8 s: something else"]),
        1,
        "at the end: {lines:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn another_error_of_the_same_object_is_news() {
    let (captured, _control, _guard) = capture(LogFormat::Text, "info", Duration::from_mins(1));
    for error in ["refused", "forbidden", "refused"] {
        tracing::warn!(error, pod = "a", "fails");
    }
    tracing::warn!(error = "refused", pod = "b", "fails");
    let lines = captured.lines().len();
    assert_eq!(lines, 3, "refused, forbidden, and the other pod");
}

mod requests {
    use bytes::Bytes;
    use http::Request;
    use http_body_util::Full;

    use super::*;

    async fn ask(
        control: &LogControl,
        peer: &str,
        request: http::request::Builder,
        body: &str,
    ) -> (u16, String) {
        let request = request
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        let (status, words) = answer(Some(control.clone()), peer.parse().unwrap(), request).await;
        (status.as_u16(), words)
    }

    #[tokio::test]
    async fn only_who_is_in_the_pod_reads_and_changes_the_filter() {
        let (_captured, control, _guard) = capture(LogFormat::Text, "info", Duration::ZERO);
        let put = || Request::put("/debug/log");
        let loud = "mainstay=trace\n";
        for peer in ["10.0.0.7", "::ffff:10.0.0.7", "fe80::1"] {
            assert_eq!(ask(&control, peer, put(), loud).await.0, 403, "{peer}");
        }
        let passed_on = put().header("X-Forwarded-For", "10.0.0.7");
        assert_eq!(ask(&control, "127.0.0.1", passed_on, loud).await.0, 403);
        assert_eq!(control.filter(), "info");
        let here = "::ffff:127.0.0.1";
        assert_eq!(
            ask(&control, here, put(), loud).await,
            (200, loud.to_owned())
        );
        let read = ask(&control, "::1", Request::get("/debug/log"), "").await;
        assert_eq!(read, (200, loud.to_owned()));
        for bad in ["mainstay=loud", "", &"a".repeat(5000)] {
            assert_eq!(ask(&control, here, put(), bad).await.0, 400, "{bad}");
        }
        assert_eq!(
            ask(&control, here, Request::post("/debug/log"), loud)
                .await
                .0,
            405
        );
        assert_eq!(control.filter(), "mainstay=trace");
    }
}
