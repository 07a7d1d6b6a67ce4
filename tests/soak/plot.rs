//! What was measured, as a picture (SVG). Pure.

use super::reading::{MEASURES, Measure, Sample, troubles};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
/// Of one measure.
const HEIGHT: f64 = 130.0;
const GAP: f64 = 34.0;
/// Points of a line: what more samples say is drawn as the highest of each.
const POINTS: usize = 450;
const COLOURS: [&str; 3] = ["#0b6e99", "#c2571a", "#4c8c2b"];

/// Draws a line a replica for each measure, with troubles in grey.
pub(crate) fn draw(samples: &[Sample], title: &str) -> String {
    let end = samples.last().map_or(1.0, |sample| sample.at.max(1.0));
    let total = 50.0 + (HEIGHT + GAP) * MEASURES.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {total}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{total}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"13\">{title}</text>\n"
    );
    for (nth, measure) in MEASURES.iter().enumerate() {
        let top = 44.0 + (HEIGHT + GAP) * nth as f64;
        panel(&mut svg, samples, measure, top, end);
    }
    svg.push_str("</svg>\n");
    svg
}

fn across(at: f64, end: f64) -> f64 {
    LEFT + at / end * (WIDTH - LEFT - 10.0)
}

fn panel(svg: &mut String, samples: &[Sample], measure: &Measure, top: f64, end: f64) {
    let readings = samples.iter().flat_map(|sample| &sample.replicas).flatten();
    let most = readings.map(measure.of).fold(1.0, f64::max) * 1.1;
    let bottom = top + HEIGHT;
    for (_, from, to) in troubles(samples) {
        let (x, width) = (across(from, end), across(to, end) - across(from, end));
        svg.push_str(&format!(
            "<rect x=\"{x:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{HEIGHT}\" fill=\"#eee\"/>\n"
        ));
    }
    svg.push_str(&format!(
        "<path d=\"M{LEFT} {top}V{bottom}H{}\" fill=\"none\" stroke=\"#888\"/>\n\
         <text x=\"{LEFT}\" y=\"{}\">{}</text>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{most:.0}</text>\n\
         <text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\n",
        across(end, end),
        top - 6.0,
        measure.name,
        LEFT - 5.0,
        top + 9.0,
        LEFT - 5.0,
    ));
    for nth in 0..6 {
        let at = end * f64::from(nth + 1) / 6.0;
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} min</text>\n",
            across(at, end),
            bottom + 13.0,
            at / 60.0
        ));
    }
    let replicas = samples.first().map_or(0, |sample| sample.replicas.len());
    for replica in 0..replicas {
        let d = line(samples, measure, replica, |at, value| {
            (across(at, end), bottom - value / most * HEIGHT)
        });
        let colour = COLOURS[replica % COLOURS.len()];
        svg.push_str(&format!(
            "<path d=\"{d}\" fill=\"none\" stroke=\"{colour}\"><title>replica {}</title></path>\n",
            replica + 1
        ));
    }
}

/// A replica's line, broken where it did not answer.
fn line(
    samples: &[Sample],
    measure: &Measure,
    replica: usize,
    place: impl Fn(f64, f64) -> (f64, f64),
) -> String {
    let (mut d, mut pen) = (String::new(), 'M');
    for chunk in samples.chunks(samples.len().div_ceil(POINTS).max(1)) {
        let readings = chunk.iter().filter_map(|it| it.replicas[replica].as_ref());
        let Some(value) = readings.map(measure.of).reduce(f64::max) else {
            pen = 'M';
            continue;
        };
        let (x, y) = place(chunk[0].at, value);
        d.push_str(&format!("{pen}{x:.1} {y:.1}"));
        pen = 'L';
    }
    d
}

#[cfg(test)]
mod tests {
    use super::super::reading::Reading;
    use super::*;

    fn sample(at: f64, trouble: Option<&'static str>, fds: Option<f64>) -> Sample {
        let reading = |fds| Reading {
            fds,
            ..Reading::default()
        };
        Sample {
            at,
            trouble,
            replicas: vec![fds.map(reading)],
        }
    }

    #[test]
    fn a_line_breaks_where_nobody_answers_and_troubles_are_grey() {
        let samples = [
            sample(0.0, None, Some(10.0)),
            sample(2.0, Some("a"), Some(20.0)),
            sample(4.0, Some("a"), None),
            sample(6.0, Some("b"), Some(20.0)),
            sample(8.0, None, Some(10.0)),
        ];
        let d = line(&samples, &MEASURES[1], 0, |at, value| (at, value));
        assert_eq!(d, "M0.0 10.0L2.0 20.0M6.0 20.0L8.0 10.0");
        assert_eq!(troubles(&samples), [("a", 2.0, 4.0), ("b", 6.0, 6.0)]);
        let svg = draw(&samples, "a title");
        assert_eq!(svg.matches("#eee").count(), 2 * MEASURES.len());
        assert!(svg.contains("a title") && svg.ends_with("</svg>\n"));
    }
}
