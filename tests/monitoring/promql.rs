//! As much of PromQL as it takes to know which series and labels an expression is about.

use super::tables::{self, TARGET};

const FUNCTIONS: &[&str] = &[
    "absent",
    "avg",
    "count",
    "histogram_quantile",
    "increase",
    "max",
    "min",
    "rate",
    "sum",
    "time",
    "vector",
];
/// Words that labels in brackets follow.
const GROUPING: &[&str] = &[
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];
const OPERATORS: &[&str] = &["and", "or", "unless", "bool", "offset"];
/// Series of others that may be used.
const FOREIGN: &[&str] = &[];

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

/// What an expression is about.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Expression {
    /// Series, each with what its labels are compared with.
    pub(crate) selectors: Vec<(String, Vec<(String, String)>)>,
    /// Labels that are grouped or matched by.
    pub(crate) grouping: Vec<String>,
    /// Labels that remain where the outermost aggregation is by some; `None` without one.
    pub(crate) by: Option<Vec<String>>,
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        if letter == '"' || letter == '\'' {
            let mut content = String::new();
            loop {
                match rest.next() {
                    Some(end) if end == letter => break,
                    Some(letter) => content.push(letter),
                    None => return Err("a text that does not end".into()),
                }
            }
            tokens.push(Token::Text(content));
        } else if letter.is_alphanumeric() || "_:$.".contains(letter) {
            let mut word = String::from(letter);
            while let Some(more) = rest.next_if(|it| it.is_alphanumeric() || "_:.".contains(*it)) {
                word.push(more);
            }
            tokens.push(Token::Word(word));
        } else if !letter.is_whitespace() {
            tokens.push(Token::Sign(letter));
        }
    }
    Ok(tokens)
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Reader {
    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn is_next(&self, sign: char) -> bool {
        self.tokens.get(self.at) == Some(&Token::Sign(sign))
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        match self.next() {
            Some(Token::Sign(found)) if found == sign => Ok(()),
            other => Err(format!("{other:?} instead of {sign}")),
        }
    }

    /// `(a, b)`.
    fn labels(&mut self) -> Result<Vec<String>, String> {
        let mut labels = Vec::new();
        self.expect('(')?;
        loop {
            match self.next() {
                Some(Token::Word(label)) => labels.push(label),
                Some(Token::Sign(',')) => {}
                Some(Token::Sign(')')) => return Ok(labels),
                other => return Err(format!("{other:?} among labels")),
            }
        }
    }

    /// `{a="b", c=~"d"}`, if it is there.
    fn matchers(&mut self) -> Result<Vec<(String, String)>, String> {
        let mut matchers = Vec::new();
        if !self.is_next('{') {
            return Ok(matchers);
        }
        self.at += 1;
        loop {
            match self.next() {
                Some(Token::Word(label)) => loop {
                    match self.next() {
                        Some(Token::Sign('=' | '!' | '~')) => {}
                        Some(Token::Text(value)) => break matchers.push((label, value)),
                        other => return Err(format!("{label} is compared with {other:?}")),
                    }
                },
                Some(Token::Sign(',')) => {}
                Some(Token::Sign('}')) => return Ok(matchers),
                other => return Err(format!("{other:?} among matchers")),
            }
        }
    }
}

/// Reads an expression.
pub(crate) fn read(text: &str) -> Result<Expression, String> {
    let mut reader = Reader {
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
    };
    let mut found = Expression::default();
    while let Some(token) = reader.next() {
        let word = match token {
            Token::Word(word) => word,
            Token::Sign('(') => {
                reader.depth += 1;
                continue;
            }
            Token::Sign(')') => {
                reader.depth = reader.depth.checked_sub(1).ok_or("a ) too many")?;
                continue;
            }
            Token::Sign('[') => {
                // A range: its length, which may be Grafana's.
                reader.next();
                reader.expect(']')?;
                continue;
            }
            Token::Sign(sign) if "+-*/%^=!<>,".contains(sign) => continue,
            other => return Err(format!("{other:?} is not understood")),
        };
        if GROUPING.contains(&word.as_str()) {
            let labels = reader.labels()?;
            if word == "by" && reader.depth == 0 && found.by.is_none() {
                found.by = Some(labels.clone());
            }
            found.grouping.extend(labels);
        } else if OPERATORS.contains(&word.as_str()) || word.starts_with(|c: char| c.is_numeric()) {
            // Nothing about series.
        } else if reader.is_next('(') || is_aggregation(&word, &reader) {
            if !FUNCTIONS.contains(&word.as_str()) {
                return Err(format!("there is no function {word}"));
            }
        } else {
            let matchers = reader.matchers()?;
            found.selectors.push((word, matchers));
        }
    }
    if reader.depth > 0 {
        return Err("a ) is missing".into());
    }
    Ok(found)
}

