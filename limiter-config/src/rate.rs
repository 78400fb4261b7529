//! `RATE`: packets per period, or bits per second as in `tc`.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::{Invalid, Text, as_text, burst::BYTES, ensure, invalid, number, number::Suffixes};

/// The unit that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Packets: every packet costs one token.
    Packets,
    /// Bytes: a packet costs its length, from the Ethernet header on.
    Bytes,
}

/// Refill rate of a bucket: `amount` packets, or bits, in `period_ns` nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate {
    /// Packets, or bits if `unit` is bytes; at least 1.
    pub amount: u64,
    /// The period in nanoseconds; at least a second.
    pub period_ns: u64,
    /// The counted unit.
    pub unit: Unit,
}

const SECOND: u64 = 1_000_000_000;
const BITS: &Suffixes = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
];
const PERIODS: &Suffixes = &[
    ("s|sec|second|seconds", SECOND),
    ("m|min|minute|minutes", 60 * SECOND),
    ("h|hr|hour|hours", 3_600 * SECOND),
    ("d|day|days", 86_400 * SECOND),
];
/// Endings of rates in bits, for each of which `bit` is read.
const BIT_ENDINGS: [&str; 5] = ["bit", "bits", "bit/s", "bits/s", "bps"];

/// The highest rates. Above them a token is worth so few ticks that rounding would show.
const PACKETS_PER_SECOND_MAX: u64 = 1_000_000_000;
const BITS_PER_SECOND_MAX: u64 = 1_000_000_000_000;
/// The longest period, 208 days: the depth of the deepest bucket (`limiter_common::arithmetic::bucket::TAU_MAX`).
const PERIOD_MAX: u64 = 1 << 54;

impl Text for Rate {
    const IS_NUMBER: bool = true;

    fn read(text: &str) -> Result<Self, Invalid> {
        let (number, unit) = number::split(text);
        let rate = if let Some(bits) = bits(number, unit)? {
            Self {
                amount: bits,
                period_ns: SECOND,
                unit: Unit::Bytes,
            }
        } else {
            let (count, period) = match text.strip_suffix("pps") {
                Some(count) => (count, "s"),
                None => text.split_once('/').unwrap_or((text, "s")),
            };
            let (amount, period_ns) = packets(count, parse_period(period)?)?;
            Self {
                amount,
                period_ns,
                unit: Unit::Packets,
            }
        };
        rate.check()
    }

    fn shown(&self) -> String {
        if self.unit == Unit::Bytes {
            return number::format(self.amount, BITS);
        }
        let period = number::format(self.period_ns, PERIODS);
        // `300/m`, but `10/6s`.
        let period = match period.strip_prefix('1') {
            Some(unit) if !unit.starts_with(|c: char| c.is_ascii_digit()) => unit,
            _ => &period,
        };
        let amount = number::format(self.amount, number::COUNTS);
        format!("{amount}/{period}")
    }
}

/// Reads a rate in bits per second; `None` if the unit is none of bits.
/// Fails if the unit may be of bits or of bytes.
fn bits(number: &str, unit: &str) -> Result<Option<u64>, Invalid> {
    let written = unit.to_ascii_lowercase();
    let ending = |ending: &&str| written.strip_suffix(*ending);
    // The longest ending that fits leaves the shortest prefix.
    let prefixes = BIT_ENDINGS.iter().filter_map(ending);
    if let Some(prefix) = prefixes.min_by_key(|prefix| prefix.len())
        && !unit.ends_with("Bps")
    {
        return number::parse(&format!("{number}{prefix}bit"), BITS).map(Some);
    }
    ensure!(
        !written.contains("bit/"),
        "'{number}{unit}' is not per second: write bits per second, as in 10mbit"
    );
    // `10MB/s`, `10MBps`, `10Mb`.
    let prefix = written.trim_end_matches("/s").trim_end_matches("ps");
    let Some(prefix) = prefix.strip_suffix('b') else {
        return Ok(None);
    };
    let decimal = prefix.trim_end_matches('i');
    let bits = number::parse(&format!("{number}{decimal}bit"), BITS)?;
    let bytes = match prefix == decimal {
        true => bits,
        false => number::parse(&format!("{number}{prefix}b"), BYTES)?,
    };
    let shown = |bits| number::format(bits, BITS);
    Err(invalid!(
        "'{number}{unit}' may be bytes or bits per second: write {} for bytes, {} for bits",
        shown(bytes.saturating_mul(8)),
        shown(bits)
    ))
}

