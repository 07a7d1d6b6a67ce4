//! A demo from its start to its end.

use std::io::{self, Write as _};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::DemoOptions;
use super::act::Actor;
use super::error::DemoError;
use super::folder::{Folder, create_private};
use super::keys::{Pressed, pressed};
use super::play::{Stage as _, play};
use super::script::{Script, parse, tour};
use super::start::{Demo, start};
use super::summary::Summary;
use super::text::count;
use super::view::View;
use crate::runtime::{Shutdown, log_to_file};

/// Between two looks at everything.
const TICK: Duration = Duration::from_millis(100);
/// Between two looks for acknowledged rows.
const LOOK_FOR_LOST: Duration = Duration::from_secs(5);
/// For the last look for them, when a person quits.
const LAST_LOOK: Duration = Duration::from_secs(2);
/// How long parts may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Runs a demo until it is told to end, or (with `once`) until its script has. Whether all held that
/// must: no acknowledged row is lost, and no step of a script failed.
///
/// # Errors
/// [`DemoError`] where it can't start, or a part of it ended.
pub async fn run(options: DemoOptions) -> Result<bool, DemoError> {
    let script = script(&options)?;
    let folder = Folder::make(options.dir.as_deref(), options.keep)?;
    let log = folder.path().join("demo.log");
    log_to_file(
        create_private(&log).map_err(DemoError::file(&log))?,
        &options.log,
    );
    let stop = stop_on_signals().map_err(DemoError::Signals)?;
    let performed = perform(&options, script, &folder, &stop).await;
    if folder.is_kept() {
        say(&format!("kept: {}", folder.path().display()));
    }
    performed
}

fn script(options: &DemoOptions) -> Result<Option<Script>, DemoError> {
    match &options.script {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(DemoError::file(path))?;
            Ok(Some(parse(&path.to_string_lossy(), &text)?))
        }
        None => Ok(options.once.then(tour)),
    }
}

/// How a demo ended.
enum End {
    /// By the end of its script.
    Script(Summary),
    /// By a person or a signal; with the summary of the script, if that had ended.
    Quit(Option<Summary>),
}

async fn perform(
    options: &DemoOptions,
    script: Option<Script>,
    folder: &Folder,
    stop: &Shutdown,
) -> Result<bool, DemoError> {
    // A terminal that can't be used is found before anything runs.
    let mut view = View::open(options.once).map_err(DemoError::Terminal)?;
    let demo = tokio::select! {
        biased;
        () = stop.triggered() => return Ok(!options.once),
        demo = start(options, folder, stop) => demo?,
    };
    let mut demo = demo;
    let end = watch(options, script, &mut demo, &mut view, stop).await;
    drop(view); // the terminal is the person's again; what follows stays to be read
    let held = match &end {
        Ok(End::Script(summary)) => {
            say(&format!("\n{summary}"));
            summary.held()
        }
        Ok(End::Quit(summary)) => {
            if let Some(summary) = summary {
                say(&format!("\n{summary}"));
            }
            let interrupted = options.once;
            let whole = last_look(&demo).await;
            whole && !interrupted && summary.as_ref().is_none_or(Summary::held)
        }
        Err(_) => false,
    };
    stop.trigger();
    demo.finish().await;
    end.map(|_| held)
}

