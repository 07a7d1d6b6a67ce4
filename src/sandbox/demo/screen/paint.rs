//! Lines to what a terminal understands.

use std::fmt::Write as _;

use super::{Line, Style};

/// Begin and end of a frame that is shown at once (synchronized output; ignored where unknown).
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

/// Escape codes that turn a screen that shows `before` into one that shows `after`. Only lines that
/// changed are written. Without `colour` there is emphasis, but no colour (<https://no-color.org>).
#[must_use]
pub(crate) fn paint(before: &[Line], after: &[Line], colour: bool) -> String {
    let mut out = String::from(BEGIN);
    let rows = before.len().max(after.len());
    let nothing = Line::default();
    for row in 0..rows {
        let line = after.get(row).unwrap_or(&nothing);
        if before.get(row) == Some(line) {
            continue;
        }
        // Rows are counted from 1; the rest of the line is erased before it is written.
        let _ = write!(out, "\x1b[{};1H\x1b[0m\x1b[2K", row + 1);
        for span in &line.spans {
            let _ = write!(
                out,
                "\x1b[{}m{}\x1b[0m",
                code(span.style, colour),
                span.text
            );
        }
    }
    out.push_str(END);
    out
}

/// The Select Graphic Rendition of a style.
fn code(style: Style, colour: bool) -> &'static str {
    match (style, colour) {
        (Style::Plain, _) | (Style::Good | Style::Warn, false) => "0",
        (Style::Strong | Style::Key, false) | (Style::Strong, true) => "1",
        (Style::Faint, _) => "2",
        (Style::Good, true) => "32",
        (Style::Warn, true) => "33",
        (Style::Bad, true) => "1;31",
        (Style::Key, true) => "36",
        (Style::Bad, false) => "7",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, style: Style) -> Line {
        Line::default().with(text, style)
    }

    #[test]
    fn only_what_changed_is_written() {
        let before = [
            line("a", Style::Plain),
            line("b", Style::Plain),
            line("c", Style::Plain),
        ];
        let after = [line("a", Style::Plain), line("x", Style::Good)];
        assert_eq!(
            paint(&before, &after, true),
            "\x1b[?2026h\x1b[2;1H\x1b[0m\x1b[2K\x1b[32mx\x1b[0m\x1b[3;1H\x1b[0m\x1b[2K\x1b[?2026l"
        );
    }

    #[test]
    fn without_colour_there_is_none() {
        let styles = [
            Style::Plain,
            Style::Strong,
            Style::Faint,
            Style::Good,
            Style::Warn,
            Style::Bad,
            Style::Key,
        ];
        let lines: Vec<_> = styles.iter().map(|style| line("x", *style)).collect();
        let painted = paint(&[], &lines, false);
        for colour in 30..=49 {
            assert!(!painted.contains(&format!("{colour}m")), "{painted:?}");
        }
    }
}
