//! Whether what was measured stays as it is. Pure.

use super::reading::{MEASURES, Measure, Reading, Sample};

/// Parts of the time that a line of the table has.
const PARTS: usize = 6;

/// One line: a measure of one replica, or of one role.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) measure: &'static str,
    pub(crate) whose: String,
    /// Median and maximum of each sixth of the time; `None` where there was nobody.
    pub(crate) parts: Vec<Option<(f64, f64)>>,
    /// Medians of the second quarter and the last, where it rose by more than it may.
    pub(crate) rose: Option<(f64, f64)>,
}

/// All lines.
pub(crate) fn judge(samples: &[Sample]) -> Vec<Line> {
    let replicas = samples.first().map_or(0, |sample| sample.replicas.len());
    let mut lines = Vec::new();
    for measure in &MEASURES {
        if measure.by_role {
            let leaders = |_: usize, it: &Reading| it.leads;
            lines.push(line(samples, measure, "leader".into(), leaders));
            let standbys = |_: usize, it: &Reading| !it.leads;
            lines.push(line(samples, measure, "standbys".into(), standbys));
        } else {
            for number in 0..replicas {
                let whose = format!("replica {}", number + 1);
                let his = move |of: usize, _: &Reading| of == number;
                lines.push(line(samples, measure, whose, his));
            }
        }
    }
    lines
}

fn line(
    samples: &[Sample],
    measure: &Measure,
    whose: String,
    is: impl Fn(usize, &Reading) -> bool,
) -> Line {
    let values: Vec<(f64, f64)> = samples
        .iter()
        .flat_map(|sample| {
            let readings = sample.replicas.iter().enumerate();
            let readings = readings.filter_map(|(of, it)| Some((of, it.as_ref()?)));
            let of_them = readings.filter(|(of, it)| is(*of, it));
            of_them.map(|(_, it)| (sample.at, (measure.of)(it)))
        })
        .collect();
    let end = samples.last().map_or(0.0, |sample| sample.at);
    let part = |from: f64, to: f64| {
        let of = values
            .iter()
            .filter(|(at, _)| (from * end..to * end).contains(at));
        summary(of.map(|(_, value)| *value).collect())
    };
    let step = 1.0 / PARTS as f64;
    let parts = (0..PARTS).map(|nth| part(nth as f64 * step, (nth + 1) as f64 * step));
    // The first quarter is for caches that fill and pools that grow.
    let early = part(0.25, 0.5).map(|(median, _)| median);
    let late = part(0.75, 1.0).map(|(median, _)| median);
    let rose = early.zip(late).filter(|(early, late)| {
        let most = measure.rise;
        most.is_some_and(|most| late - early > most.max(early / 10.0))
    });
    Line {
        measure: measure.name,
        whose,
        parts: parts.collect(),
        rose,
    }
}

/// Median and maximum.
fn summary(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    Some((*values.get(values.len() / 2)?, *values.last()?))
}

/// The lines as a table.
pub(crate) fn table(lines: &[Line]) -> String {
    let mut text = format!("{:<18}{:<12}median/maximum of each sixth\n", "", "");
    for line in lines {
        text.push_str(&format!("{:<18}{:<12}", line.measure, line.whose));
        for part in &line.parts {
            let part = part.map_or("-".to_owned(), |(median, most)| {
                format!("{median:.0}/{most:.0}")
            });
            text.push_str(&format!("{part:>9}"));
        }
        if let Some((early, late)) = line.rose {
            text.push_str(&format!("   ROSE from {early:.1} to {late:.1}"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour of two replicas, the first of which leads in even minutes.
    fn hour(reading: impl Fn(f64, bool) -> Reading) -> Vec<Sample> {
        let sample = |second: u32| {
            let at = f64::from(second);
            let first = (second / 60).is_multiple_of(2);
            let of = |leads| {
                Some(Reading {
                    leads,
                    ..reading(at, leads)
                })
            };
            Sample {
                at,
                trouble: None,
                replicas: vec![of(first), of(!first)],
            }
        };
        (0..3600).step_by(2).map(sample).collect()
    }

    fn rising(samples: &[Sample]) -> Vec<(&'static str, String)> {
        let lines = judge(samples).into_iter();
        let rose = lines.filter(|line| line.rose.is_some());
        rose.map(|line| (line.measure, line.whose)).collect()
    }

    const MIB: f64 = 1_048_576.0;

    #[test]
    fn what_swings_around_a_level_is_flat() {
        let samples = hour(|at, leads| Reading {
            resident: (40.0 + (at / 50.0).sin()) * MIB,
            fds: if leads { 60.0 } else { 20.0 } + (at / 7.0).sin() * 5.0,
            tasks: if leads { 90.0 } else { 35.0 },
            ..Reading::default()
        });
        assert_eq!(rising(&samples), []);
    }

    #[test]
    fn what_fills_up_at_first_is_flat() {
        let samples = hour(|at, _| Reading {
            resident: (20.0 + (at / 20.0).min(30.0)) * MIB,
            ..Reading::default()
        });
        assert_eq!(rising(&samples), []);
    }

    #[test]
    fn a_leak_is_told_with_whose_it_is() {
        let samples = hour(|at, leads| Reading {
            resident: (40.0 + at / 360.0) * MIB, // 10 MiB an hour
            tasks: if leads { 50.0 + at / 100.0 } else { 40.0 },
            ..Reading::default()
        });
        let expected = [
            ("resident MiB", "replica 1".to_owned()),
            ("resident MiB", "replica 2".to_owned()),
            ("tasks", "leader".to_owned()),
        ];
        assert_eq!(rising(&samples), expected);
        let table = table(&judge(&samples));
        assert!(table.contains("ROSE from 63"), "{table}");
    }

    #[test]
    fn one_that_does_not_answer_says_nothing() {
        let mut samples = hour(|_, _| Reading::default());
        for sample in &mut samples {
            sample.replicas[1] = None;
        }
        let lines = judge(&samples);
        assert_eq!(lines[1].parts, vec![None; PARTS]);
        assert_eq!(rising(&samples), []);
    }
}
