//! `--burst`: the number of tokens in a full bucket.

use serde::{Deserialize, Serialize};

use super::{Invalid, Rate, Text, Unit, as_text, ensure, invalid, number};
use crate::reader::quoted;

/// A number of packets, or of bytes for a bit rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Burst {
    /// Tokens; at least 1.
    pub tokens: u64,
    /// The unit that was written; `None` for a bare number, which fits either.
    pub unit: Option<Unit>,
}

/// Sizes are powers of 1024, as in `tc`, whatever their spelling.
pub const BYTES: &number::Suffixes = &[
    ("b", 1),
    ("kb|kib", 1 << 10),
    ("mb|mib", 1 << 20),
    ("gb|gib", 1 << 30),
];

impl Text for Burst {
    const IS_NUMBER: bool = true;

    fn read(text: &str) -> Result<Self, Invalid> {
        let (tokens, unit) = if text.ends_with(['b', 'B']) {
            let text = text.to_ascii_lowercase();
            (number::parse(&text, BYTES)?, Some(Unit::Bytes))
        } else {
            let is_bare = text.ends_with(|c: char| c.is_ascii_digit());
            let unit = (!is_bare).then_some(Unit::Packets);
            (number::parse(text, number::COUNTS)?, unit)
        };
        ensure!(
            tokens > 0,
            "a burst of 0 would let nothing through: write at least 1, or leave it out"
        );
        Ok(Self { tokens, unit })
    }

    fn shown(&self) -> String {
        match self.unit {
            Some(Unit::Bytes) => number::format(self.tokens, BYTES),
            Some(Unit::Packets) => number::format(self.tokens, number::COUNTS),
            None => self.tokens.to_string(),
        }
    }

    /// A number without a unit fits either unit, so packets need theirs.
    fn written_text(&self) -> String {
        const THOUSAND: u64 = 1_000;
        let (thousands, rest) = (self.tokens / THOUSAND, self.tokens % THOUSAND);
        match self.unit {
            None => self.tokens.to_string(),
            Some(Unit::Packets) if rest > 0 => quoted(format!("{thousands}.{rest:03}k")),
            Some(_) => quoted(self),
        }
    }
}

impl Burst {
    /// The burst of a rate without one: the amount of its period, as people mean 6/30s, but at least one packet, or one
    /// frame of `frame_max` bytes.
    pub fn default_for(rate: &Rate, frame_max: u64) -> Self {
        let least = match rate.unit {
            Unit::Bytes => frame_max,
            Unit::Packets => 1,
        };
        Self {
            tokens: rate.tokens_per_period().max(least),
            unit: Some(rate.unit),
        }
    }

    /// The burst for people: exact, and behind it roughly in a unit that they type, if it is a long number of bytes.
    pub fn for_people(&self) -> String {
        /// The bytes from which on a number of them says little.
        const LONG: u64 = 10_000;
        let exact = self.to_string();
        if self.unit != Some(Unit::Bytes)
            || self.tokens < LONG
            || self.tokens.is_multiple_of(1 << 10)
        {
            return exact;
        }
        let unit = BYTES
            .iter()
            .rev()
            .find(|(_, factor)| self.tokens >= *factor);
        let (names, factor) = unit.copied().unwrap_or(("b", 1));
        let name = names.split('|').next().unwrap_or_default();
        // In tenths, rounded; of more than 100, whole.
        let tenths = (10 * u128::from(self.tokens) + u128::from(factor) / 2) / u128::from(factor);
        match tenths {
            1_000.. => format!("{exact} (about {}{name})", (tenths + 5) / 10),
            _ => format!("{exact} (about {}.{}{name})", tenths / 10, tenths % 10),
        }
    }

    /// The burst itself, if it fits the rate's unit.
    pub fn for_rate(self, rate: &Rate) -> Result<Self, Invalid> {
        match (self.unit, rate.unit) {
            (Some(Unit::Packets), Unit::Bytes) => Err(invalid!(
                "burst {self} is in packets, rate {rate} in bits: write the burst in bytes, as in 64kb"
            )),
            (Some(Unit::Bytes), Unit::Packets) => Err(invalid!(
                "burst {self} is in bytes, rate {rate} in packets: write the burst in packets, as in 10"
            )),
            _ => Ok(Self {
                unit: Some(rate.unit),
                ..self
            }),
        }
    }
}

as_text!(Burst);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_of_bytes_have_a_rough_one_in_a_unit_behind_them() {
        for (text, wanted) in [
            ("12500000b", "12500000b (about 11.9mb)"),
            ("125000000b", "125000000b (about 119mb)"),
            ("250000b", "250000b (about 244kb)"),
            ("20000b", "20000b (about 19.5kb)"),
            ("2000b", "2000b"),
            ("64kb", "64kb"),
            ("3mb", "3mb"),
            ("12500k", "12500k"),
        ] {
            let burst: Burst = text.parse().unwrap();
            let shown = burst.for_people();
            assert_eq!(shown, wanted);
            let exact = shown.split(' ').next().unwrap();
            assert_eq!(exact.parse::<Burst>().unwrap(), burst);
        }
    }
}
