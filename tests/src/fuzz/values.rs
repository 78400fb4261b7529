//! Fuzz target for rates, bursts, keys, prefixes and other values of one word.

use std::{fmt, str::FromStr};

use limiter_config::{
    Burst, Invalid, Key, Rate, Time, lists,
    matches::{Destination, Dscp, Hex, IcmpType, Lengths, PortRange, Protocol, TcpFlags, Ttl},
    names,
};

use super::message::expect_one_line;

/// Reads a value. A valid one is shown so that it reads back; an invalid one gives a reason.
pub(super) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let text = text.as_ref();
    reads_back::<Rate>(text);
    reads_back::<Key>(text);
    reads_back::<PortRange>(text);
    reads_back::<Protocol>(text);
    reads_back::<TcpFlags>(text);
    reads_back::<Lengths>(text);
    reads_back::<Ttl>(text);
    reads_back::<Dscp>(text);
    reads_back::<IcmpType>(text);
    reads_back::<Destination>(text);
    reads_back::<Hex>(text);
    reads_back::<Time>(text);
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

fn reads_back<T>(text: &str)
where
    T: FromStr<Err = Invalid> + fmt::Display + fmt::Debug + PartialEq,
{
    match text.parse::<T>() {
        Ok(value) => {
            let shown = value.to_string();
            assert_eq!(shown.parse::<T>(), Ok(value), "shown as {shown}");
        }
        Err(why) => expect_one_line(&why.to_string()),
    }
}
