//! Fuzz target for rates, bursts, keys, prefixes and other values of one word.

use std::{fmt, str::FromStr};

use limiter_user::config::{
    Burst, Invalid, Key, Rate, Unit, lists,
    matches::{PortRange, Protocol, TcpFlags},
    names,
};

use super::expect_one_line;

/// Reads a value. A valid one is shown so that it reads back; an invalid one gives a reason.
pub(super) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let text = text.as_ref();
    if let Some(rate) = reads_back::<Rate>(text) {
        is_what_is_written(text, &rate);
    }
    reads_back::<Key>(text);
    reads_back::<PortRange>(text);
    reads_back::<Protocol>(text);
    reads_back::<TcpFlags>(text);
    match text.parse::<Burst>() {
        Ok(burst) => {
            let shown: Burst = burst.to_string().parse().unwrap();
            assert_eq!(shown.tokens, burst.tokens, "{text:?}");
        }
        Err(why) => expect_one_line(&why.to_string()),
    }
    match lists::prefix(text) {
        Ok(prefix) => assert_eq!(lists::prefix(&lists::show(&prefix)), Ok(prefix)),
        Err(why) => expect_one_line(&why.to_string()),
    }
    for checked in [names::name(text), names::interface(text).map(drop)] {
        if let Err(why) = checked {
            expect_one_line(&why.to_string());
        }
    }
}

fn reads_back<T>(text: &str) -> Option<T>
where
    T: FromStr<Err = Invalid> + fmt::Display + fmt::Debug + PartialEq,
{
    match text.parse::<T>() {
        Ok(value) => {
            let shown = value.to_string();
            assert_eq!(shown.parse::<T>().as_ref(), Ok(&value), "shown as {shown}");
            Some(value)
        }
        Err(why) => {
            expect_one_line(&why.to_string());
            None
        }
    }
}

/// Checks that the digits before the unit, times the unit, are the amount in each period.
fn is_what_is_written(text: &str, rate: &Rate) {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let (Ok(amount), unit) = (digits.parse::<u64>(), &text[digits.len()..]) else {
        return;
    };
    const K: u64 = 1_000;
    let factor = match unit.trim_end_matches("/s").trim_end_matches("bit") {
        "" => 1,
        "k" => K,
        "m" | "M" if rate.period_ns == K * K * K => K * K,
        "g" | "G" => K * K * K,
        "t" => K * K * K * K,
        // A period follows the number.
        _ => return,
    };
    let counted = if unit.ends_with("bit") {
        Unit::Bytes
    } else {
        Unit::Packets
    };
    let wanted = Rate {
        amount: amount * factor,
        period_ns: K * K * K,
        unit: counted,
    };
    assert_eq!(*rate, wanted, "{text:?}");
}
