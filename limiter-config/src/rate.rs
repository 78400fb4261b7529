//! `RATE`: packets per period, or bits per second as in `tc`.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::{Invalid, Text, as_text, ensure, invalid, number};

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
const BITS: &[(&str, u64)] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
];
const PERIODS: &[(&str, u64)] = &[
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3_600 * SECOND),
    ("d", 86_400 * SECOND),
];

/// The highest rates. Above them a token is worth so few ticks that rounding would show.
const PACKETS_PER_SECOND_MAX: u64 = 1_000_000_000;
const BITS_PER_SECOND_MAX: u64 = 1_000_000_000_000;
/// The longest period, 208 days: the depth of the deepest bucket (`limiter_common::arithmetic::bucket::TAU_MAX`).
const PERIOD_MAX: u64 = 1 << 54;

impl Text for Rate {
    const IS_NUMBER: bool = true;

    fn read(text: &str) -> Result<Self, Invalid> {
        let rate = if text.ends_with("bit") {
            Self {
                amount: number::parse(text, BITS)?,
                period_ns: SECOND,
                unit: Unit::Bytes,
            }
        } else {
            let (count, period) = text.split_once('/').unwrap_or((text, "s"));
            Self {
                amount: number::parse(count, number::COUNTS)
                    .map_err(|why| or_in_bits(count, why))?,
                period_ns: parse_period(period)?,
                unit: Unit::Packets,
            }
        };
        rate.check()
    }

    fn shown(&self) -> String {
        if self.unit == Unit::Bytes {
            return number::format(self.amount, BITS);
        }
        let period = match PERIODS.iter().find(|(_, unit)| *unit == self.period_ns) {
            Some((unit, _)) => (*unit).to_owned(),
            None => number::format(self.period_ns, PERIODS),
        };
        let amount = number::format(self.amount, number::COUNTS);
        format!("{amount}/{period}")
    }
}

/// Adds a hint for users who write 10mb or 10mbps and mean bits.
fn or_in_bits(count: &str, Invalid(why): Invalid) -> Invalid {
    if count.contains(['b', 'B']) {
        return invalid!("{why}; for bits per second, write kbit, mbit or gbit, as in 10mbit");
    }
    Invalid(why)
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
