//! What names, labels and annotations may look like, in the words of apimachinery's validation.

/// A qualified name (`prefix/name`), as annotation keys and finalizers are: what is wrong.
pub(crate) fn qualified(value: &str) -> Vec<String> {
    named("a qualified name", value)
}

/// The key of a label: what is wrong.
pub(crate) fn label_key(value: &str) -> Vec<String> {
    named("a valid label key", value)
}

fn named(what: &str, value: &str) -> Vec<String> {
    let (prefix, name) = match value.split_once('/') {
        Some((prefix, name)) if !name.contains('/') => (Some(prefix), name),
        Some(_) => {
            return vec![format!(
                "{what} {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                qualified_format()
            )];
        }
        None => (None, value),
    };
    let mut problems = Vec::new();
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            problems.push("prefix part must be non-empty".to_owned());
        } else {
            problems.extend(
                subdomain(prefix)
                    .into_iter()
                    .map(|problem| format!("prefix part {problem}")),
            );
        }
    }
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(name) {
        problems.push(format!("name part {}", qualified_format()));
    }
    problems
}

fn qualified_format() -> &'static str {
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
     is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
}

fn is_qualified(name: &str) -> bool {
    bounded(
        name,
        |c| c.is_ascii_alphanumeric(),
        |c| matches!(c, '-' | '_' | '.'),
    )
}

/// Whether `text` is not empty, begins and ends with `edge`, and holds only that and `inner`.
fn bounded(text: &str, edge: impl Fn(char) -> bool, inner: impl Fn(char) -> bool) -> bool {
    text.starts_with(&edge) && text.ends_with(&edge) && text.chars().all(|c| edge(c) || inner(c))
}

/// A label's value: what is wrong.
pub(crate) fn label_value(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    (!value.is_empty() && !is_qualified(value)).then(|| {
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
         and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
         '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            .to_owned()
    })
}

fn lower(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// A DNS subdomain (RFC 1123): what is wrong.
pub(crate) fn subdomain(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 253 {
        problems.push("must be no more than 253 bytes".to_owned());
    }
    if !value
        .split('.')
        .all(|label| bounded(label, lower, |c| c == '-'))
    {
        problems.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
             '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
             for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    problems
}

/// A DNS label (RFC 1123): what is wrong.
pub(crate) fn label(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.contains('.') {
        return vec!["must not contain dots".to_owned()];
    }
    if value.len() > 63 {
        problems.push("must be no more than 63 bytes".to_owned());
    }
    if !bounded(value, lower, |c| c == '-') {
        problems.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
             must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex \
             used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

/// Anything that fits between two slashes of a path: what is wrong.
pub(crate) fn path_segment(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    ['/', '%']
        .into_iter()
        .filter(|bad| value.contains(*bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_dns_allows() {
        assert!(subdomain("a.b-c.1").is_empty());
        assert!(
            !subdomain("A").is_empty()
                && !subdomain("a..b").is_empty()
                && !subdomain("").is_empty()
        );
        assert!(label("1-a").is_empty() && !label("a.b").is_empty() && !label("a-").is_empty());
        assert!(!path_segment("a/b").is_empty() && path_segment("system:node").is_empty());
    }

    #[test]
    fn keys_have_an_optional_prefix() {
        assert!(qualified("app").is_empty() && qualified("a.io/App_1").is_empty());
        for bad in ["", "/a", "a/", "a/b/c", "A.io/a", "-a"] {
            assert!(!qualified(bad).is_empty(), "{bad}");
        }
        assert_eq!(label_value(""), None);
        assert!(label_value("a b").is_some());
    }
}
