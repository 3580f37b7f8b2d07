//! Kubernetes quantities (`100m`, `1.5Gi`, `1e3`): exact, in billionths, with the rules of apimachinery's
//! `resource.Quantity`.
//!
//! What differs: an amount above 10^20 in all is refused (Kubernetes takes any, but writes a thousand exa as `1`).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Billionths in one.
const ONE: i128 = 1_000_000_000;

/// The largest amount that is taken: far above what a cluster has, and a sum of 10^9 of them still fits.
const MAX_SCALED: i128 = 100_000_000_000_000_000_000 * ONE;

/// How a quantity was written, and how it is written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Powers of 1000: `n u m k M G T P E`.
    #[default]
    Decimal,
    /// Powers of 1024: `Ki Mi Gi Ti Pi Ei`.
    Binary,
    /// `e3`.
    Exponent,
}

/// An amount.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    form: Form,
}

/// What is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Nothing. (A suffix alone is zero, for Kubernetes too.)
    #[error("is not a quantity; write 100m, 1.5Gi, 1e3")]
    Empty,
    /// What follows the number is not known.
    #[error(
        "is not a quantity: a number must be followed by n u m k M G T P E Ki Mi Gi Ti Pi Ei, or an exponent such as \
         e3"
    )]
    Suffix,
    /// Above what is taken.
    #[error("is too large: more than 10^20")]
    TooLarge,
}

/// Suffixes of powers of 1000 with their exponents.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// Suffixes of powers of 1024.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Digits behind the point that are looked at; others only round up.
const FRACTION: usize = 18;

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (is_negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let digits = |text: &str| text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(behind) => behind.split_at(digits(behind)),
            None => ("", rest),
        };
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let (form, ten, shift) = interpret(suffix)?;
        let (seen, cut) = fraction.split_at(fraction.len().min(FRACTION));
        let is_cut = cut.bytes().any(|digit| digit != b'0');
        let whole = whole.trim_start_matches('0');
        let number = if whole.len() + seen.len() > 38 { None } else { Some(format!("0{whole}{seen}")) };
        let number: i128 = number.and_then(|digits| digits.parse().ok()).ok_or(QuantityError::TooLarge)?;
        // In billionths: number × 10^(9 + ten - fraction) × 2^shift, rounded away from zero.
        let power = 9 + i64::from(ten) - seen.len() as i64;
        let shifted = number.checked_mul(1 << shift).ok_or(QuantityError::TooLarge)?;
        let nanos = if number == 0 {
            0
        } else if power >= 0 {
            let scale = u32::try_from(power).ok().and_then(|power| 10i128.checked_pow(power));
            scale.and_then(|scale| shifted.checked_mul(scale)).ok_or(QuantityError::TooLarge)?
        } else {
            let scale = u32::try_from(-power).ok().and_then(|power| 10i128.checked_pow(power)).unwrap_or(i128::MAX);
            shifted / scale + i128::from(shifted % scale != 0)
        };
        let mut nanos = nanos + i128::from(is_cut);
        if form == Form::Binary {
            // Kubernetes cuts these, and only these, at what an int64 holds.
            nanos = nanos.min(i128::from(i64::MAX) * ONE);
        }
        if nanos > MAX_SCALED {
            return Err(QuantityError::TooLarge);
        }
        let form = if form == Form::Binary && nanos > 0 && nanos < ONE { Form::Decimal } else { form };
        Ok(Self { nanos: if is_negative { -nanos } else { nanos }, form })
    }
}

