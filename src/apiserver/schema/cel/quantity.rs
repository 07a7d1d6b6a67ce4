//! Quantities of resources, such as `500m` or `1.5Gi`.

use std::any::Any;
use std::cmp::Ordering;

use cel::common::types::Type;
use cel::common::value::{StaticVal, Val};

/// Nano units in one.
const NANO: i128 = 1_000_000_000;

pub(super) static QUANTITY_TYPE: Type = Type::new_unspecified_type("kubernetes.Quantity");

/// A quantity, exact to a nano unit and rounded up to it, as apimachinery's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity {
    nanos: i128,
}

impl Quantity {
    /// # Errors
    /// In the words of apimachinery's `ParseQuantity`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("quantities must not be empty".to_owned());
        }
        let malformed = || {
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                .to_owned()
        };
        let unsigned = text.trim_start_matches(['+', '-']);
        if text.len() - unsigned.len() > 1 {
            return Err(malformed());
        }
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(malformed());
        }
        let Some((binary, exponent)) = scale(suffix) else {
            return Err("unable to parse quantity's suffix".to_owned());
        };
        let digits = format!("{whole}{fraction}");
        let nanos = exact(&digits, fraction.len(), binary, exponent);
        let nanos = if text.starts_with('-') { -nanos } else { nanos };
        Ok(Self { nanos })
    }

    pub(super) fn of(integer: i64) -> Self {
        Self {
            nanos: i128::from(integer) * NANO,
        }
    }

    pub(super) fn integer(self) -> Option<i64> {
        if self.nanos % NANO != 0 {
            return None;
        }
        i64::try_from(self.nanos / NANO).ok()
    }

    pub(super) fn approximate(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    pub(super) fn sign(self) -> i64 {
        match self.nanos.cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(other.nanos),
        }
    }
}

/// A suffix as powers: of 1024, and of ten.
fn scale(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (1, 0),
        "Mi" => (2, 0),
        "Gi" => (3, 0),
        "Ti" => (4, 0),
        "Pi" => (5, 0),
        "Ei" => (6, 0),
        other => {
            let exponent = other.strip_prefix(['e', 'E'])?;
            (0, exponent.parse().ok().filter(|e: &i32| e.abs() <= 64)?)
        }
    })
}

/// Digits with a decimal point `fraction` from their end, scaled, in nano units, rounded up. What is more
/// than can be held is held down to that.
fn exact(digits: &str, fraction: usize, binary: u32, exponent: i32) -> i128 {
    let most = i128::from(i64::MAX) * NANO;
    let mut value: i128 = 0;
    for digit in digits.bytes() {
        value = value
            .saturating_mul(10)
            .saturating_add(i128::from(digit - b'0'));
    }
    value = value.saturating_mul(1024_i128.pow(binary));
    let tens = i64::from(exponent) + 9 - i64::try_from(fraction).unwrap_or(i64::MAX);
    for _ in 0..tens {
        value = value.saturating_mul(10);
    }
    let mut rest = false;
    for _ in tens..0 {
        rest |= value % 10 != 0;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    (value + i128::from(rest)).min(most)
}

impl Val for Quantity {
    fn get_type(&self) -> &Type {
        &QUANTITY_TYPE
    }

    fn cel_type() -> &'static Type {
        &QUANTITY_TYPE
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>() == Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(*self)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Quantity {}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> i128 {
        Quantity::parse(text).expect(text).nanos
    }

    #[test]
    fn quantities_are_exact() {
        assert_eq!(nanos("1"), NANO);
        assert_eq!(nanos("500m"), NANO / 2);
        assert_eq!(nanos("1.5Gi"), 3 * 512 * 1024 * 1024 * NANO);
        assert_eq!(nanos("1e3"), 1000 * NANO);
        assert_eq!(nanos("12E"), i128::from(i64::MAX) * NANO);
        assert_eq!(nanos("-2k"), -2000 * NANO);
        assert_eq!(nanos("0.1n"), 1);
        assert_eq!(nanos(".5"), NANO / 2);
        assert!(Quantity::parse("256Mi") < Quantity::parse("1Gi"));
        assert!(Quantity::parse("1000Ki") < Quantity::parse("1Mi"));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "x", "1x", "--1", "1.2.3", ".", "1 Gi", "Gi"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }
}
