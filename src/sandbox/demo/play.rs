//! Plays a script: one step after the other, each until it is done or has failed.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::script::{Action, Line, Script, Step};
use super::snapshot::Snapshot;
use super::summary::{Copy, Summary, Trial};
use super::text::seconds;
use super::until::Until;

/// Between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(20);
/// Writes flow while the last acknowledged row is younger.
const FLOWING: Duration = Duration::from_millis(500);

/// What a script is played on.
pub(super) trait Stage: Sync {
    /// How it looks now.
    fn snapshot(&self) -> Snapshot;
    /// Does something.
    fn act(&self, action: &Action) -> impl Future<Output = Result<Acted, String>> + Send;
    /// From now on pauses are counted anew.
    fn mark(&self);
    /// The longest pause of the writes since [`mark`](Self::mark); `None` where none were written.
    fn pause(&self) -> Option<Duration>;
    /// What each instance lacks of the rows that were acknowledged.
    fn copies(&self) -> impl Future<Output = Vec<Copy>> + Send;
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Acted {
    /// What it was done to.
    pub(super) subject: String,
    /// When it is over.
    pub(super) until: Option<Until>,
}

/// Plays `script`, and looks for every acknowledged row in the end. Ends early where a step fails.
pub(super) async fn play<S: Stage>(script: &Script, stage: &S) -> Summary {
    let mut player = Player {
        stage,
        pending: Vec::new(),
        trial: None,
        summary: Summary::default(),
    };
    for line in &script.lines {
        tracing::info!(
            script = script.name,
            line = line.number,
            step = line.text,
            "step"
        );
        if let Err(why) = player.step(line).await {
            let (name, number, text) = (&script.name, line.number, &line.text);
            player.summary.failure = Some(format!("{name}:{number}: {text}: {why}"));
            break;
        }
    }
    player.end_trial();
    let mut summary = player.summary;
    summary.copies = stage.copies().await;
    let snapshot = stage.snapshot();
    summary.mysql = format!("{} {}", snapshot.cluster.version, snapshot.mysql);
    summary.acknowledged = snapshot.rates.acknowledged;
    summary
}

struct Player<'a, S> {
    stage: &'a S,
    /// What actions since the last wait are waited for by.
    pending: Vec<Until>,
    /// The last action, and when it was done.
    trial: Option<(Trial, Instant)>,
    summary: Summary,
}

impl<S: Stage> Player<'_, S> {
    async fn step(&mut self, line: &Line) -> Result<(), String> {
        match &line.step {
            Step::Act(action) => self.act(action).await,
            Step::WaitReady { instances, within } => self.wait_ready(*instances, *within).await,
            Step::Sleep(time) => {
                sleep(*time).await;
                Ok(())
            }
            Step::ExpectLost(expected) => {
                let copies = self.stage.copies().await;
                copies
                    .iter()
                    .try_for_each(|copy| expect_lost(copy, *expected))
            }
            Step::ExpectMoved => self.expect_moved(),
            Step::ExpectPause(limit) => match self.stage.pause() {
                Some(pause) if pause > *limit => {
                    Err(format!("no row was acknowledged for {}", seconds(pause)))
                }
                Some(_) => Ok(()),
                None => Err("no rows are written".to_owned()),
            },
        }
    }

    fn expect_moved(&self) -> Result<(), String> {
        let Some((trial, _)) = &self.trial else {
            return Err("nothing was done that could have moved it".to_owned());
        };
        let primary = self.stage.snapshot().cluster.primary;
        if primary == trial.before {
            return Err(format!("the primary is still {primary}"));
        }
        Ok(())
    }

    async fn act(&mut self, action: &Action) -> Result<(), String> {
        self.end_trial();
        let before = self.stage.snapshot().cluster.primary;
        self.stage.mark();
        let started = Instant::now();
        let acted = self.stage.act(action).await?;
        self.pending.extend(acted.until);
        if !matches!(action, Action::Load(_) | Action::Heal) {
            let trial = Trial {
                action: action.to_string(),
                subject: acted.subject,
                before,
                ..Trial::default()
            };
            self.trial = Some((trial, started));
        }
        Ok(())
    }

    async fn wait_ready(&mut self, instances: Option<u32>, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        loop {
            let snapshot = self.stage.snapshot();
            self.pending
                .retain(|until| until.pending(&snapshot).is_some());
            let Some(why) = self.not_ready(&snapshot, instances) else {
                self.summary.ready.get_or_insert(snapshot.age);
                if let Some((trial, started)) = &mut self.trial {
                    trial.ready.get_or_insert_with(|| started.elapsed());
                }
                return Ok(());
            };
            if Instant::now() >= deadline {
                return Err(format!("not within {}: {why}", seconds(within)));
            }
            sleep(LOOK).await;
        }
    }

    fn not_ready(&self, snapshot: &Snapshot, instances: Option<u32>) -> Option<String> {
        let pending = self
            .pending
            .iter()
            .find_map(|until| until.pending(snapshot));
        let stuck = snapshot.rates.pause.filter(|pause| *pause >= FLOWING);
        pending
            .map(|what| format!("waiting for {what}"))
            .or_else(|| snapshot.not_ready(instances))
            .or_else(|| {
                stuck.map(|pause| format!("no row was acknowledged for {}", seconds(pause)))
            })
    }

    /// The last action's part of the summary. It lasts until the next one, ready or not.
    fn end_trial(&mut self) {
        if let Some((mut trial, _)) = self.trial.take() {
            trial.pause = self.stage.pause();
            trial.after = self.stage.snapshot().cluster.primary;
            self.summary.trials.push(trial);
        }
    }
}

fn expect_lost(copy: &Copy, expected: u64) -> Result<(), String> {
    match &copy.missing {
        Ok(missing) if missing.len() == expected => Ok(()),
        Ok(missing) => Err(format!(
            "{} lacks {} rows: {missing}",
            copy.pod,
            missing.len()
        )),
        Err(why) => Err(format!("what {} lacks is not known: {why}", copy.pod)),
    }
}

#[cfg(test)]
#[path = "play_tests.rs"]
mod tests;