/// Reads the packets of a period: a part of a packet is a whole one of a longer period, 0.5/s is 1/2s.
fn packets(count: &str, period: u64) -> Result<(u64, u64), Invalid> {
    let (whole, fraction, factor) = number::parts(count, number::COUNTS)?;
    if let Some(amount) = number::scale(whole, fraction, factor) {
        return Ok((amount, period));
    }
    let fits = || {
        let places = u32::try_from(fraction.len()).ok()?;
        let longer = 10_u64.checked_pow(places)?;
        let amount = number::scale(&format!("{whole}{fraction}"), "", factor)?;
        let common = greatest_common_divisor(amount, longer);
        let period = period.checked_mul(longer / common)?;
        (amount > 0 && period <= PERIOD_MAX).then_some((amount / common, period))
    };
    fits().ok_or_else(|| {
        invalid!(
            "'{count}' is not a number of packets below 2^63: write one, as in 1500, 0.5 or 2k"
        )
    })
}

fn greatest_common_divisor(mut left: u64, mut right: u64) -> u64 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

/// Reads a period: `s`, `1m`, `6s`.
fn parse_period(text: &str) -> Result<u64, Invalid> {
    let wrong = || invalid!("'{text}' is not a period: write s, m, h or d, as in 300/m or 10/6s");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    // Fractions of a second are not needed: 10/0.5s is 20/s.
    if digits.contains('.') {
        return Err(wrong());
    }
    let with_number = if digits.is_empty() {
        format!("1{text}")
    } else {
        text.to_owned()
    };
    let period = number::parse(&with_number, PERIODS).map_err(|_| wrong())?;
    ensure!(
        (1..=PERIOD_MAX).contains(&period),
        "a period of '{text}' is out of range: write 1s to 208d"
    );
    Ok(period)
}

impl Rate {
    fn check(self) -> Result<Self, Invalid> {
        ensure!(
            self.amount > 0,
            "a rate of 0 would let nothing through: write a rate above 0, or take the interface down"
        );
        let (most, name) = match self.unit {
            Unit::Packets => (PACKETS_PER_SECOND_MAX, "1G/s"),
            Unit::Bytes => (BITS_PER_SECOND_MAX, "1tbit"),
        };
        let (amount, most) = (u128::from(self.amount), u128::from(most));
        let fits = amount * u128::from(SECOND) <= most * u128::from(self.period_ns);
        ensure!(fits, "the highest rate is {name}: write a lower one");
        Ok(self)
    }

    /// Compares two rates: the slower one is less. `None` if they count different units.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        let in_other = |rate: &Self, period: u64| u128::from(rate.amount) * u128::from(period);
        (self.unit == other.unit)
            .then(|| in_other(self, other.period_ns).cmp(&in_other(other, self.period_ns)))
    }

    /// A rate of `amount` packets per second.
    pub const fn packets_per_second(amount: u64) -> Self {
        Self {
            amount,
            period_ns: SECOND,
            unit: Unit::Packets,
        }
    }

    /// Tokens (packets or bytes) per period, rounded down.
    pub fn tokens_per_period(&self) -> u64 {
        self.tokens_in(self.period_ns)
    }

    /// Tokens (packets or bytes) in this many nanoseconds, rounded down.
    pub fn tokens_in(&self, nanoseconds: u64) -> u64 {
        let amount = u128::from(self.amount) * u128::from(nanoseconds);
        let amount = amount / u128::from(self.period_ns);
        let per_token = if self.unit == Unit::Bytes { 8 } else { 1 };
        u64::try_from(amount / per_token).unwrap_or(u64::MAX)
    }

    /// Tokens (packets or bytes) per second, exact enough to be shown.
    #[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
    pub fn per_second(&self) -> f64 {
        let per_token = if self.unit == Unit::Bytes { 8.0 } else { 1.0 };
        self.amount as f64 * SECOND as f64 / self.period_ns as f64 / per_token
    }
}

as_text!(Rate);
