//! What only the model can show: cuts, crashes at a chosen point, many seeds.

use std::{collections::BTreeSet, future::Future, time::Duration};

use mainstay::{
    instance::{Command, InstancePhase},
    mysql::ThreadState,
    sandbox::{InstanceSpec, ModelledInstance, Mysqls, Pace, Volume, Written},
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    harness::{TOKEN, until},
    history::{
        Modelled,
        Op::{self, *},
        World as _, Wrote, run,
    },
};

/// Two instances, 0 the writable primary that waits for an acknowledgement of 1.
const TWO: &[Op] = &[
    Start(0),
    Start(1),
    Follow(1, 0),
    Promote(0, 1),
    Open(0),
    Insert(0, 1),
    CatchUp(1, 0),
];

fn simulate<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future)
}

async fn two(seed: u64) -> Modelled {
    let mut world = Modelled::new(seed);
    run(&mut world, TWO).await;
    world
}

async fn receiver(world: &Modelled, number: u8) -> ThreadState {
    let server = world.status(number).await.unwrap().server.unwrap();
    server.replication.unwrap().receiver.state
}

#[test]
fn what_a_cut_holds_up_comes_once_it_is_healed() {
    simulate(async {
        let world = two(1).await;
        world.mysqls.cut("t-0", "t-1");
        assert_eq!(world.mysqls.writable(), Vec::<String>::new());
        let write = world.insert(0, 2);
        sleep(Duration::from_secs(5)).await;
        assert!(!write.is_finished(), "nobody could acknowledge it");
        assert_eq!(
            receiver(&world, 1).await,
            ThreadState::On,
            "not noticed yet"
        );
        world.mysqls.heal("t-0", "t-1");
        assert_eq!(write.await.unwrap(), Wrote::Acknowledged);
        assert_eq!(world.mysqls.writable(), ["t-0"]);
    });
}

#[test]
fn a_receiver_notices_a_long_cut_and_connects_anew() {
    simulate(async {
        let world = two(2).await;
        world.mysqls.cut("t-0", "t-1");
        let write = world.insert(0, 2);
        sleep(Duration::from_secs(15)).await;
        assert_eq!(receiver(&world, 1).await, ThreadState::Connecting);
        let server = world.status(1).await.unwrap().server.unwrap();
        assert!(server.replication.unwrap().source_silent_ms > 14_000);
        world.mysqls.heal("t-0", "t-1");
        assert_eq!(write.await.unwrap(), Wrote::Acknowledged);
        assert_eq!(receiver(&world, 1).await, ThreadState::On);
    });
}

#[test]
fn what_is_not_in_the_binary_log_is_gone_and_what_is_survives() {
    simulate(async {
        let world = two(3).await;
        world
            .mysqls
            .slow("t-0", Duration::from_secs(5), Duration::ZERO);
        for (row, crash_after, survives) in [(2, 1, false), (3, 6, true)] {
            world.command(1, 1, &Command::StopReceiver).await.unwrap();
            let write = world.insert(0, row);
            sleep(Duration::from_secs(crash_after)).await;
            world.kill_mysqld(0);
            assert_eq!(write.await.unwrap(), Wrote::Lost);
            assert_eq!(!world.mysqls.holders(row).is_empty(), survives);
            until("it recovers", || async {
                let server = world.status(0).await?.server?;
                server.super_read_only.then_some(())
            })
            .await;
            assert_eq!(world.rows(0).await.contains(&row), survives);
            world.promote(0, 1).await;
        }
        assert_eq!(world.mysqls.lost(), Vec::<u64>::new(), "nobody was told OK");
    });
}

#[test]
fn an_acknowledged_row_is_lost_with_its_last_volume() {
    simulate(async {
        let mut world = two(4).await;
        let volumes = world.mysqls.holders(1);
        assert_eq!(volumes.len(), 2);
        for number in [0, 1] {
            assert_eq!(world.mysqls.lost(), Vec::<u64>::new());
            world.kill(number);
            volumes[usize::from(number)].erase();
        }
        assert_eq!(world.mysqls.lost(), [1]);
    });
}

