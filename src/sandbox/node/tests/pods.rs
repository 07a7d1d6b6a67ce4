//! Single pods.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_pod_is_scheduled_started_ready_stopped_and_removed() {
    let world = World::new(2);
    world.create(POD, &instance("demo-0")).await;
    world
        .until("it is told what is missing", async || {
            let pod = world.get(POD, "demo-0").await?;
            let conditions = pod["status"]["conditions"].as_array()?.clone();
            let scheduled = conditions
                .into_iter()
                .find(|c| c["type"] == "PodScheduled")?;
            let why = scheduled["message"].as_str()?.to_owned();
            why.contains("persistentvolumeclaim \"data-demo-0\" not found")
                .then_some(())
        })
        .await;
    world.create_config().await;
    let pod = world.ready("demo-0").await;
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["spec"]["nodeName"], "node-1");
    let container = &pod["status"]["containerStatuses"][0];
    assert_eq!(
        (&container["ready"], &container["restartCount"]),
        (&json!(true), &json!(0))
    );
    let claim = world
        .get(PERSISTENT_VOLUME_CLAIM, "data-demo-0")
        .await
        .unwrap();
    assert_eq!(claim["status"]["phase"], "Bound");
    let facts = &world.node.pods()[0];
    assert_eq!(pod["status"]["podIP"], facts.ip.to_string());
    assert_eq!(facts.running, [("mysql".to_owned(), 0)]);

    let events = world.events();
    for reason in ["FailedScheduling", "Scheduled", "Started"] {
        assert!(
            events.iter().any(|event| event == reason),
            "{reason}: {events:?}"
        );
    }

    // Events that are held back come within this time.
    sleep(Duration::from_hours(1)).await;
    let rest = world.api.write_count();
    sleep(Duration::from_hours(1)).await;
    let writes = world.api.write_count() - rest;
    assert_eq!(writes, 0, "a pod at rest costs no writes");

    let begun = Instant::now();
    let options = DeleteOptions::default();
    world
        .client
        .delete(POD, NAMESPACED, "demo-0", &options)
        .await
        .unwrap();
    world
        .until("it is gone", async || {
            world.get(POD, "demo-0").await.is_none().then_some(())
        })
        .await;
    assert!(
        begun.elapsed() < Duration::from_mins(1),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(world.node.pods(), []);
    assert!(world.events().iter().any(|event| event == "Killing"));
}

