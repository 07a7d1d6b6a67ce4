//! Quoting. Sessions run with an empty `sql_mode`, so a backslash escapes and `"` quotes text.

use std::fmt::Write as _;

/// A string literal that is `text`.
#[must_use]
pub fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for character in text.chars() {
        match character {
            '\'' => out.push_str("''"),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\0' => out.push_str("\\0"),
            '\u{1a}' => out.push_str("\\Z"),
            other => out.push(other),
        }
    }
    out.push('\'');
    out
}

/// A quoted identifier that is `name`.
#[must_use]
pub fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A database as `GRANT` takes it: `_` and `%` are wildcards there, unless `partial_revokes` is on.
#[must_use]
pub fn grant_pattern(database: &str, partial_revokes: bool) -> String {
    let mut pattern = String::new();
    for character in database.chars() {
        if !partial_revokes && matches!(character, '_' | '%' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    identifier(&pattern)
}

/// The first words of a statement: enough to name it, too few to hold a secret.
pub(super) fn summary(statement: &str) -> String {
    let mut out = String::new();
    for word in statement.split_whitespace().take(3) {
        if !word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            break;
        }
        let space = if out.is_empty() { "" } else { " " };
        let _ = write!(out, "{space}{word}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_what_would_end_the_literal() {
        assert_eq!(literal(r"a'b\c"), r"'a''b\\c'");
        assert_eq!(literal("two\nlines\0"), r"'two\nlines\0'");
        assert_eq!(identifier("a`b"), "`a``b`");
    }

    #[test]
    fn grants_on_one_database_only() {
        assert_eq!(grant_pattern("my_app", false), r"`my\_app`");
        assert_eq!(grant_pattern("my_app", true), "`my_app`");
    }

    #[test]
    fn summaries_hold_no_secret() {
        assert_eq!(
            summary("CHANGE REPLICATION SOURCE TO x='y'"),
            "CHANGE REPLICATION SOURCE"
        );
        assert_eq!(
            summary("ALTER USER 'a'@'%' IDENTIFIED BY 'secret'"),
            "ALTER USER"
        );
    }
}
