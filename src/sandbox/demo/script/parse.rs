//! Text of a script to its steps.

use std::fmt;
use std::time::Duration;

use super::{Action, Line, Pod, Script, Step};

/// How long `wait ready` waits where the line does not say.
const READY_WITHIN: Duration = Duration::from_secs(90);
/// Instances that a MySQLCluster may have.
const INSTANCES: std::ops::RangeInclusive<u32> = 1..=9;

/// A line that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ScriptError {
    /// The file.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.problem)
    }
}

/// Parses a script: a step a line, `#` begins a comment. `file` is what errors call it.
///
/// # Errors
/// The first line that is not understood.
pub(crate) fn parse(file: &str, text: &str) -> Result<Script, ScriptError> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = words.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let step = step(&words).map_err(|problem| ScriptError {
            file: file.to_owned(),
            line: index + 1,
            problem,
        })?;
        lines.push(Line {
            number: index + 1,
            text: words.join(" "),
            step,
        });
    }
    Ok(Script {
        name: file.to_owned(),
        lines,
    })
}

fn step(words: &[&str]) -> Result<Step, String> {
    let act = |action| Ok(Step::Act(action));
    match words {
        ["wait", "ready", rest @ ..] => wait_ready(rest),
        ["sleep", time] => Ok(Step::Sleep(duration(time)?)),
        ["expect", "lost", rows] => Ok(Step::ExpectLost(number(rows)?)),
        ["expect", "primary", "moved"] => Ok(Step::ExpectMoved),
        ["expect", "pause", "under", time] => Ok(Step::ExpectPause(duration(time)?)),
        ["load", "on"] => act(Action::Load(true)),
        ["load", "off"] => act(Action::Load(false)),
        ["kill", "primary"] => act(Action::KillPrimary),
        ["kill", "leader"] => act(Action::KillLeader),
        ["delete", "pod", name] => act(Action::DeletePod(pod(name))),
        ["cut", name, time @ ..] => act(Action::Cut {
            pod: pod(name),
            heal_after: at_most_one(time)?.map(duration).transpose()?,
        }),
        ["heal"] => act(Action::Heal),
        ["slow", "api", delay, time @ ..] => act(Action::SlowApi {
            delay: duration(delay)?,
            heal_after: at_most_one(time)?.map(duration).transpose()?,
        }),
        ["scale", count] => act(Action::Scale(instances(count)?)),
        ["switchover", name @ ..] => act(Action::Switchover(
            at_most_one(name)?.map(|name| (*name).to_owned()),
        )),
        _ => Err(format!("{:?} is no step; {STEPS}", words.join(" "))),
    }
}

/// What a step can be, for who wrote something else.
const STEPS: &str = "steps are: wait ready [N] [within TIME], load on|off, kill primary|leader, \
    delete pod primary|NAME, cut primary|NAME [TIME], heal, slow api TIME [TIME], scale N, \
    switchover [NAME], sleep TIME, expect lost N, expect primary moved, expect pause under TIME";

fn wait_ready(rest: &[&str]) -> Result<Step, String> {
    let (count, within) = match rest {
        [] => (None, None),
        ["within", time] => (None, Some(time)),
        [count] => (Some(count), None),
        [count, "within", time] => (Some(count), Some(time)),
        _ => return Err("wait ready takes a number of instances and `within TIME`".to_owned()),
    };
    Ok(Step::WaitReady {
        instances: count.map(|count| instances(count)).transpose()?,
        within: within.map_or(Ok(READY_WITHIN), |time| duration(time))?,
    })
}

