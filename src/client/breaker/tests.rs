use super::*;
use crate::client::testing::{FakeServer, Reply};
use crate::client::{Client, Error, POD, RawRequest};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

async fn fail(breaker: &Breaker) {
    breaker.admit().await.unwrap().judge(Verdict::Unconnected);
}

async fn opened() -> Arc<Breaker> {
    let breaker = Arc::new(Breaker::new(BreakerLimits::DEFAULT, |pause| pause));
    for _ in 0..5 {
        fail(&breaker).await;
    }
    breaker
}

#[tokio::test(start_paused = true)]
async fn open_refuses_at_once_and_says_until_when() {
    let breaker = opened().await;
    assert_eq!(breaker.admit().await.err(), Some(Open));
    let mut watch = breaker.watch();
    assert_eq!(watch.current(), BreakerState::Open);
    assert_eq!(watch.pause(), Some(Duration::from_secs(1)));
    let start = Instant::now();
    let state = watch.changed_from(BreakerState::Open).await;
    assert_eq!(
        state,
        BreakerState::HalfOpen,
        "by time alone: somebody has to try"
    );
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn waiters_of_the_ramp_go_out_as_it_grows_and_are_refused_when_it_opens_again() {
    let breaker = opened().await;
    breaker.watch().not_open().await;
    let mut probe = breaker.admit().await.unwrap();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let breaker = breaker.clone();
            tokio::spawn(async move { breaker.admit().await.map(|mut p| p.judge(Verdict::Good)) })
        })
        .collect();
    tokio::task::yield_now().await;
    probe.judge(Verdict::Good);
    drop(probe);
    for waiter in waiting {
        waiter.await.unwrap().unwrap();
    }

    let breaker = opened().await;
    breaker.watch().not_open().await;
    let mut probe = breaker.admit().await.unwrap();
    let waiter = tokio::spawn({
        let breaker = breaker.clone();
        async move { breaker.admit().await.map(drop) }
    });
    tokio::task::yield_now().await;
    probe.judge(Verdict::Bad);
    drop(probe);
    assert_eq!(waiter.await.unwrap(), Err(Open));
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_cancelled_holds_nobody_up() {
    let breaker = opened().await;
    breaker.watch().not_open().await;
    let probe = breaker.admit().await.unwrap();
    let waiter = tokio::spawn({
        let breaker = breaker.clone();
        async move { breaker.admit().await.map(drop) }
    });
    tokio::task::yield_now().await;
    drop(probe);
    waiter.await.unwrap().unwrap();
}

/// A server whose answer follows a switch, and a client that does not retry on it.
struct Scene {
    server: FakeServer,
    client: Client,
    status: Arc<AtomicU16>,
}

impl Scene {
    fn new() -> Self {
        let status = Arc::new(AtomicU16::new(200));
        let now = Arc::clone(&status);
        let server = FakeServer::new(move |_| match now.load(Ordering::SeqCst) {
            0 => Reply::Hang,
            status => Reply::status(status, "{}"),
        });
        let client = server.client();
        Self {
            server,
            client,
            status,
        }
    }

