//! Regular expressions as Go writes them.

use regex::Regex;

/// A pattern of RE2's syntax. Schemas are written for Go's `regexp`, whose classes `\d`, `\w` and `\s`
/// are ASCII and whose brackets know no set operations; both are translated.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    source: String,
    regex: Regex,
}

impl Pattern {
    /// # Errors
    /// Says what is wrong with the pattern, as Go says it where the two agree on what that is.
    pub(super) fn compile(source: &str) -> Result<Self, String> {
        let regex = Regex::new(&translate(source)).map_err(|error| explain(source, &error))?;
        Ok(Self {
            source: source.to_owned(),
            regex,
        })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn regex(&self) -> &Regex {
        &self.regex
    }

    /// Whether it occurs anywhere in the text.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

fn explain(source: &str, error: &regex::Error) -> String {
    let error = error.to_string();
    let from = |c: char| source.find(c).map_or(source, |at| &source[at..]);
    let said = if error.contains("unclosed group") {
        format!("missing closing ): `{source}`")
    } else if error.contains("unopened group") {
        format!("unexpected ): `{source}`")
    } else if error.contains("unclosed character class") {
        format!("missing closing ]: `{}`", from('['))
    } else if error.contains("repetition operator missing expression") {
        let operator = source.chars().find(|c| matches!(c, '*' | '+' | '?'));
        let operator = operator.map(String::from).unwrap_or_default();
        format!("missing argument to repetition operator: `{operator}`")
    } else {
        error.lines().last().unwrap_or_default().to_owned()
    };
    format!("error parsing regexp: {said}")
}

/// Rewrites what the two syntaxes read differently.
fn translate(go: &str) -> String {
    let mut out = String::with_capacity(go.len() + 16);
    let mut rest = go;
    let mut in_class = false;
    // A bracket is literal right after the one that opens a class.
    let mut class_start = false;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        let at_start = std::mem::take(&mut class_start);
        match c {
            '\\' => {
                if let Some(quoted) = rest.strip_prefix("\\Q") {
                    let end = quoted.find("\\E").unwrap_or(quoted.len());
                    out.push_str(&regex::escape(&quoted[..end]));
                    taken = (2 + end + 2).min(rest.len());
                } else if let Some(escaped) = rest[1..].chars().next() {
                    taken += escaped.len_utf8();
                    out.push_str(&ascii_class(escaped, in_class));
                } else {
                    out.push(c);
                }
            }
            '[' if !in_class => {
                in_class = true;
                class_start = true;
                out.push('[');
                if rest.starts_with("[^") {
                    out.push('^');
                    taken += 1;
                }
            }
            '[' if rest.starts_with("[:") => match rest.find(":]") {
                Some(end) => {
                    out.push_str(&rest[..end + 2]);
                    taken = end + 2;
                }
                None => out.push_str("\\["),
            },
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            ']' if in_class && at_start => out.push_str("\\]"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            _ => out.push(c),
        }
        rest = &rest[taken..];
    }
    out
}

/// An escape, as ASCII where Go means that.
fn ascii_class(escaped: char, in_class: bool) -> String {
    let (negated, members) = match escaped {
        'd' => (false, "0-9"),
        'D' => (true, "0-9"),
        'w' => (false, "0-9A-Za-z_"),
        'W' => (true, "0-9A-Za-z_"),
        's' => (false, "\\t\\n\\f\\r "),
        'S' => (true, "\\t\\n\\f\\r "),
        'b' if !in_class => return "(?-u:\\b)".to_owned(),
        other => return format!("\\{other}"),
    };
    match (in_class, negated) {
        (true, false) => members.to_owned(),
        (_, true) => format!("[^{members}]"),
        (false, false) => format!("[{members}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::compile(pattern).expect(pattern).matches(text)
    }

    #[test]
    fn classes_are_ascii() {
        assert!(matches(r"^\d+$", "42"));
        assert!(!matches(r"^\d+$", "४२"));
        assert!(matches(r"^[\w.]+$", "a_b.c"));
        assert!(!matches(r"^[\w.]+$", "é"));
        assert!(matches(r"^[^\D]+$", "7"));
        assert!(!matches(r"^\S+$", "a b"));
        assert!(matches(r"\bfoo\b", "a foo b"));
    }

    #[test]
    fn brackets_in_brackets_are_literal() {
        assert!(matches(r"^[[&~]+$", "[&&~~"));
        assert!(matches(r"^[]a]+$", "]a"));
        assert!(matches(r"^[^]a]+$", "bc"));
        assert!(matches(r"^[[:alpha:]-]+$", "a-b"));
    }

    #[test]
    fn quotes_are_literal() {
        assert!(matches(r"^\Qa.b\E+$", "a.bb"));
        assert!(!matches(r"^\Qa.b\E$", "axb"));
        assert!(matches(r"\Q(", "("));
    }

    #[test]
    fn an_invalid_pattern_is_refused() {
        assert!(Pattern::compile("(").is_err());
    }
}