fn at_most_one<'a>(words: &'a [&'a str]) -> Result<Option<&'a str>, String> {
    match words {
        [] => Ok(None),
        [word] => Ok(Some(word)),
        [_, more @ ..] => Err(format!("{:?} is too much", more.join(" "))),
    }
}

fn pod(name: &str) -> Pod {
    match name {
        "primary" => Pod::Primary,
        name => Pod::Named(name.to_owned()),
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn instances(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if INSTANCES.contains(&count) => Ok(count),
        _ => Err(format!("{text:?} is no number of instances, 1 to 9")),
    }
}

/// A time such as `200ms`, `1.5s` or `2m`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time such as 200ms, 1.5s or 2m");
    let unit_at = text.find(char::is_alphabetic).ok_or_else(wrong)?;
    let (amount, unit) = text.split_at(unit_at);
    let unit = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(wrong()),
    };
    let amount: f64 = amount.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(amount * unit).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn one(line: &str) -> Step {
        let script = parse("a", line).unwrap();
        assert_eq!(script.lines.len(), 1);
        script.lines[0].step.clone()
    }

    #[test]
    fn every_step_is_understood() {
        let ready = |instances, within| Step::WaitReady { instances, within };
        let act = Step::Act;
        for (line, step) in [
            ("wait ready", ready(None, READY_WITHIN)),
            ("wait ready 3", ready(Some(3), READY_WITHIN)),
            ("wait ready 3 within 2m", ready(Some(3), 120 * S)),
            ("wait ready within 1.5s", ready(None, S * 3 / 2)),
            ("load on", act(Action::Load(true))),
            ("load off", act(Action::Load(false))),
            ("kill primary", act(Action::KillPrimary)),
            ("kill leader", act(Action::KillLeader)),
            ("delete pod primary", act(Action::DeletePod(Pod::Primary))),
            (
                "delete pod demo-1",
                act(Action::DeletePod(Pod::Named("demo-1".into()))),
            ),
            (
                "cut primary 5s",
                act(Action::Cut {
                    pod: Pod::Primary,
                    heal_after: Some(5 * S),
                }),
            ),
            ("heal", act(Action::Heal)),
            (
                "slow api 200ms 5s",
                act(Action::SlowApi {
                    delay: S / 5,
                    heal_after: Some(5 * S),
                }),
            ),
            ("scale 5", act(Action::Scale(5))),
            ("switchover", act(Action::Switchover(None))),
            (
                "switchover demo-2",
                act(Action::Switchover(Some("demo-2".into()))),
            ),
            ("sleep 2s", Step::Sleep(2 * S)),
            ("expect lost 0", Step::ExpectLost(0)),
            ("expect primary moved", Step::ExpectMoved),
            ("expect pause under 10s", Step::ExpectPause(10 * S)),
        ] {
            assert_eq!(one(line), step, "{line}");
        }
    }

    #[test]
    fn an_action_is_written_as_a_script_has_it() {
        for line in [
            "kill primary",
            "kill leader",
            "delete pod demo-1",
            "cut primary 5s",
            "cut demo-2",
            "heal",
            "slow api 200ms 5s",
            "load off",
            "scale 5",
            "switchover",
            "switchover demo-2",
        ] {
            let Step::Act(action) = one(line) else {
                panic!("{line}")
            };
            assert_eq!(action.to_string(), line);
        }
    }

    #[test]
    fn comments_and_empty_lines_count_as_lines_only() {
        let script = parse("a", "# first\n\n  scale   5 # more\r\n").unwrap();
        let expected = Line {
            number: 3,
            text: "scale 5".into(),
            step: Step::Act(Action::Scale(5)),
        };
        assert_eq!(script.lines, [expected]);
    }

    #[test]
    fn errors_name_file_line_and_what_is_wrong() {
        for (text, error) in [
            ("load on\nscale 12", "f:2: \"12\" is no number of instances"),
            ("scale", "f:1: \"scale\" is no step; steps are: wait ready"),
            ("\ncut primary soon", "f:2: \"soon\" is no time such as"),
            ("sleep -1s", "f:1: \"-1s\" is no time"),
            ("sleep 5", "f:1: \"5\" is no time"),
            ("sleep 1e400s", "f:1: \"1e400s\" is no time"),
            ("cut primary 5s 6s", "f:1: \"6s\" is too much"),
            ("wait ready 3 5s", "f:1: wait ready takes"),
            ("expect lost none", "f:1: \"none\" is no number"),
        ] {
            let told = parse("f", text).unwrap_err().to_string();
            assert!(told.starts_with(error), "{told}");
        }
    }
}