    fn answer(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// A POST: nothing repeats it.
    async fn write(&self) -> Result<Value, Error> {
        self.client.create(POD, Some("ns"), &json!({})).await
    }

    fn state(&self) -> BreakerState {
        self.client.breaker().unwrap().current()
    }
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_left_alone_then_tried_then_used_again() {
    let scene = Scene::new();
    for status in [503, 429, 500, 504] {
        scene.answer(status);
        for _ in 0..5 {
            assert!(scene.write().await.is_err());
        }
    }
    let sent = scene.server.requests().len();
    assert_eq!((sent, scene.state()), (20, BreakerState::Open));
    for _ in 0..100 {
        let error = scene.write().await.unwrap_err();
        assert!(matches!(error, Error::BreakerOpen { .. }), "{error}");
        assert!(error.is_transient());
    }
    assert_eq!(
        scene.server.requests().len(),
        sent,
        "nothing is sent while open"
    );

    let mut watch = scene.client.breaker().unwrap();
    watch.not_open().await;
    assert!(scene.write().await.is_err(), "still ill: one probe");
    assert_eq!(scene.server.requests().len(), sent + 1);
    scene.answer(200);
    watch.not_open().await;
    for _ in 0..63 {
        scene.write().await.unwrap();
    }
    assert_eq!(scene.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn what_a_healthy_server_refuses_never_opens_it() {
    let scene = Scene::new();
    for status in [400, 401, 403, 404, 409, 410, 413, 422] {
        scene.answer(status);
        for _ in 0..20 {
            assert!(scene.write().await.is_err());
        }
    }
    assert_eq!(scene.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_opens_it_and_one_that_refuses_connections_sooner() {
    let scene = Scene::new();
    scene.answer(0);
    let calls = (0..20).map(|_| scene.write());
    let ended = futures_util::future::join_all(calls).await;
    assert!(
        ended
            .iter()
            .all(|end| matches!(end, Err(Error::Timeout { .. })))
    );
    assert_eq!(scene.state(), BreakerState::Open);

    let scene = Scene::new();
    scene.server.refuse(usize::MAX);
    let mut watch = scene.client.breaker().unwrap();
    tokio::select! {
        refused = scene.write() => panic!("{refused:?} before the breaker opened"),
        state = watch.changed_from(BreakerState::Closed) => assert_eq!(state, BreakerState::Open),
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_behind_the_proxy_that_is_down_says_nothing_of_the_server() {
    let scene = Scene::new();
    scene.answer(503);
    for _ in 0..40 {
        let request = RawRequest {
            method: http::Method::GET,
            path_and_query: "/api/v1/namespaces/ns/pods/https:demo-0:8443/proxy/v1/status"
                .to_owned(),
            headers: Vec::new(),
            body: bytes::Bytes::new(),
            deadline: None,
        };
        assert_eq!(scene.client.raw(request).await.unwrap().status, 503);
    }
    assert_eq!(scene.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_election_lane_is_not_behind_it() {
    let scene = Scene::new();
    scene.answer(503);
    for _ in 0..20 {
        assert!(scene.write().await.is_err());
    }
    assert_eq!(scene.state(), BreakerState::Open);
    scene.answer(200);
    let lane = scene.client.election_lane();
    assert!(lane.breaker().is_none());
    let _: Value = lane.get(POD, Some("ns"), "a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_the_election_lane_ends_a_pause_after_silence_only() {
    let server = FakeServer::with_tls(&["fake"], &["h2"], |_| Reply::json("{}"));
    let client = server.client();
    let lane = client.election_lane();
    let breaker = &client.lane.limits.as_ref().unwrap().breaker;
    let read = || lane.get::<Value>(POD, Some("ns"), "a");
    read().await.unwrap();
    for (silence, state) in [(false, BreakerState::Open), (true, BreakerState::HalfOpen)] {
        if silence {
            tokio::time::advance(Duration::from_mins(1)).await;
            server.freeze();
            assert!(matches!(read().await, Err(Error::Timeout { .. })));
        }
        for _ in 0..5 {
            fail(breaker).await;
            breaker.watch().not_open().await;
        }
        fail(breaker).await;
        assert_eq!(breaker.watch().current(), BreakerState::Open);
        read().await.unwrap();
        assert_eq!(breaker.watch().current(), state, "silence: {silence}");
    }
}

#[tokio::test(start_paused = true)]
async fn k48610_a_server_that_answers_429_gets_half_the_rate() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let guard = metrics::set_default_local_recorder(&recorder);
    let scene = Scene::new();
    scene.answer(429);
    assert!(scene.write().await.is_err());
    assert!(
        recorder
            .handle()
            .render()
            .contains("mainstay_limiter_rate 25")
    );
    scene.answer(200);
    for _ in 0..2000 {
        scene.write().await.unwrap();
    }
    let rendered = recorder.handle().render();
    assert!(rendered.contains("mainstay_limiter_rate 50"), "{rendered}");
    assert!(rendered.contains("mainstay_breaker_state 0"), "{rendered}");
    drop(guard);
}