#[test]
fn a_shutdown_answers_what_waits_or_does_not() {
    let answers = |seed| {
        simulate(async move {
            let world = two(seed).await;
            world.command(1, 1, &Command::StopReceiver).await.unwrap();
            let write = world.insert(0, 2);
            sleep(Duration::from_secs(1)).await;
            world.mysqls.terminate("t-0");
            write.await.unwrap()
        })
    };
    let seen: BTreeSet<_> = (0..20).map(|seed| answers(seed).to_string()).collect();
    let both = [Wrote::Acknowledged, Wrote::Lost].map(|it| it.to_string());
    assert_eq!(seen, BTreeSet::from(both));
}

#[test]
fn a_clone_that_fails_late_leaves_an_empty_server() {
    simulate(async {
        let second = Duration::from_secs(1);
        let pace = Pace {
            clone: second..=second,
            ..Pace::default()
        };
        let mut world = Modelled::of(Mysqls::with_pace(5, pace));
        run(&mut world, TWO).await;
        world.command(1, 1, &clone_of("t-0")).await.unwrap();
        sleep(second + second / 2).await;
        world.kill(0);
        let given_up = until("given up", || async {
            let status = world.status(1).await?;
            (status.phase == InstancePhase::Running).then_some(status)
        })
        .await;
        assert!(given_up.message.contains("clone failed"), "{given_up:?}");
        let server = given_up.server.unwrap();
        assert_eq!((server.super_read_only, &*server.gtid_executed), (true, ""));
        assert_eq!(world.mysqls.holders(1).len(), 1, "the donor's volume");
    });
}

fn clone_of(host: &str) -> Command {
    Command::Clone(mainstay::instance::Follow {
        source_host: host.to_owned(),
        acknowledge: true,
    })
}

#[test]
fn a_volume_serves_one_server_at_a_time() {
    simulate(async {
        let mysqls = Mysqls::new(6);
        let volume = Volume::new(&mysqls);
        let start = |name: &str| {
            ModelledInstance::start(InstanceSpec {
                name: name.to_owned(),
                pod_uid: name.to_owned(),
                host: "t-0".to_owned(),
                server_id: 1000,
                token: TOKEN.to_owned(),
                config: String::new(),
                volume: volume.clone(),
            })
        };
        let ready = |instance: ModelledInstance| async move {
            until("ready", || async { instance.probe("/readyz").ok() }).await;
        };
        let first = start("first");
        ready(first.clone()).await;
        let second = start("second");
        until("the second is refused", || async {
            let why = second.probe("/readyz").err()?;
            why.contains("ibdata1").then_some(())
        })
        .await;
        assert_eq!(second.probe("/livez"), Ok(()));
        assert_eq!(mysqls.write("t-0", 1).await, Written::ReadOnly);
        first.kill();
        assert_eq!(first.ended().await, 137);
        ready(second.clone()).await;
        second.terminate();
        assert_eq!(second.ended().await, 0);
        assert_eq!(mysqls.write("t-0", 1).await, Written::Unreachable);
    });
}

#[test]
fn a_configuration_that_mysqld_does_not_know_is_waited_out() {
    simulate(async {
        let mysqls = Mysqls::new(7);
        let instance = ModelledInstance::start(InstanceSpec {
            name: "t-0".to_owned(),
            pod_uid: "uid".to_owned(),
            host: "t-0".to_owned(),
            server_id: 1000,
            token: TOKEN.to_owned(),
            config: "[mysqld]\ninnodb_log_file_size = 1G\n".to_owned(),
            volume: Volume::new(&mysqls),
        });
        sleep(Duration::from_mins(1)).await;
        let why = instance.probe("/readyz").unwrap_err();
        assert!(
            why.contains("unknown variable 'innodb_log_file_size=1G'"),
            "{why}"
        );
        instance.set_config("[mysqld]\n");
        let heals = until("ready", || async { instance.probe("/readyz").ok() });
        timeout(Duration::from_secs(10), heals).await.unwrap();
    });
}

#[test]
fn a_seed_decides_everything() {
    let times = |seed| {
        simulate(async move {
            let began = Instant::now();
            let world = two(seed).await;
            for row in 2..50 {
                assert_eq!(world.insert(0, row).await.unwrap(), Wrote::Acknowledged);
            }
            let acknowledged = world.mysqls.acknowledged().into_values();
            let times = acknowledged.map(|it| (it.gtid.to_string(), it.at - began));
            times.collect::<Vec<_>>()
        })
    };
    assert_eq!(times(8), times(8));
    assert_ne!(times(8), times(9));
}
