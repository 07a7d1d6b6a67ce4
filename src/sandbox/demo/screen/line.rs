//! Lines of styled text, before anything knows of a terminal.

/// What a piece of text is, rather than its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    /// Text.
    #[default]
    Plain,
    /// A name that something is found by.
    Strong,
    /// Headings, units, what has nothing to say.
    Faint,
    /// As it should be.
    Good,
    /// On its way, or less than it should be.
    Warn,
    /// Not as it should be.
    Bad,
    /// A key to press.
    Key,
}

/// A piece of text of one style. Holds no control character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The text.
    pub(crate) text: String,
    /// What it is.
    pub(crate) style: Style,
}

/// One line of the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its pieces, left to right.
    pub(crate) spans: Vec<Span>,
}

impl Line {
    /// With a piece more. A control character in it becomes a space: names and notes come from others.
    #[must_use]
    pub(crate) fn with(mut self, text: &str, style: Style) -> Self {
        if !text.is_empty() {
            let text = text.replace(char::is_control, " ");
            self.spans.push(Span { text, style });
        }
        self
    }

    /// With a piece more, padded with spaces to `width` characters or cut to it, and two spaces.
    #[must_use]
    pub(crate) fn column(self, text: &str, width: usize, style: Style) -> Self {
        let text = crate::sandbox::demo::text::clip(text, width);
        let padding = width + 2 - text.chars().count();
        self.with(&text, style)
            .with(&" ".repeat(padding), Style::Plain)
    }

    /// Number of characters. All that is shown is one cell wide.
    #[must_use]
    pub(crate) fn width(&self) -> usize {
        self.spans
            .iter()
            .map(|span| span.text.chars().count())
            .sum()
    }

    /// Cut to `width` characters, trailing spaces left out.
    #[must_use]
    pub(crate) fn clipped(self, width: usize) -> Self {
        let text = self.spans.iter().flat_map(|span| span.text.chars());
        let used = text.clone().count() - text.rev().take_while(|c| *c == ' ').count();
        let mut left = used.min(width);
        let mut spans = Vec::new();
        for Span { text, style } in self.spans {
            let text: String = text.chars().take(left).collect();
            left -= text.chars().count();
            if !text.is_empty() {
                spans.push(Span { text, style });
            }
        }
        if let Some(last) = spans.last_mut().filter(|_| used > width) {
            last.text.pop();
            last.text.push('…');
        }
        Self { spans }
    }

    /// Its text without style.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_the_screen_ends() {
        let line = Line::default()
            .column("demo-0", 8, Style::Strong)
            .with("replica", Style::Good);
        assert_eq!(line.width(), 17);
        assert_eq!(line.clone().clipped(12).text(), "demo-0    r…");
        assert_eq!(line.clone().clipped(17).text(), line.text());
        assert_eq!(line.clipped(0).text(), "");
        let wide = Line::default().column("a-long-name", 6, Style::Plain);
        assert_eq!(wide.text(), "a-lon…  ");
    }

    #[test]
    fn nobody_else_moves_our_cursor() {
        let line = Line::default().with("a\u{1b}[2Jb\nc", Style::Plain);
        assert_eq!(line.text(), "a [2Jb c");
    }
}
