//! Quantities as Kubernetes writes them: `500m`, `1Gi`, `2e3`. Exact to a billionth, with the canonical form.

use std::{cmp::Ordering, collections::BTreeMap, fmt};

use serde_json::Value;

/// One in the unit in which amounts are kept.
const ONE: i128 = 1_000_000_000;
/// Decimal suffixes with their powers of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
/// Binary suffixes with their powers of 1024.
const BINARY: [(&str, u32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];
/// Beyond any number of digits that an amount can have.
const MOST_CHARACTERS: usize = 64;

/// The family of suffixes in which a quantity is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

/// An amount.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// In billionths.
    amount: i128,
    form: Form,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { amount: 0, form: Form::Decimal };

    /// A number of things.
    pub fn count(number: usize) -> Self {
        let number = i128::try_from(number).unwrap_or(i128::MAX / ONE);
        Self { amount: number.saturating_mul(ONE), form: Form::Decimal }
    }

    /// Reads a quantity. What is smaller than a billionth is rounded up.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MOST_CHARACTERS {
            return None;
        }
        let (sign, unsigned) = match text.as_bytes().first()? {
            b'-' => (-1, &text[1..]),
            b'+' => (1, &text[1..]),
            _ => (1, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return None;
        }
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let places = i32::try_from(fraction.len()).ok()?;
        let (factor, power, form) =
            if let Some((_, power)) = BINARY.iter().find(|(known, _)| *known == suffix) {
                (1024_i128.checked_pow(*power)?, 0, Form::Binary)
            } else if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
                (1, *power, Form::Decimal)
            } else {
                let exponent = suffix.strip_prefix(['e', 'E'])?;
                let power: i32 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
                (1, power, Form::Exponent)
            };
        // As many billionths as the last digit stands for.
        let scale = 9_i32.checked_add(power)?.checked_sub(places)?;
        let amount = digits.checked_mul(factor)?;
        let tens = 10_i128.checked_pow(scale.unsigned_abs());
        let amount = match (scale >= 0, tens) {
            _ if amount == 0 => 0,
            (true, tens) => amount.checked_mul(tens?)?,
            (false, Some(tens)) => ceiling(amount, tens),
            (false, None) => 1,
        };
        Some(Self { amount: sign * amount, form })
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.amount == 0
    }

    /// Whether it is less than nothing.
    pub fn is_negative(self) -> bool {
        self.amount < 0
    }

    /// Whether it is a whole number, to a thousandth.
    pub(crate) fn is_whole(self) -> bool {
        ceiling(self.amount, ONE / 1000) % 1000 == 0
    }

    /// The sum, in the form of the first unless that is nothing.
    pub fn plus(self, other: Self) -> Self {
        let form = if self.is_zero() { other.form } else { self.form };
        Self { amount: self.amount.saturating_add(other.amount), form }
    }

    /// The difference, in the form of the first.
    pub fn minus(self, other: Self) -> Self {
        Self { amount: self.amount.saturating_sub(other.amount), form: self.form }
    }

    /// How many times the other it is; without end if the other is nothing.
    pub fn ratio(self, other: Self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a ratio is shown with six digits")]
        let ratio = self.amount as f64 / other.amount as f64;
        ratio
    }

    /// Rounded up to a thousandth: more is not kept in objects.
    pub(crate) fn in_thousandths(self) -> Self {
        let step = ONE / 1000;
        Self { amount: ceiling(self.amount, step).saturating_mul(step), form: self.form }
    }
}

/// The quotient, rounded away from nothing.
fn ceiling(number: i128, divisor: i128) -> i128 {
    let rest = i128::from(number % divisor != 0);
    number / divisor + rest * number.signum()
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}

/// The canonical form: a whole number with the largest suffix that allows it.
impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.amount == 0 {
            return out.write_str("0");
        }
        if self.form == Form::Binary && self.amount.abs() >= 1024 * ONE {
            let mut number = ceiling(self.amount, ONE);
            let mut suffix = "";
            for (name, _) in BINARY {
                if number % 1024 != 0 {
                    break;
                }
                number /= 1024;
                suffix = name;
            }
            return write!(out, "{number}{suffix}");
        }
        let mut number = self.amount;
        let mut place = 0;
        while number % 1000 == 0 && place + 1 < DECIMAL.len() {
            number /= 1000;
            place += 1;
        }
        let (suffix, power) = DECIMAL[place];
        match self.form {
            Form::Exponent if power != 0 => write!(out, "{number}e{power}"),
            _ => write!(out, "{number}{suffix}"),
        }
    }
}

/// The quantities of a map; what is not one is left out.
pub fn quantities(map: Option<&Value>) -> BTreeMap<String, Quantity> {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), quantity(value)?))).collect()
}

/// A quantity in an object: a text, or a number.
pub fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        Quantity::parse(text).map(|quantity| quantity.to_string())
    }

    #[test]
    fn the_form_is_canonical() {
        for (text, canonical) in [
            ("0", "0"),
            ("1", "1"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1024Mi", "1Gi"),
            ("0.5Gi", "512Mi"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("1025Ki", "1025Ki"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("2E", "2E"),
            ("12e-1", "1200e-3"),
            ("+1", "1"),
            ("-1", "-1"),
            (".5", "500m"),
            ("5.", "5"),
            ("0.0000000001", "1n"),
            ("100000", "100k"),
            ("1.5Ki", "1536"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(canonical), "{text}");
        }
        for bad in
            ["", "m", "1x", "1.2.3", "--1", "1e", "1 Gi", "٣", "99999999999999999999999999999999999999999E"]
        {
            assert_eq!(shown(bad), None, "{bad}");
        }
    }

    #[test]
    fn amounts_are_compared_and_added_exactly() {
        let of = |text: &str| Quantity::parse(text).unwrap();
        assert!(of("1Gi") > of("1G") && of("100m") == of("0.1") && of("1k") < of("1Ki"));
        assert_eq!(Quantity::ZERO.plus(of("1Gi")).plus(of("512Mi")).to_string(), "1536Mi");
        assert_eq!(of("1").minus(of("300m")).to_string(), "700m");
        assert!((of("3").ratio(of("2")) - 1.5).abs() < f64::EPSILON);
        assert_eq!(Quantity::count(3).to_string(), "3");
        assert!(of("1.0001").in_thousandths() == of("1001m"));
        assert!(of("2").is_whole() && !of("2500m").is_whole());
        assert!(of("-1").is_negative() && of("0").is_zero());
    }
}