/// A suffix: its form, its power of ten and its power of two.
fn interpret(suffix: &str) -> Result<(Form, i32, u32), QuantityError> {
    if let Some((_, ten)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Ok((Form::Decimal, *ten, 0));
    }
    if let Some(at) = BINARY.iter().position(|known| *known == suffix) {
        return Ok((Form::Binary, 0, 10 * (at as u32 + 1)));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    let ten: i32 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
    Ok((Form::Exponent, ten, 0))
}

impl Quantity {
    /// A quantity of so many billionths.
    pub fn from_nanos(nanos: i128, form: Form) -> Self {
        Self { nanos, form }
    }

    /// A whole number.
    pub fn whole(number: i64, form: Form) -> Self {
        Self { nanos: i128::from(number) * ONE, form }
    }

    /// The quantity nearest to a measured value, which is a binary fraction: to the billionth below 2^53 billionths (9
    /// million), to the nearest whole above. `None` where it is no finite number or above what is taken.
    pub fn measured(value: f64, form: Form) -> Option<Self> {
        if !value.is_finite() || value.abs() > 1e20 {
            return None;
        }
        let whole = value.trunc();
        let nanos = whole as i128 * ONE + ((value - whole) * ONE as f64).round() as i128;
        Some(Self { nanos, form })
    }

    /// Billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// How it is written.
    pub fn form(self) -> Form {
        self.form
    }

    /// The nearest floating-point number.
    pub fn value(self) -> f64 {
        // Whole numbers stay whole.
        if self.nanos % ONE == 0 { (self.nanos / ONE) as f64 } else { self.nanos as f64 / ONE as f64 }
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// This and another. Nothing takes on the other's form.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let form = if self.is_zero() { other.form } else { self.form };
        Self { nanos: self.nanos.saturating_add(other.nanos), form }
    }

    /// This less another.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self { nanos: -other.nanos, ..other })
    }

    /// The same amount times `share`, which counts in billionths and may be up to 10^9, rounded up.
    #[must_use]
    pub fn times(self, share: f64) -> Self {
        let billionths = (share * ONE as f64).round() as i128;
        // 10^29 × 10^18 does not fit: the whole part first.
        let nanos =
            (self.nanos / ONE).saturating_mul(billionths).saturating_add(div_up(self.nanos % ONE * billionths, ONE));
        Self { nanos, form: self.form }
    }

    /// Rounded up to what people write: a multiple of the largest step that is at most a twentieth of it. Steps are
    /// powers of two for bytes, 1, 2 and 5 times powers of ten for others; what is `countable` comes in ones, CPUs in
    /// thousandths.
    #[must_use]
    pub fn rounded_up(self, countable: bool) -> Self {
        let least = if countable || self.form == Form::Binary { ONE } else { ONE / 1_000 };
        let limit = self.nanos / 20;
        let mut step = least;
        if self.form == Form::Binary {
            while step * 2 <= limit {
                step *= 2;
            }
        } else {
            let mut power = least;
            while power <= limit {
                step = [5, 2, 1].into_iter().map(|times| power * times).find(|step| *step <= limit).unwrap_or(step);
                power *= 10;
            }
        }
        Self { nanos: div_up(self.nanos, step) * step, form: self.form }
    }
}

fn div_up(number: i128, by: i128) -> i128 {
    number.div_euclid(by) + i128::from(number.rem_euclid(by) != 0)
}

