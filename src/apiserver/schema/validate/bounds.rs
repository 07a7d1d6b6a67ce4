//! Bounds on single values: enums, sizes, ranges, patterns.

use serde_json::{Number, Value, json};

use super::super::gotext;
use super::super::node::{Bounds, Node, Type};
use super::outcome::{Failure, Outcome};

pub(super) fn allowed(node: &Node, value: &Value, path: &str) -> Outcome {
    let allowed = &node.bounds.allowed;
    let same = |one: &Value| match (one, value) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (one, value) => one == value,
    };
    if allowed.is_empty() || allowed.iter().any(same) {
        return Outcome::default();
    }
    Failure::not_supported(path, value, allowed).into()
}

pub(super) fn string(bounds: &Bounds, text: &str, path: &str) -> Outcome {
    let length = text.chars().count() as u64;
    if let Some(max) = bounds.max_length.filter(|max| length > *max) {
        return Failure::too_long(path, max).into();
    }
    if let Some(min) = bounds.min_length.filter(|min| length < *min) {
        let said = format!("{path} in body should be at least {min} chars long");
        return Failure::invalid(path, json!(text), said).into();
    }
    if let Some(pattern) = &bounds.pattern
        && !pattern.matches(text)
    {
        let said = format!("{path} in body should match '{}'", pattern.source());
        return Failure::invalid(path, json!(text), said).into();
    }
    Outcome::default()
}

pub(super) fn number(node: &Node, value: &Number, path: &str) -> Outcome {
    let mut all = Outcome::matched(1);
    if let Some(said) = out_of_range(node, value, path) {
        all.fail(Failure::plain(said));
    }
    let bounds = &node.bounds;
    let shown = Value::Number(value.clone());
    let mut fail = |what: &str, bound: f64| {
        let bound = if value.is_i64() {
            format!("{bound}")
        } else {
            gotext::float(bound)
        };
        let said = format!("{path} in body should be {what} {bound}");
        all.fail(Failure::invalid(path, shown.clone(), said));
    };
    // An integer is compared with bounds cut down to integers.
    let bound = |bound: f64| if value.is_i64() { bound.trunc() } else { bound };
    let is = value.as_f64().unwrap_or(f64::NAN);
    if let Some(factor) = bounds.multiple_of.filter(|factor| !is_whole(is / factor)) {
        fail("a multiple of", factor);
    }
    if let Some(min) = bounds.minimum.map(bound) {
        if bounds.exclusive_minimum && is <= min {
            fail("greater than", min);
        } else if is < min {
            fail("greater than or equal to", min);
        }
    }
    if let Some(max) = bounds.maximum.map(bound) {
        if bounds.exclusive_maximum && is >= max {
            fail("less than", max);
        } else if is > max {
            fail("less than or equal to", max);
        }
    }
    all
}

/// Whether a float is an integer that JSON can carry exactly, as far as the digits of a float go
/// (`swag.IsFloat64AJSONInteger`).
pub(super) fn is_whole(value: f64) -> bool {
    const MOST: f64 = 9_007_199_254_740_991.0;
    let off = (value - value.round()).abs();
    value.abs() <= MOST && (off == 0.0 || off < 1e-9 * value.abs())
}

/// Whether a number is beyond what its type and format can hold.
fn out_of_range(node: &Node, value: &Number, path: &str) -> Option<String> {
    let float = value.as_f64().unwrap_or(f64::NAN);
    match (node.types.as_slice(), node.format.as_deref()) {
        ([Type::Integer], format) => {
            let fits = match (format, value.as_i64()) {
                (Some("int32"), Some(integer)) => i32::try_from(integer).is_ok(),
                (Some("int32"), None) => float.fract() == 0.0 && float.abs() <= f64::from(i32::MAX),
                (_, Some(_)) => true,
                // 2^63: from here on no integer of 64 bits.
                (_, None) => float.fract() == 0.0 && float.abs() < 9_223_372_036_854_775_808.0,
            };
            let with = match format {
                Some(format) => format!("with format {format}"),
                None => "(default format)".to_owned(),
            };
            (!fits).then(|| format!("Checked value must be of type integer {with} in {path}"))
        }
        ([Type::Number], Some("float")) if float.abs() > f64::from(f32::MAX) => Some(format!(
            "Checked value must be of type number with format float in {path}"
        )),
        _ => None,
    }
}

pub(super) fn items(bounds: &Bounds, list: &Value, items: &[Value], path: &str) -> Outcome {
    let mut all = Outcome::default();
    let length = items.len() as u64;
    if let Some(min) = bounds.min_items.filter(|min| length < *min) {
        let said = format!("{path} in body should have at least {min} items");
        all.fail(Failure::invalid(path, json!(length), said));
    }
    if let Some(max) = bounds.max_items.filter(|max| length > *max) {
        all.fail(Failure::too_many(path, items.len(), max, "items"));
    }
    let repeated = |(i, item): (usize, &Value)| items[..i].contains(item);
    if bounds.unique_items && items.iter().enumerate().any(repeated) {
        let said = format!("{path} in body shouldn't contain duplicates");
        all.fail(Failure::invalid(path, list.clone(), said));
    }
    all
}

pub(super) fn properties(bounds: &Bounds, count: usize, path: &str) -> Outcome {
    let mut all = Outcome::default();
    if let Some(min) = bounds.min_properties.filter(|min| (count as u64) < *min) {
        let said = format!("{path} in body should have at least {min} properties");
        all.fail(Failure::invalid(path, json!(count), said));
    }
    if let Some(max) = bounds.max_properties.filter(|max| count as u64 > *max) {
        all.fail(Failure::too_many(path, count, max, "properties"));
    }
    all
}
