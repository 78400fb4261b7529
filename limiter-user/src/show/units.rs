//! Numbers for people.

use std::time::{Duration, SystemTime};

use humantime::{format_duration, parse_rfc3339};
use indicatif::{HumanBytes, HumanCount};

/// Formats `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Formats a number with its noun: `1 limit`, `2 limits`. The plural takes `s`, or `es` as in `prefixes`.
pub fn counted(number: u64, word: &str) -> String {
    let ending = match number {
        1 => "",
        _ if word.ends_with('x') => "es",
        _ => "s",
    };
    format!("{} {word}{ending}", grouped(number))
}

/// Formats `10485760` as `10.00 MiB`.
pub fn bytes(number: u64) -> String {
    HumanBytes(number).to_string()
}

/// Formats seconds in whole units, rounded up: `479.5` as `8m`, `3720.0` as `1h 2m`.
pub fn whole(seconds: f64) -> String {
    let time = Duration::try_from_secs_f64(seconds.ceil()).unwrap_or(Duration::MAX);
    format_duration(time).to_string()
}

/// Formats `0.2` as `0.2 s`, `3600.0` as `1h`.
pub fn seconds(value: f64) -> String {
    if value < 60.0 {
        return format!("{} s", (value * 1000.0).ceil() / 1000.0);
    }
    whole(value)
}

/// Formats `9_870_000.0` as `9.87 Mbit/s`.
pub fn bits_per_second(rate: f64) -> String {
    let units = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
    match units.into_iter().find(|(unit, _)| rate >= *unit) {
        Some((unit, name)) => format!("{:.2} {name}", rate / unit),
        None => format!("{rate:.0} bit/s"),
    }
}

/// Formats a time in its two largest units: one of 90,061 seconds as `1d 1h`.
fn roughly(time: Duration) -> String {
    let text = format_duration(Duration::from_secs(time.as_secs())).to_string();
    let units: Vec<_> = text.split(' ').take(2).collect();
    units.join(" ")
}

/// Adds the distance to a moment of the past (RFC 3339): `3m 12s ago (2026-11-29T13:44:05Z)`.
pub fn ago(moment: &str, now: SystemTime) -> String {
    let distance = parse_rfc3339(moment).map(|then| now.duration_since(then).unwrap_or_default());
    match distance {
        Ok(time) if time.as_secs() == 0 => format!("now ({moment})"),
        Ok(time) => format!("{} ago ({moment})", roughly(time)),
        // Not a moment: shown as it is.
        Err(_) => moment.to_owned(),
    }
}

/// Adds the distance to a moment of the future (RFC 3339): `in 1m 50s (2026-11-29T13:44:05Z)`.
pub fn ahead(moment: &str, now: SystemTime) -> String {
    match parse_rfc3339(moment).map(|then| then.duration_since(now).unwrap_or_default()) {
        Ok(time) => format!("in {} ({moment})", roughly(time)),
        Err(_) => moment.to_owned(),
    }
}

/// Formats a bound of delays as `, 99 % below 16.8 ms`; empty without a known one.
pub fn below(most: Option<f64>) -> String {
    let text = |most| format!(", 99 % below {:.1} ms", 1e3 * most);
    most.map(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_for_people() {
        assert_eq!(
            ["0", "999", "1,000", "1,234,567"],
            [0, 999, 1_000, 1_234_567].map(grouped)[..]
        );
        assert_eq!(
            ["0 prefixes", "1 prefix", "1,000 limits"],
            [
                counted(0, "prefix"),
                counted(1, "prefix"),
                counted(1_000, "limit")
            ]
        );
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(10 << 20), "10.00 MiB");
        assert_eq!(seconds(0.2), "0.2 s");
        assert_eq!(seconds(720.0), "12m");
        assert_eq!(
            [0.0, 999.0, 1_500.0, 9_870_000.0, 2e10].map(bits_per_second),
            [
                "0 bit/s",
                "999 bit/s",
                "1.50 kbit/s",
                "9.87 Mbit/s",
                "20.00 Gbit/s"
            ]
        );
    }

    #[test]
    fn moments_are_shown_with_their_distance() {
        let moment = "2026-11-29T13:44:05Z";
        let then = parse_rfc3339(moment).unwrap();
        let after = |seconds| ago(moment, then + Duration::from_secs(seconds));
        assert_eq!(after(0), format!("now ({moment})"));
        assert_eq!(after(192), format!("3m 12s ago ({moment})"));
        assert_eq!(after(90_061), format!("1day 1h ago ({moment})"));
        let before = |seconds| ahead(moment, then - Duration::from_secs(seconds));
        assert_eq!(before(110), format!("in 1m 50s ({moment})"));
        // A clock that was set back or forward shows no negative time.
        assert_eq!(ago(moment, then - Duration::from_secs(9)), after(0));
        assert_eq!(
            ahead(moment, then + Duration::from_secs(9)),
            format!("in 0s ({moment})")
        );
        assert_eq!(ago("unknown", then), "unknown");
    }
}