impl PartialEq for Quantity {
    /// By amount: `1Gi` is `1024Mi`.
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
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
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, and the largest suffix with which that is so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.form == Form::Binary && self.nanos.abs() >= 1024 * ONE && self.nanos % ONE == 0 {
            let mut number = self.nanos / ONE;
            let mut power = 0;
            while power < BINARY.len() && number % 1024 == 0 {
                number /= 1024;
                power += 1;
            }
            return write!(f, "{number}{}", if power == 0 { "" } else { BINARY[power - 1] });
        }
        let mut number = self.nanos;
        let mut ten = -9;
        while number % 1000 == 0 && (ten < 18 || self.form == Form::Exponent) {
            number /= 1000;
            ten += 3;
        }
        match self.form {
            Form::Exponent if ten == 0 => write!(f, "{number}"),
            Form::Exponent => write!(f, "{number}e{ten}"),
            _ => write!(
                f,
                "{number}{}",
                DECIMAL.iter().find(|(_, power)| *power == ten).map_or("", |(suffix, _)| suffix)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn read(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// What apimachinery's resource.Quantity of Kubernetes 1.36 says of 3,147 texts and 3,000 sums
    /// (tests/data/quantities.jsonl.zst).
    #[test]
    fn they_are_as_kubernetes_has_them() {
        let packed = include_bytes!("../../tests/data/quantities.jsonl.zst");
        let table = zstd::decode_all(packed.as_slice()).unwrap();
        let (mut ones, mut sums, mut large) = (0, 0, 0);
        for line in std::str::from_utf8(&table).unwrap().lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let text = |field: &str| row[field].as_str().unwrap();
            if let Some(sum) = row["Sum"].as_str() {
                let (Ok(a), Ok(b)) = (text("A").parse::<Quantity>(), text("B").parse::<Quantity>()) else {
                    large += 1;
                    continue;
                };
                assert_eq!(a.cmp(&b) as i64, row["Cmp"].as_i64().unwrap(), "{row}");
                // Kubernetes loses the suffix of a thousand exa.
                if a.plus(b).nanos.abs() < 1000 * 1_000_000_000_000_000_000 * ONE || a.plus(b).form == Form::Exponent {
                    assert_eq!(a.plus(b).to_string(), sum, "{row}");
                    sums += 1;
                }
                continue;
            }
            match text("text").parse::<Quantity>() {
                Ok(read) => {
                    assert!(row["ok"].as_bool().unwrap(), "{row}");
                    assert_eq!(read.to_string(), text("canonical"), "{row}");
                    let (number, exponent) = text("nanos").split_once('e').unwrap();
                    let (number, power): (i128, i32) = (number.parse().unwrap(), exponent.parse::<i32>().unwrap() + 9);
                    let scale = 10i128.pow(power.unsigned_abs());
                    assert_eq!(read.nanos, if power >= 0 { number * scale } else { number / scale }, "{row}");
                    ones += 1;
                }
                Err(QuantityError::TooLarge) => large += 1,
                Err(_) => assert!(!row["ok"].as_bool().unwrap(), "{row}"),
            }
        }
        assert!(ones > 2_800 && sums > 2_500 && large < 400, "{ones} {sums} {large}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(nanos in -10i128.pow(28)..10i128.pow(28),
            small in -10i128.pow(12)..10i128.pow(12), form in 0u8..3) {
            let form = [Form::Decimal, Form::Binary, Form::Exponent][usize::from(form)];
            for nanos in [nanos, small, small * ONE] {
                // Of the powers of 1024 Kubernetes keeps no more than an int64 holds.
                if form == Form::Binary && nanos.abs() > i128::from(i64::MAX) * ONE {
                    continue;
                }
                let quantity = Quantity { nanos, form };
                prop_assert_eq!(read(&quantity.to_string()), quantity);
            }
        }

        #[test]
        fn rounding_adds_at_most_a_twentieth(nanos in 1i128..10i128.pow(27), countable: bool, binary: bool) {
            let quantity = Quantity { nanos, form: if binary { Form::Binary } else { Form::Decimal } };
            let rounded = quantity.rounded_up(countable);
            let least = if countable || binary { ONE } else { ONE / 1000 };
            prop_assert!(rounded >= quantity && rounded.nanos - nanos <= (nanos / 20).max(least),
                "{quantity} {rounded}");
            prop_assert_eq!(rounded.nanos % least, 0);
            prop_assert!(rounded.rounded_up(countable).nanos - nanos <= (nanos / 10).max(least));
        }
    }

    #[test]
    fn people_get_round_numbers() {
        for (text, countable, expected) in [
            ("45875Mi", false, "46Gi"),
            ("10343Mi", false, "10752Mi"),
            ("120Mi", false, "120Mi"),
            ("3700m", false, "3700m"),
            ("3701m", false, "3800m"),
            ("43200m", true, "44"),
            ("3600m", true, "4"),
            ("0", true, "0"),
            ("1m", false, "1m"),
        ] {
            assert_eq!(read(text).rounded_up(countable).to_string(), expected, "{text}");
        }
        assert_eq!(read("10").times(1.2).to_string(), "12");
        assert_eq!(read("5Gi").times(1.2).to_string(), "6Gi");
        assert_eq!(Quantity::measured(0.1, Form::Decimal).map(|q| q.to_string()).as_deref(), Some("100m"));
        assert_eq!(
            Quantity::measured(1536.0 * 1048576.0, Form::Binary).map(|q| q.to_string()).as_deref(),
            Some("1536Mi")
        );
        assert_eq!(Quantity::measured(f64::NAN, Form::Decimal), None);
    }
}
