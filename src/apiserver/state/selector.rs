//! Label and field selectors.

use super::object::{Entry, split};
use crate::apiserver::ApiError;

/// A label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Missing,
    Above(i64),
    Below(i64),
}

impl Labels {
    /// Parses such as `a=b,c in (d,e),!f`.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let refuse =
            |why: String| ApiError::bad_request(format!("unable to parse requirement: {why}"));
        let mut requirements = Vec::new();
        for part in commas(text) {
            let part = part.trim();
            if part.is_empty() {
                if text.trim().is_empty() {
                    continue;
                }
                return Err(refuse(
                    "found ',', expected: !, identifier, or 'end of string'".to_owned(),
                ));
            }
            requirements.push(requirement(part).map_err(refuse)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self(requirements))
    }

    /// A `LabelSelector` object of a spec, such as a PodDisruptionBudget's.
    pub(crate) fn of(selector: &serde_json::Value) -> Self {
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement {
                key: key.clone(),
                operator: Operator::In(vec![value]),
            });
        }
        for expression in selector["matchExpressions"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let values = expression["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect();
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In(values),
                "NotIn" => Operator::NotIn(values),
                "Exists" => Operator::Exists,
                _ => Operator::Missing,
            };
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement { key, operator });
        }
        Self(requirements)
    }

    /// Whether nothing is asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object is selected.
    pub(crate) fn matches(&self, entry: &Entry) -> bool {
        self.0.iter().all(|requirement| {
            let value = entry.label(&requirement.key);
            match &requirement.operator {
                Operator::In(values) => {
                    value.is_some_and(|value| values.iter().any(|v| v == value))
                }
                Operator::NotIn(values) => {
                    value.is_none_or(|value| values.iter().all(|v| v != value))
                }
                Operator::Exists => value.is_some(),
                Operator::Missing => value.is_none(),
                Operator::Above(bound) => number(value).is_some_and(|value| value > *bound),
                Operator::Below(bound) => number(value).is_some_and(|value| value < *bound),
            }
        })
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

/// Splits at commas outside of parentheses.
fn commas(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn requirement(text: &str) -> Result<Requirement, String> {
    if let Some(key) = text.strip_prefix('!') {
        return build(key, Operator::Missing);
    }
    for (sign, negative) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = text.split_once(sign) {
            if value.trim_start().starts_with('=') {
                return Err("found '=', expected: identifier".to_owned());
            }
            let values = vec![label_value(value.trim())?];
            return build(
                key,
                if negative {
                    Operator::NotIn(values)
                } else {
                    Operator::In(values)
                },
            );
        }
    }
    for (sign, above) in [('>', true), ('<', false)] {
        if let Some((key, value)) = text.split_once(sign) {
            let bound = value.trim().parse().map_err(|_| {
                "values[0]: Invalid value: for 'Gt', 'Lt' operators, the value must be an integer".to_owned()
            })?;
            return build(
                key,
                if above {
                    Operator::Above(bound)
                } else {
                    Operator::Below(bound)
                },
            );
        }
    }
    if let Some((head, values)) = text.split_once('(') {
        let values = values
            .strip_suffix(')')
            .ok_or("found '', expected: ',' or ')'")?
            .split(',')
            .map(|value| label_value(value.trim()))
            .collect::<Result<Vec<_>, _>>()?;
        let mut words = head.split_whitespace();
        let key = words.next().unwrap_or_default();
        return match (words.next(), words.next()) {
            (Some("in"), None) => build(key, Operator::In(values)),
            (Some("notin"), None) => build(key, Operator::NotIn(values)),
            (other, _) => Err(format!(
                "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                other.unwrap_or_default()
            )),
        };
    }
    build(text, Operator::Exists)
}

fn build(key: &str, operator: Operator) -> Result<Requirement, String> {
    let key = key.trim();
    let mut words = key.split_whitespace().skip(1);
    if let Some(found) = words.next() {
        if matches!(found, "in" | "notin") {
            let next = words.next().unwrap_or_default();
            return Err(format!("found '{next}' expected: '('"));
        }
        return Err(format!(
            "found '{found}', expected: in, notin, =, ==, !=, gt, lt"
        ));
    }
    if let Some(problem) = super::names::qualified(key).into_iter().next() {
        return Err(format!("<nil>: Invalid value: {key:?}: {problem}"));
    }
    Ok(Requirement {
        key: key.to_owned(),
        operator,
    })
}

fn label_value(value: &str) -> Result<String, String> {
    match super::names::label_value(value) {
        Some(problem) => Err(format!("values[0][]: Invalid value: {value:?}: {problem}")),
        None => Ok(value.to_owned()),
    }
}

/// A field selector, its paths resolved against a storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: Field,
    value: String,
    equal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    Indexed(usize),
}

