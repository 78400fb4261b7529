//! A factor, as in `x0.5`: scales a rate or a burst that is in force.

use std::{cmp::Ordering, fmt};

use super::{Invalid, Text, as_text, invalid, number};

/// A factor from `x0.001` to `x1000`, in thousandths: exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor(u64);

/// Thousandths in one.
pub(super) const ONE: u64 = 1_000;
const MOST: u64 = 1_000 * ONE;

impl Text for Factor {
    fn read(text: &str) -> Result<Self, Invalid> {
        let number = text.strip_prefix('x').unwrap_or_default();
        let thousandths = number::parse(number, &[("", ONE)]).ok();
        let thousandths = thousandths.filter(|number| (1..=MOST).contains(number));
        thousandths.map(Self).ok_or_else(|| {
            invalid!(
                "'{}' is not a factor: write x0.001 to x1000 with up to 3 decimals, as in x0.5",
                text.escape_debug()
            )
        })
    }

    fn shown(&self) -> String {
        let decimals = format!("{:03}", self.0 % ONE);
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        format!("x{}{point}{decimals}", self.0 / ONE)
    }
}

impl Factor {
    /// The product with `number`, in thousandths.
    pub(super) fn thousandths_of(self, number: u64) -> u128 {
        u128::from(number) * u128::from(self.0)
    }

    /// The product with `number` as a whole number. Factors below 1 round down and factors above 1 up, so that every
    /// factor moves the number in its own direction. `what` names the number in errors.
    pub fn of(self, number: u64, what: &dyn fmt::Display) -> Result<u64, Invalid> {
        let exact = self.thousandths_of(number);
        let rounded = match self.0.cmp(&ONE) {
            Ordering::Greater => exact.div_ceil(ONE.into()),
            _ => exact / u128::from(ONE),
        };
        if rounded == 0 {
            let smallest = Self(ONE.div_ceil(number.max(1)));
            return Err(invalid!(
                "{what} {self} is less than 1: the smallest factor for it is {smallest}"
            ));
        }
        u64::try_from(rounded)
            .ok()
            .filter(|product| *product < 1 << 63)
            .ok_or_else(|| invalid!("{what} {self} is too large: write a smaller factor"))
    }
}

as_text!(Factor);
