//! Numbers for people.

use std::time::Duration;

use humantime::format_duration;
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
    }
}
