//! A prefix on a list that a fleet shares, with the author and the times that the store keeps.

use std::time::{Duration, Instant};

use ipnet::IpNet;
use serde::Deserialize;

use super::{engine::Written, names::is_label};

/// A prefix on a list of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPrefix {
    /// The prefix.
    pub prefix: IpNet,
    /// Name of the host that added the prefix; then `: ` and the reason, if there is one.
    pub author: String,
    /// Time at which the prefix was read.
    pub read_at: Instant,
    /// Time since the prefix was added, when it was read.
    pub age: Duration,
    /// Time until the prefix expires, when it was read; without it, the prefix stays until it is removed.
    pub left: Option<Duration>,
}

/// The value of a prefix in the store: JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Value {
    #[serde(rename = "by")]
    author: String,
    #[serde(rename = "at")]
    added: u64,
    until: Option<u64>,
}

impl StoredPrefix {
    /// Time since the prefix was added.
    pub fn age_at(&self, now: Instant) -> Duration {
        self.age + now.saturating_duration_since(self.read_at)
    }

    /// Time until the prefix expires; zero if it has.
    pub fn left_at(&self, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(self.read_at);
        self.left.map(|left| left.saturating_sub(since))
    }

    /// Reads a prefix and its value at the store's time `now`. None if they are malformed, or expired.
    pub(super) fn read(written: &Written, now: u64) -> Option<Self> {
        let text = std::str::from_utf8(&written.prefix).ok()?;
        let prefix: IpNet = text.parse().ok()?;
        // Accepts only the spelling that limiter writes. Otherwise one prefix could be on the list twice.
        if prefix.trunc().to_string() != text {
            return None;
        }
        let Value {
            author,
            added,
            until,
        } = serde_json::from_slice(&written.value).ok()?;
        if !is_label(&author) || until.is_some_and(|until| until <= now) {
            return None;
        }
        Some(Self {
            prefix,
            author,
            read_at: Instant::now(),
            age: Duration::from_micros(now.saturating_sub(added)),
            left: until.map(|until| Duration::from_micros(until - now)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(prefix: &str, value: &str) -> Option<StoredPrefix> {
        let [prefix, value] = [prefix, value].map(|text| text.as_bytes().to_vec());
        StoredPrefix::read(&Written { prefix, value }, 1_000)
    }

    #[test]
    fn only_well_formed_list_entries_are_read() {
        let good = read("192.0.2.0/24", r#"{"by":"me","at":400,"until":1500}"#).unwrap();
        assert_eq!(good.age, Duration::from_micros(600));
        assert_eq!(good.left, Some(Duration::from_micros(500)));
        let value = r#"{"by":"me","at":400,"until":null}"#;
        assert!(read("2001:db8::/32", value).is_some());
        for prefix in [
            "192.0.2.1/24",
            "192.0.2.0",
            "192.0.2.0/33",
            "2001:DB8::/32",
            "x",
        ] {
            assert_eq!(read(prefix, value), None, "{prefix}");
        }
        for value in [
            "",
            "{}",
            r#"{"by":"me","at":400,"until":1000}"#,
            r#"{"by":"me","at":-1,"until":null}"#,
            r#"{"by":"","at":1,"until":null}"#,
            "{\"by\":\"\\u001b\",\"at\":1,\"until\":null}",
            r#"{"by":"me","at":1,"until":null,"more":1}"#,
            r#"{"by":"me","at":1.5,"until":null}"#,
        ] {
            assert_eq!(read("192.0.2.0/24", value), None, "{value}");
        }
    }
}