/// Shows, plays and obeys, until there is an end.
async fn watch(
    options: &DemoOptions,
    script: Option<Script>,
    demo: &mut Demo,
    view: &mut View,
    stop: &Shutdown,
) -> Result<End, DemoError> {
    let actor = Actor(demo.world.clone());
    let mut player = script.map(|script| {
        let actor = actor.clone();
        tokio::spawn(async move { play(&script, &actor).await })
    });
    let mut summary_so_far = None;
    // A person who only watches is to see writes; a script says when.
    let mut begins = player.is_none();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let looks = tokio::spawn({
        let world = demo.world.clone();
        async move {
            loop {
                tokio::time::sleep(LOOK_FOR_LOST).await;
                world.look_for_lost().await;
            }
        }
    });
    let end = loop {
        tokio::select! {
            biased;
            () = stop.triggered() => break Ok(End::Quit(summary_so_far)),
            part = demo.ended() => break Err(DemoError::Ended(part)),
            summary = ended(&mut player) => {
                player = None;
                let Some(summary) = summary else {
                    break Err(DemoError::Ended("the script"));
                };
                view.show(&demo.world.snapshot()).map_err(DemoError::Terminal)?;
                if options.once {
                    break Ok(End::Script(summary));
                }
                demo.world.say(match &summary.failure {
                    Some(failure) => failure.clone(),
                    None => "the script has ended".to_owned(),
                });
                summary_so_far = Some(summary);
            }
            key = view.key() => match pressed(key, &demo.world.snapshot()) {
                Some(Pressed::Quit) => break Ok(End::Quit(summary_so_far)),
                Some(Pressed::Do(action)) => {
                    let actor = actor.clone();
                    tokio::spawn(async move { actor.act(&action).await });
                }
                Some(Pressed::Look) => view.show(&demo.world.snapshot()).map_err(DemoError::Terminal)?,
                None => {}
            },
            _ = ticks.tick() => {
                let snapshot = demo.world.snapshot();
                if begins && snapshot.not_ready(None).is_none() {
                    begins = false;
                    demo.world.writer.switch(true);
                }
                view.show(&snapshot).map_err(DemoError::Terminal)?;
            }
        }
    };
    looks.abort();
    if let Some(player) = player {
        player.abort();
    }
    end
}

/// The summary of a script that is played; never where none is. `None` where it panicked.
async fn ended(player: &mut Option<JoinHandle<Summary>>) -> Option<Summary> {
    match player {
        Some(player) => player.await.ok(),
        None => std::future::pending().await,
    }
}

/// Whether the primary has every acknowledged row, as far as it can be asked.
async fn last_look(demo: &Demo) -> bool {
    let world = &demo.world;
    let asked = timeout(LAST_LOOK, world.look_for_lost()).await.is_ok();
    let rates = world.snapshot().rates;
    if rates.acknowledged == 0 {
        return true;
    }
    let lost = match rates.lost {
        Some(lost) if asked => format!("lost {}", count(lost)),
        _ => "the primary could not be asked for them".to_owned(),
    };
    say(&format!(
        "acknowledged rows {}, {lost}",
        count(rates.acknowledged)
    ));
    rates.lost.is_none_or(|lost| lost == 0)
}

impl Demo {
    /// The first part that ended although it must live as long as the demo. Cancel-safe.
    async fn ended(&mut self) -> &'static str {
        let tasks = self.tasks.iter_mut();
        let tasks = tasks.map(|(name, task)| {
            Box::pin(async move {
                let _ = task.await;
                *name
            })
        });
        futures_util::future::select_all(tasks).await.0
    }

    /// Waits until all parts have stopped, which they were told to.
    async fn finish(self) {
        let stopped = async {
            for (_, task) in self.tasks {
                let _ = task.await;
            }
            for operator in &self.world.operators {
                operator.ended().await;
            }
            if let Some(processes) = &self.processes {
                // Their data goes with the folder, or is recovered: nothing is gained by waiting.
                processes.stop(Duration::ZERO).await;
            }
        };
        if timeout(STOP_WITHIN, stopped).await.is_err() {
            tracing::warn!("not everything stopped in time");
        }
    }
}

/// Triggered by SIGINT, SIGTERM or SIGHUP; a second one exits at once.
fn stop_on_signals() -> io::Result<Shutdown> {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let mut signals: Vec<Signal> = kinds.into_iter().map(signal).collect::<Result<_, _>>()?;
    let stop = Shutdown::new();
    let trigger = stop.clone();
    tokio::spawn(async move {
        loop {
            let any = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
            futures_util::future::select_all(any).await;
            if trigger.is_triggered() {
                // The operators end with the pipe that they hold, the terminal was given back.
                std::process::exit(1);
            }
            trigger.trigger();
        }
    });
    Ok(stop)
}

/// Prints a line. Nobody may be reading any more.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