impl Fields {
    /// Parses such as `metadata.name=a,status.phase!=Running`; `resolve` finds the index of a field.
    pub(crate) fn parse(
        text: &str,
        resolve: impl Fn(&str) -> Result<usize, ApiError>,
    ) -> Result<Self, ApiError> {
        let mut terms = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (path, value, equal) = if let Some((path, value)) = part.split_once("!=") {
                (path, value, false)
            } else if let Some((path, value)) =
                part.split_once("==").or_else(|| part.split_once('='))
            {
                (path, value, true)
            } else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            let field = match path {
                "metadata.name" => Field::Name,
                "metadata.namespace" => Field::Namespace,
                other => Field::Indexed(resolve(other)?),
            };
            terms.push(Term {
                field,
                value: value.to_owned(),
                equal,
            });
        }
        Ok(Self(terms))
    }

    /// Whether nothing is asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one name that is asked for, where that is so.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0
            .iter()
            .find(|term| term.field == Field::Name && term.equal)
            .map(|term| term.value.as_str())
    }

    /// Whether an object is selected.
    pub(crate) fn matches(&self, entry: &Entry) -> bool {
        let (namespace, name) = split(&entry.key);
        self.0.iter().all(|term| {
            let value = match term.field {
                Field::Name => name,
                Field::Namespace => namespace,
                Field::Indexed(index) => entry.fields.get(index).map_or("", |value| value),
            };
            (value == term.value) == term.equal
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labelled(labels: &serde_json::Value) -> Entry {
        let object = json!({"metadata": {"name": "b", "labels": labels}, "type": "x"});
        Entry::new("a/b".into(), 1, object, &["type".to_owned()], 0)
    }

    #[test]
    fn labels_know_all_operators() {
        let entry = labelled(&json!({"app": "db", "n": "5"}));
        for (selector, expected) in [
            ("", true),
            ("app=db", true),
            ("app==db,n", true),
            ("app!=db", false),
            ("other!=db", true),
            ("app in (web, db)", true),
            ("app notin (web,db)", false),
            ("other notin (a)", true),
            ("!other", true),
            ("!app", false),
            ("n>4", true),
            ("n<5", false),
            ("app=", false),
        ] {
            assert_eq!(
                Labels::parse(selector).unwrap().matches(&entry),
                expected,
                "{selector}"
            );
        }
        for bad in ["a b", "a in", "a in (b", "=x", "a>x", "a=b c", ",a"] {
            assert_eq!(Labels::parse(bad).unwrap_err().code, 400, "{bad}");
        }
    }

    #[test]
    fn fields_are_names_and_what_the_storage_declares() {
        let entry = labelled(&json!({}));
        let resolve = |field: &str| {
            if field == "type" {
                Ok(0)
            } else {
                Err(ApiError::bad_request("no"))
            }
        };
        for (selector, expected) in [
            ("metadata.name=b", true),
            ("metadata.name!=b", false),
            ("metadata.namespace=a,type=x", true),
            ("type==y", false),
        ] {
            let fields = Fields::parse(selector, resolve).unwrap();
            assert_eq!(fields.matches(&entry), expected, "{selector}");
        }
        assert!(Fields::parse("spec.a=1", resolve).is_err());
    }
}
