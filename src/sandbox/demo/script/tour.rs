//! The standard tour.

use super::{Script, parse};

const TOUR: &str = include_str!("tour.demo");

/// The tour that `--once` takes: every kind of fault once, under load.
#[must_use]
pub(crate) fn tour() -> Script {
    parse("the tour", TOUR).expect("a test parses it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::demo::script::Step;

    #[test]
    fn the_tour_is_a_script_that_ends_by_counting_rows() {
        let tour = tour();
        assert_eq!(tour.lines.last().unwrap().step, Step::ExpectLost(0));
    }
}