#[tokio::test(start_paused = true)]
async fn a_killed_container_is_restarted_and_its_data_is_there() {
    let world = World::new(1);
    world.create_config().await;
    world.create(POD, &instance("demo-0")).await;
    world.ready("demo-0").await;
    let volume = || world.api.objects("persistentvolumes")[0]["metadata"]["name"].clone();
    let before = volume();
    assert!(world.node.kill_container(NS, "demo-0"));
    let pod = world
        .until("it is restarted", async || {
            let pod = world.get(POD, "demo-0").await?;
            let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64()?;
            (restarts == 1 && is_ready(&pod)).then_some(pod)
        })
        .await;
    let last = &pod["status"]["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(
        (&last["exitCode"], &last["reason"]),
        (&json!(137), &json!("Error"))
    );
    assert_eq!(volume(), before);
    assert!(world.node.kill_mysqld(NS, "demo-0"));
    sleep(Duration::from_secs(30)).await;
    let pod = world.ready("demo-0").await;
    assert_eq!(
        pod["status"]["containerStatuses"][0]["restartCount"], 1,
        "mysqld is the manager's"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_started_anew_takes_up_what_runs() {
    let mut world = World::new(1);
    world.create_config().await;
    world.create(POD, &instance("demo-0")).await;
    let before = world.ready("demo-0").await;
    world.stop.trigger();
    sleep(Duration::from_secs(20)).await;
    world.stop = Shutdown::new();
    world.node = Node::new(world.client.clone(), world.node.options().clone());
    world.run_node();
    world
        .until("it is found", async || {
            let pods = world.node.pods();
            (!pods.is_empty() && !pods[0].running.is_empty()).then_some(())
        })
        .await;
    sleep(Duration::from_secs(20)).await;
    let after = world.get(POD, "demo-0").await.unwrap();
    assert_eq!(after["status"], before["status"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_removed_while_no_node_was_there_is_ended() {
    let mut world = World::new(1);
    world.create_config().await;
    world.create(POD, &instance("demo-0")).await;
    world.ready("demo-0").await;
    world.stop.trigger();
    sleep(Duration::from_secs(20)).await;
    let force = DeleteOptions {
        grace_period: Some(Duration::ZERO),
        ..DeleteOptions::default()
    };
    world
        .client
        .delete(POD, NAMESPACED, "demo-0", &force)
        .await
        .unwrap();
    world.stop = Shutdown::new();
    world.node = Node::new(world.client.clone(), world.node.options().clone());
    world.run_node();
    world.create(POD, &instance("demo-0")).await;
    world.ready("demo-0").await;
    assert_eq!(world.node.pods().len(), 1);
    let Runtime::Models(models) = &world.node.options().runtime else {
        panic!()
    };
    assert_eq!(
        ContainerRuntime::pods(models).len(),
        1,
        "the former one is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_never_used_by_two_pods() {
    let world = World::new(2);
    world.create_config().await;
    world.create(POD, &instance("demo-0")).await;
    world.ready("demo-0").await;
    // It does not stop by itself.
    world.mysqls.freeze("demo-0.demo-instances.default.svc");
    let force = DeleteOptions {
        grace_period: Some(Duration::ZERO),
        ..DeleteOptions::default()
    };
    world
        .client
        .delete(POD, NAMESPACED, "demo-0", &force)
        .await
        .unwrap();
    world.create(POD, &instance("demo-0")).await;
    let mut both = false;
    world
        .until("the new one is ready", async || {
            let pods = world.node.pods();
            both |= pods.len() == 2;
            let using = |pod: &&PodFacts| pod.running.iter().any(|(name, _)| name == "mysql");
            assert!(pods.iter().filter(using).count() < 2, "{pods:?}");
            is_ready(&world.get(POD, "demo-0").await?).then_some(())
        })
        .await;
    assert!(both, "the former one was still there");
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_a_failed_node_is_restarted_when_the_node_is_back() {
    let world = World::new(1);
    world.create_config().await;
    world.create(POD, &instance("demo-0")).await;
    world.ready("demo-0").await;
    world.node.fail_node("node-1");
    assert_eq!(world.node.pods(), []);
    sleep(Duration::from_secs(20)).await;
    assert!(
        is_ready(&world.get(POD, "demo-0").await.unwrap()),
        "nobody tells"
    );
    sleep(Duration::from_mins(1)).await;
    assert!(!is_ready(&world.get(POD, "demo-0").await.unwrap()));
    assert!(!is_ready(&world.api.objects("nodes")[0]));
    world.node.restore_node("node-1");
    let pod = world.ready("demo-0").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_evicted_from_a_lost_node_and_goes_when_the_node_is_back() {
    let world = World::new(1);
    world.create_config().await;
    world.create(POD, &instance("demo-0")).await;
    world.ready("demo-0").await;
    world.node.fail_node("node-1");
    sleep(Duration::from_mins(10)).await;
    let pod = world.get(POD, "demo-0").await.unwrap();
    assert!(
        pod["metadata"]["deletionTimestamp"].is_string(),
        "nobody is there to end it"
    );
    world.node.restore_node("node-1");
    world
        .until("it is gone", async || {
            world.get(POD, "demo-0").await.is_none().then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_cut_off_is_not_reached_and_stays_ready() {
    let world = World::new(1);
    world.create_config().await;
    world.create(POD, &instance("demo-0")).await;
    world.ready("demo-0").await;
    let dial = || world.node.dial(NS, "demo-0", PORT, true);
    dial().await.unwrap();
    world.node.cut(NS, "demo-0");
    assert!(timeout(Duration::from_mins(1), dial()).await.is_err());
    assert!(is_ready(&world.get(POD, "demo-0").await.unwrap()));
    world.node.heal(NS, "demo-0");
    dial().await.unwrap();
}
