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

/// Formats a rate of packets in whole ones: `1234.4` as `1,234`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shown, not computed with; never negative"
)]
pub fn whole_packets(rate: f64) -> String {
    grouped(rate.round() as u64)
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

/// Formats packets per second: `4.9`, `1,234`; `-` if there is no earlier sample.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shown, not computed with; never negative"
)]
pub fn rate(per_second: Option<f64>) -> String {
    match per_second {
        None => "-".to_owned(),
        Some(rate) if rate > 0.0 && rate < 9.95 => format!("{rate:.1}"),
        Some(rate) => grouped(rate.round() as u64),
    }
}

/// Formats bits per second: `0 bit/s`, `5.2 kbit/s`, `1.3 Gbit/s`.
pub fn bits(per_second: f64) -> String {
    let units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
    let (mut value, mut unit) = (per_second, 0);
    // Rounded, 999.95 is 1000.0.
    while value >= 999.95 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} {}", units[unit]),
        _ => format!("{value:.1} {}", units[unit]),
    }
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
            [0.4, 1_234.4].map(whole_packets),
            ["0".to_owned(), "1,234".to_owned()]
        );
        assert_eq!(
            ["-", "0", "0.4", "10", "1,235"],
            [None, Some(0.0), Some(0.4), Some(9.99), Some(1234.6)].map(rate)[..]
        );
        assert_eq!(
            [
                "0 bit/s",
                "900 bit/s",
                "1.0 kbit/s",
                "5.2 Mbit/s",
                "12.0 Tbit/s"
            ],
            [0.0, 900.0, 999.96, 5_240_000.0, 12e12].map(bits)[..]
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
