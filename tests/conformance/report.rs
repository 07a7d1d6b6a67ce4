//! What is told of the comparison.

use std::collections::BTreeMap;
use std::iter::Sum;

use serde_json::Value;

use super::compare::{Difference, Listed, differences};

/// Longer values are cut where they are shown.
const SHOWN: usize = 600;

/// Numbers of answers.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    compared: usize,
    equal: usize,
    listed: usize,
    unlisted: usize,
}

impl Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, count| Self {
            compared: sum.compared + count.compared,
            equal: sum.equal + count.equal,
            listed: sum.listed + count.listed,
            unlisted: sum.unlisted + count.unlisted,
        })
    }
}

/// Collects what is compared and tells of it.
#[derive(Debug)]
pub(crate) struct Report {
    listed: Vec<Listed>,
    /// Whether every case runs, so that every listed difference must show.
    whole: bool,
    counts: BTreeMap<String, Count>,
    failures: usize,
}

impl Report {
    pub(crate) fn new(listed: Vec<Listed>, whole: bool) -> Self {
        Self {
            listed,
            whole,
            counts: BTreeMap::new(),
            failures: 0,
        }
    }

    /// Compares the answers to a case of `script`, called `name`.
    pub(crate) fn add(&mut self, script: &str, name: &str, real: &[Value], embedded: &[Value]) {
        if real.len() != embedded.len() {
            self.fail(&format!(
                "{name}: {} answers are recorded, {} are given: record again (MAINSTAY_RECORD=1)",
                real.len(),
                embedded.len()
            ));
        }
        for (real, embedded) in real.iter().zip(embedded) {
            let step = real["step"].as_str().unwrap_or_default();
            let all = differences(real, embedded);
            let unlisted: Vec<&Difference> = all
                .iter()
                .filter(|difference| !self.covered(name, step, &difference.path))
                .collect();
            let count = self.counts.entry(script.to_owned()).or_default();
            count.compared += 1;
            match (all.is_empty(), unlisted.is_empty()) {
                (true, _) => count.equal += 1,
                (false, true) => count.listed += 1,
                (false, false) => count.unlisted += 1,
            }
            if !unlisted.is_empty() {
                tell(name, step, &unlisted);
            }
        }
    }

    /// Fails where a server answers otherwise than was recorded of its version.
    pub(crate) fn stale(&mut self, name: &str, recorded: &[Value], answers: &[Value]) {
        if recorded.len() != answers.len() {
            self.fail(&format!("{name}: the recording has another number of steps: record again (MAINSTAY_RECORD=1)"));
            return;
        }
        for (recorded, answer) in recorded.iter().zip(answers) {
            for difference in differences(recorded, answer) {
                self.fail(&format!(
                    "{name}: {}: {}: recorded {}, answered {}: record again (MAINSTAY_RECORD=1)",
                    recorded["step"].as_str().unwrap_or_default(),
                    difference.path,
                    shown(difference.real.as_ref()),
                    shown(difference.embedded.as_ref()),
                ));
            }
        }
    }

    /// Fails for a case of which a real server's answers are not known.
    pub(crate) fn missing(&mut self, name: &str) {
        self.fail(&format!(
            "{name}: not recorded (MAINSTAY_RECORD=1 does, with a server)"
        ));
    }

    /// Prints the table and the sum; whether all is well.
    pub(crate) fn finish(mut self) -> bool {
        let unseen: Vec<String> = self
            .listed
            .iter()
            .filter(|listed| self.whole && !listed.shown)
            .map(|listed| {
                format!(
                    "{} / {} / {}: listed, but there is no such difference (any more)",
                    listed.case, listed.step, listed.path
                )
            })
            .collect();
        for what in unseen {
            self.fail(&what);
        }
        println!(
            "\n{:24} {:>9} {:>9} {:>9} {:>11}",
            "cases", "compared", "equal", "listed", "not listed"
        );
        for (script, count) in &self.counts {
            print_row(script, count);
        }
        let sum = self.counts.values().copied().sum::<Count>();
        print_row("all", &sum);
        println!(
            "\nconformance: {} requests compared: {} equal, {} with differences that are listed ({} rows), {} with others",
            sum.compared,
            sum.equal,
            sum.listed,
            self.listed.len(),
            sum.unlisted
        );
        sum.unlisted == 0 && self.failures == 0
    }

    fn covered(&mut self, name: &str, step: &str, path: &str) -> bool {
        // Every row that is about it has shown, not only the first.
        self.listed.iter_mut().fold(false, |covered, listed| {
            listed.covers(name, step, path) | covered
        })
    }

    fn fail(&mut self, what: &str) {
        self.failures += 1;
        println!("{what}");
    }
}

fn print_row(name: &str, count: &Count) {
    println!(
        "{name:24} {:9} {:9} {:9} {:11}",
        count.compared, count.equal, count.listed, count.unlisted
    );
}

fn tell(name: &str, step: &str, differences: &[&Difference]) {
    println!("\n{name}\n  {step}");
    for difference in differences {
        println!(
            "    {}\n      real:     {}\n      embedded: {}",
            difference.path,
            shown(difference.real.as_ref()),
            shown(difference.embedded.as_ref()),
        );
    }
}

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "nothing".to_owned();
    };
    let mut text = value.to_string();
    if text.len() > SHOWN {
        let end = (0..=SHOWN)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
