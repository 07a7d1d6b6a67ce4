//! Kubernetes quantities, compared by value: `0.5` is `500m`, `1Gi` is `1024Mi`.

use std::str::FromStr;

/// An amount such as `10Gi` or `250m`, in billionths of a unit (the finest step Kubernetes keeps).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

/// Text that is no quantity, or one beyond what Kubernetes can hold (2⁶³ − 1).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a quantity such as 10Gi or 500m")]
pub struct InvalidQuantity(pub String);

const PER_UNIT: i128 = 1_000_000_000;

impl Quantity {
    /// Billionths of a unit.
    #[must_use]
    pub fn nanos(self) -> i128 {
        self.0
    }
}

impl FromStr for Quantity {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        parse(text).ok_or_else(|| InvalidQuantity(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (factor, exponent) = scale(suffix)?;
    // In billionths: digits · factor · 10^(exponent + 9 − fraction's length), rounded up.
    let power = exponent + 9 - i32::try_from(fraction.len()).ok()?;
    let scaled = digits.checked_mul(factor)?;
    let nanos = if power >= 0 {
        scaled.checked_mul(10_i128.checked_pow(power.unsigned_abs())?)?
    } else {
        let divisor = 10_i128.checked_pow(power.unsigned_abs())?;
        scaled / divisor + i128::from(scaled % divisor != 0)
    };
    (nanos / PER_UNIT <= i128::from(i64::MAX)).then_some(Quantity(sign * nanos))
}

/// A suffix as a binary factor and a decimal exponent.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "" => (1, 0),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            ((-18..=18).contains(&exponent)).then_some((1, exponent))?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn equal_amounts_are_equal_however_they_are_written() {
        for (a, b) in [
            ("0.5", "500m"),
            ("1Gi", "1024Mi"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("1E", "1e18"),
            (".5", "0.50"),
            ("+2", "2."),
            ("1000000n", "1m"),
            ("0.0000000001", "1n"),
        ] {
            assert_eq!(quantity(a), quantity(b), "{a} and {b}");
        }
        assert!(quantity("1Gi") > quantity("1G"));
        assert!(quantity("-1") < quantity("0"));
    }

    #[test]
    fn what_kubernetes_would_refuse_is_refused() {
        for text in [
            "", ".", "Gi", "1gi", "1 Gi", "1.2.3", "1e", "1e99", "9Ei9", "--1", "16Ei",
        ] {
            assert_eq!(
                text.parse::<Quantity>(),
                Err(InvalidQuantity(text.to_owned()))
            );
        }
    }
}
