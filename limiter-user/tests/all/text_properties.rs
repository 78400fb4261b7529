//! Rates, bursts and keys are shown so that they read back.

use limiter_config::{
    Burst, Key, Rate, Unit,
    key::{Bits, Parts},
};

use crate::exact::{cases, draw::magnitude};
use proptest::{prelude::*, sample::select};

/// Digits, with or without a fraction.
fn numbers() -> impl Strategy<Value = String> + Clone {
    let fraction = prop_oneof![
        4 => Just(String::new()),
        1 => Just(".5".to_owned()),
        1 => Just(".25".to_owned()),
        1 => "\\.[0-9]{1,3}",
    ];
    (prop_oneof![3 => magnitude(1 << 40), 1 => Just(0)], fraction)
        .prop_map(|(whole, fraction)| format!("{whole}{fraction}"))
}

fn periods() -> impl Strategy<Value = String> {
    let written = (1..=300_u32).prop_map(|number| number.to_string());
    let number = prop_oneof![3 => written, 1 => Just(String::new())];
    (number, select(&["s", "m", "h", "d"])).prop_map(|(number, unit)| format!("{number}{unit}"))
}

/// Texts that look like rates; most are valid.
fn rate_texts() -> impl Strategy<Value = String> {
    let counts = (numbers(), select(&["", "k", "M", "G"]));
    prop_oneof![
        1 => counts.clone().prop_map(|(number, unit)| format!("{number}{unit}")),
        3 => (counts, periods())
            .prop_map(|((number, unit), period)| format!("{number}{unit}/{period}")),
        3 => (numbers(), select(&["bit", "kbit", "mbit", "gbit", "tbit"]))
            .prop_map(|(number, unit)| format!("{number}{unit}")),
    ]
}

fn bits() -> impl Strategy<Value = Bits> {
    (0..=32_u8, 0..=128_u8).prop_map(|(ipv4, ipv6)| Bits { ipv4, ipv6 })
}

fn burst_texts() -> impl Strategy<Value = String> {
    (
        numbers(),
        select(&["", "k", "M", "G", "b", "kb", "mb", "gb"]),
    )
        .prop_map(|(number, unit)| format!("{number}{unit}"))
}

/// Values of `T` parsed from texts.
fn read<T: std::str::FromStr + std::fmt::Debug>(
    texts: impl Strategy<Value = String>,
) -> impl Strategy<Value = T> {
    texts.prop_filter_map("reads", |text| text.parse().ok())
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_rate_reads_back(rate in read::<Rate>(rate_texts())) {
        let shown = rate.to_string();
        prop_assert_eq!(shown.parse(), Ok(rate), "shown as {}", shown);
    }

    /// A burst is shown so that it reads back with the same meaning at every rate that it is valid with. `1.5k` is
    /// shown as 1500, which is also valid with rates of bits.
    #[test]
    fn a_burst_reads_back(
        burst in read::<Burst>(burst_texts()),
        rate in read::<Rate>(rate_texts()),
    ) {
        let read = burst.to_string().parse::<Burst>();
        prop_assert_eq!(read.as_ref().map(|read| read.tokens), Ok(burst.tokens));
        match burst.for_rate(&rate) {
            Ok(fitting) => {
                prop_assert_eq!(fitting.unit, Some(rate.unit));
                prop_assert!(burst.unit.is_none_or(|unit| unit == rate.unit));
                prop_assert_eq!(read.and_then(|read| read.for_rate(&rate)), Ok(fitting));
                let again = fitting.to_string().parse::<Burst>();
                prop_assert_eq!(again.and_then(|again| again.for_rate(&rate)), Ok(fitting));
            }
            Err(_) => prop_assert!(burst.unit.is_some_and(|unit| unit != rate.unit)),
        }
    }

    #[test]
    fn a_key_reads_back(source in bits(), destination in bits(), by_port: bool, by_vlan: bool) {
        for parts in [
            Parts::Interface,
            Parts::Source(source),
            Parts::Destination(destination),
            Parts::Pair(source, destination),
        ] {
            let by_vlan = by_vlan && !by_port;
            let key = Key { parts, by_port, by_vlan };
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }
    }

    /// A decimal fraction of a unit has its written value, or is refused if that is not whole: `1.5k` is 1500, and
    /// `1.5` is invalid.
    #[test]
    fn number_has_its_written_value_or_is_refused(
        whole in magnitude(1 << 40),
        fraction in "[0-9]{1,6}",
        (unit, factor) in select(&[
            ("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000),
            ("b", 1), ("kb", 1 << 10), ("mb", 1 << 20), ("gb", 1 << 30),
            ("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("tbit", 1_000_000_000_000),
        ]),
    ) {
        let parts = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
        let of_a_part: u128 = format!("{whole}{fraction}").parse().unwrap_or(0);
        let exactly = of_a_part * factor;
        let expected = u64::try_from(exactly / parts).ok();
        let expected = expected.filter(|_| exactly.is_multiple_of(parts));
        let text = format!("{whole}.{fraction}{unit}");
        if unit.ends_with("bit") {
            let expected = expected.filter(|bits| *bits <= 1_000_000_000_000);
            prop_assert_eq!(text.parse::<Rate>().ok().map(|rate| rate.amount), expected);
        } else {
            let expected = expected.filter(|tokens| *tokens < 1 << 63);
            let burst = text.parse::<Burst>().ok();
            prop_assert_eq!(burst.map(|burst| burst.tokens), expected);
            let unit = match unit {
                "" => None,
                "k" | "M" | "G" => Some(Unit::Packets),
                _ => Some(Unit::Bytes),
            };
            prop_assert!(burst.is_none_or(|burst| burst.unit == unit));
        }
    }
}
