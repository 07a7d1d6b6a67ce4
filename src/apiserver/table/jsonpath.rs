//! JSON paths of printer columns, such as `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

/// One step down.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    /// From, to; open where `None`.
    Slice(Option<i64>, Option<i64>),
    All,
    /// Every value below, itself included.
    Descend,
    /// Items whose value at a path compares so with another.
    Filter(Vec<Step>, Compare, Value),
    /// Items that have a value at a path.
    Exists(Vec<Step>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The first value that a path leads to; `None` for none, and for a path that can't be read.
pub(super) fn first<'a>(path: &str, object: &'a Value) -> Option<&'a Value> {
    let steps = parse(path)?;
    walk(&steps, object).first().copied()
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path.trim();
    rest = rest
        .strip_prefix('$')
        .or(rest.strip_prefix('@'))
        .unwrap_or(rest);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            steps.push(Step::Descend);
            // What follows is a field without a dot of its own.
            rest = after;
            if rest.starts_with('[') {
                continue;
            }
            let (name, after) = name(rest);
            steps.push(field(name));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            if after.is_empty() {
                break;
            }
            if after.starts_with('[') {
                rest = after;
                continue;
            }
            let (name, after) = name(after);
            steps.push(field(name));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            steps.push(bracket(after[..end].trim())?);
            rest = &after[end + 1..];
        } else {
            return None;
        }
    }
    Some(steps)
}

fn field(name: String) -> Step {
    match name.as_str() {
        "*" => Step::All,
        _ => Step::Field(name),
    }
}

/// A name up to the next dot or bracket; a backslash keeps a dot in it.
fn name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '.' | '[' => return (name, &text[i..]),
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            c => name.push(c),
        }
    }
    (name, "")
}

/// Where the bracket closes, quotes and brackets inside skipped.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(i),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Option<Step> {
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(condition) = inner.strip_prefix("?(").and_then(|c| c.strip_suffix(')')) {
        return filter(condition.trim());
    }
    if let Some(name) = unquoted(inner) {
        return Some(Step::Field(name.to_owned()));
    }
    if let Some((from, to)) = inner.split_once(':') {
        let bound = |text: &str| match text.trim() {
            "" => Some(None),
            text => text.parse().ok().map(Some),
        };
        return Some(Step::Slice(bound(from)?, bound(to)?));
    }
    inner.parse().ok().map(Step::Index)
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

fn filter(condition: &str) -> Option<Step> {
    const OPERATORS: [(&str, Compare); 6] = [
        ("==", Compare::Equal),
        ("!=", Compare::NotEqual),
        ("<=", Compare::LessOrEqual),
        (">=", Compare::GreaterOrEqual),
        ("<", Compare::Less),
        (">", Compare::Greater),
    ];
    for (operator, compare) in OPERATORS {
        if let Some((left, right)) = condition.split_once(operator) {
            let right = right.trim();
            let value = match unquoted(right) {
                Some(text) => Value::from(text),
                None => serde_json::from_str(right).unwrap_or_else(|_| Value::from(right)),
            };
            return Some(Step::Filter(parse(left)?, compare, value));
        }
    }
    Some(Step::Exists(parse(condition)?))
}

fn walk<'a>(steps: &[Step], value: &'a Value) -> Vec<&'a Value> {
    let Some((step, rest)) = steps.split_first() else {
        return vec![value];
    };
    let items = || value.as_array().map(Vec::as_slice).unwrap_or_default();
    let below: Vec<&Value> = match step {
        Step::Field(name) => match value {
            // A field of a list is that of each item.
            Value::Array(items) => items.iter().filter_map(|item| item.get(name)).collect(),
            value => value.get(name).into_iter().collect(),
        },
        Step::Index(index) => {
            let length = i64::try_from(items().len()).unwrap_or(i64::MAX);
            let at = if *index < 0 { length + index } else { *index };
            let at = usize::try_from(at).ok();
            at.and_then(|at| items().get(at)).into_iter().collect()
        }
        Step::Slice(from, to) => {
            let length = i64::try_from(items().len()).unwrap_or(i64::MAX);
            let at = |bound: i64| {
                let at = if bound < 0 { length + bound } else { bound };
                usize::try_from(at.clamp(0, length)).unwrap_or_default()
            };
            let (from, to) = (at(from.unwrap_or(0)), at(to.unwrap_or(length)));
            items().get(from..to).unwrap_or_default().iter().collect()
        }
        Step::All => match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            _ => Vec::new(),
        },
        Step::Descend => {
            let mut all = Vec::new();
            descend(value, &mut all);
            all
        }
        Step::Filter(path, compare, wanted) => {
            let holds = |item: &&Value| {
                let own = walk(path, item).first().copied();
                own.is_some_and(|own| compare.holds(own, wanted))
            };
            items().iter().filter(holds).collect()
        }
        Step::Exists(path) => {
            let has = |item: &&Value| !walk(path, item).is_empty();
            items().iter().filter(has).collect()
        }
    };
    below
        .into_iter()
        .flat_map(|value| walk(rest, value))
        .collect()
}

fn descend<'a>(value: &'a Value, all: &mut Vec<&'a Value>) {
    all.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| descend(item, all)),
        Value::Object(fields) => fields.values().for_each(|field| descend(field, all)),
        _ => {}
    }
}

impl Compare {
    fn holds(self, own: &Value, wanted: &Value) -> bool {
        let order = match (own, wanted) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (own, wanted) => (own == wanted).then_some(std::cmp::Ordering::Equal),
        };
        match self {
            Self::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
            Self::NotEqual => !order.is_some_and(std::cmp::Ordering::is_eq),
            Self::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Self::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Self::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
            Self::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "x"}},
            "status": {
                "n": 3,
                "conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}],
                "list": [1, 2, 3],
            },
        });
        let cases = [
            (".status.n", json!(3)),
            (r".metadata.annotations.a\.b/c", json!("x")),
            (".metadata.annotations['a.b/c']", json!("x")),
            (
                r#".status.conditions[?(@.type=="Ready")].status"#,
                json!("True"),
            ),
            (
                ".status.conditions[?(@.type=='Ready')].status",
                json!("True"),
            ),
            (".status.conditions[?(@.type != 'A')].type", json!("Ready")),
            (".status.conditions[?(@.status)].type", json!("A")),
            (".status.conditions[*].type", json!("A")),
            (".status.conditions[-1].type", json!("Ready")),
            (".status.list[1]", json!(2)),
            (".status.list[1:]", json!(2)),
            (".status.list", json!([1, 2, 3])),
            ("..status.n", json!(3)),
        ];
        for (path, expected) in cases {
            assert_eq!(first(path, &object), Some(&expected), "{path}");
        }
        for path in [
            ".status.x",
            ".status.list[9]",
            ".status.n.x",
            "status",
            ".status[",
        ] {
            assert_eq!(first(path, &object), None, "{path}");
        }
    }
}
