//! The one form of a quantity (`resource.Quantity`): `1536Mi` for `1.5Gi`, `500m` for `0.5`.

/// What is said of a text that is none.
const REFUSED: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
/// Powers of 1024, from the smallest.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Powers of 1000, from nano.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Place of the ones in [`DECIMAL`].
const ONES: usize = 3;
/// Nothing is kept below a billionth.
const DIGITS: usize = 9;

/// A quantity as a server writes it.
///
/// # Errors
/// In the words of a real server for what is no quantity, or is too large to be one.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    let text = text.trim();
    let end = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let nano = nano(number).ok_or(REFUSED)?;
    if let Some(power) = BINARY.iter().position(|known| *known == suffix) {
        let factor = 1_i128 << (10 * (power + 1));
        return binary(nano.checked_mul(factor).ok_or(REFUSED)?);
    }
    if let Some(power) = DECIMAL.iter().position(|known| *known == suffix) {
        let scaled = if power >= ONES {
            nano.checked_mul(1000_i128.pow(u32::try_from(power - ONES).unwrap_or(0)))
        } else {
            Some(up(
                nano,
                1000_i128.pow(u32::try_from(ONES - power).unwrap_or(0)),
            ))
        };
        return Ok(decimal(scaled.ok_or(REFUSED)?, |power| {
            DECIMAL[power].to_owned()
        }));
    }
    let exponent: i32 = suffix
        .strip_prefix(['e', 'E'])
        .and_then(|exponent| exponent.parse().ok())
        .filter(|exponent| (-18..=18).contains(exponent))
        .ok_or(REFUSED)?;
    let factor = 10_i128.pow(exponent.unsigned_abs());
    let scaled = if exponent < 0 {
        Some(up(nano, factor))
    } else {
        nano.checked_mul(factor)
    };
    Ok(decimal(scaled.ok_or(REFUSED)?, |power| match power {
        ONES => String::new(),
        power => format!("e{}", (i64::try_from(power).unwrap_or(0) - 3) * 3),
    }))
}

/// A decimal number in billionths, rounded away from zero.
fn nano(number: &str) -> Option<i128> {
    let (negative, digits) = match number.as_bytes().first()? {
        b'-' => (true, &number[1..]),
        b'+' => (false, &number[1..]),
        _ => (false, number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let kept = fraction.get(..DIGITS).unwrap_or(fraction);
    let more = fraction[kept.len()..].bytes().any(|byte| byte != b'0');
    let value: i128 = format!("{whole}{kept:0<DIGITS$}").parse().ok()?;
    let value = value + i128::from(more);
    Some(if negative { -value } else { value })
}

/// Division that rounds away from zero.
fn up(value: i128, by: i128) -> i128 {
    let rest = i128::from(value % by != 0);
    value / by + rest * value.signum()
}

/// With a suffix of 1024, where there is anything of that size and nothing below one.
fn binary(nano: i128) -> Result<String, String> {
    const BILLION: i128 = 1_000_000_000;
    let mut value = nano / BILLION;
    if nano % BILLION != 0 || value.abs() < 1024 {
        return Ok(decimal(nano, |power| DECIMAL[power].to_owned()));
    }
    if i64::try_from(value).is_err() {
        return Err(REFUSED.to_owned());
    }
    let mut suffix = "";
    for next in BINARY {
        if value % 1024 != 0 {
            break;
        }
        value /= 1024;
        suffix = next;
    }
    Ok(format!("{value}{suffix}"))
}

/// With the largest suffix that leaves no fraction.
fn decimal(nano: i128, suffix: impl Fn(usize) -> String) -> String {
    let mut value = nano;
    let mut power = 0;
    while value != 0 && value % 1000 == 0 && power + 1 < DECIMAL.len() {
        value /= 1000;
        power += 1;
    }
    if value == 0 {
        return "0".to_owned();
    }
    format!("{value}{}", suffix(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_has_one_form() {
        let forms = [
            ("1", "1"),
            ("0", "0"),
            ("0Gi", "0"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1000Mi", "1000Mi"),
            ("512", "512"),
            ("1024", "1024"),
            ("0.5", "500m"),
            ("250m", "250m"),
            ("1000m", "1"),
            ("1000", "1k"),
            ("1500k", "1500k"),
            ("-2Gi", "-2Gi"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("0.5Ki", "512"),
            ("1.0000000001", "1000000001n"),
        ];
        for (given, form) in forms {
            assert_eq!(canonical(given).as_deref(), Ok(form), "{given}");
        }
        for wrong in ["", "lots", "1Q", "1.2.3", "--1", "1e", "G"] {
            assert!(canonical(wrong).is_err(), "{wrong}");
        }
    }
}