fn is_aggregation(word: &str, reader: &Reader) -> bool {
    let by = matches!(reader.tokens.get(reader.at), Some(Token::Word(next)) if next == "by" || next == "without");
    by && FUNCTIONS.contains(&word)
}

impl Expression {
    /// Labels that its result may have.
    pub(crate) fn labels(&self) -> Vec<String> {
        if let Some(by) = &self.by {
            return by.clone();
        }
        // An aggregation further inside decides, where there is one; else the first series.
        if !self.grouping.is_empty() {
            return self.grouping.clone();
        }
        let first = self.selectors.first();
        let metric = first.and_then(|(series, _)| tables::of_series(series));
        let own = metric.map_or(&[] as &[_], |(metric, _)| metric.labels);
        let own = own.iter().map(|label| label.name);
        own.chain(TARGET.iter().copied())
            .map(str::to_owned)
            .collect()
    }

    /// What it asks for that does not exist.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut labels: Vec<&str> = TARGET.to_vec();
        for (series, matchers) in &self.selectors {
            if FOREIGN.contains(&series.as_str()) {
                continue;
            }
            let Some((metric, bucket)) = tables::of_series(series) else {
                problems.push(format!("there is no series {series}"));
                continue;
            };
            labels.extend(metric.labels.iter().map(|label| label.name));
            labels.extend(bucket.then_some("le"));
            for (name, value) in matchers {
                if TARGET.contains(&name.as_str()) {
                    continue;
                }
                let Some(label) = metric.labels.iter().find(|label| label.name == name) else {
                    problems.push(format!("{series} has no label {name}"));
                    continue;
                };
                let mut values = value.split('|').filter(|value| !value.starts_with('$'));
                if let Some(wrong) =
                    values.find(|value| !label.values.is_empty() && !label.values.contains(value))
                {
                    problems.push(format!("{name} of {series} is never {wrong}"));
                }
            }
        }
        if self.selectors.is_empty() {
            problems.push("it is about nothing".into());
        }
        for label in &self.grouping {
            if !labels.contains(&label.as_str()) {
                problems.push(format!("no series of it has the label {label}"));
            }
        }
        problems
    }
}

/// What is wrong with an expression.
pub(crate) fn problems(text: &str) -> Vec<String> {
    match read(text) {
        Ok(expression) => expression.problems(),
        Err(problem) => vec![problem],
    }
}

#[test]
fn series_labels_and_groups_are_found() {
    let text =
        r#"sum by (a, b) (rate(x_total{c!~"d|e", f="g"}[5m])) / 2.5 > on (a) time() - y unless z"#;
    let read = read(text).unwrap();
    let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        read.selectors,
        [
            ("x_total".to_owned(), vec![of("c", "d|e"), of("f", "g")]),
            ("y".to_owned(), vec![]),
            ("z".to_owned(), vec![]),
        ]
    );
    assert_eq!(read.grouping, ["a", "b", "a"]);
    assert_eq!(read.by, Some(vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn what_does_not_exist_is_a_problem() {
    for (good, bad) in [
        ("mainstay_leader == 1", "mainstay_leder == 1"),
        ("sum(mainstay_leader)", "summ(mainstay_leader)"),
        (
            "sum by (pod) (mainstay_leader)",
            "sum by (kind) (mainstay_leader)",
        ),
        (
            "sum by (pod) (mainstay_leader)",
            "sum by (pod) (mainstay_leader",
        ),
        (
            "rate(reconcile_total{result=\"panic\"}[5m])",
            "rate(reconcile_total{result=\"panik\"}[5m])",
        ),
        (
            "rate(reconcile_total{result=~\"panic|done\"}[5m])",
            "rate(reconcile_total{reslt=\"panic\"}[5m])",
        ),
        (
            "sum by (le) (reconcile_duration_seconds_bucket)",
            "sum by (le) (reconcile_duration_seconds_sum)",
        ),
        (
            "reconcile_duration_seconds_count",
            "reconcile_duration_seconds",
        ),
        ("reconcile_total", "reconcile_total_count"),
    ] {
        assert_eq!(problems(good), [] as [String; 0], "{good}");
        assert!(!problems(bad).is_empty(), "{bad}");
    }
}
