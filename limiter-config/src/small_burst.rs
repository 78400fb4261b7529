//! Bursts of bit rates that are too small for the frames of an interface.

use super::{Invalid, Limit, Protocol, Unit};

/// Frames that TCP sends at once: its initial window (RFC 6928).
const AT_ONCE: u64 = 10;
/// The most bytes that TCP hands to an interface at once (`GSO_LEGACY_MAX_SIZE`, include/linux/netdevice.h).
const OFFLOADED: u64 = 65_536;

impl Limit {
    /// The reason why a full bucket never admits a frame of `frame_max` bytes, with what to write. `before`: the longest
    /// frame of the interface when the limit was put in force. Default bursts are made for that one.
    pub fn never_admits(&self, before: u64, frame_max: u64) -> Option<Invalid> {
        let burst = self.burst(before).ok();
        let written = Self {
            burst,
            ..self.clone()
        };
        written.quota(frame_max).err()
    }

    /// A warning about a burst that costs TCP most of the rate, on an interface with frames of up to `frame_max` bytes.
    pub fn slows_tcp(&self, frame_max: u64) -> Option<String> {
        let has_tcp = (self.matches.protocol).is_none_or(|protocol| protocol == Protocol::TCP);
        // Delayed packets are not lost.
        if self.rate.unit == Unit::Packets || !has_tcp || self.max_delay.is_some() {
            return None;
        }
        let burst = self.burst(frame_max).ok()?;
        let enough = (AT_ONCE * frame_max).min(OFFLOADED).max(frame_max);
        let Self { name, rate, .. } = self;
        (burst.tokens < enough).then(|| {
            format!(
                "limit '{name}': a burst of {burst} is less than TCP sends at once, and lost segments cost it up to nine tenths of {rate}: write a burst of at least {enough}b"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(rate: &str, burst: &str) -> Limit {
        Limit {
            burst: (!burst.is_empty()).then(|| burst.parse().unwrap()),
            ..Limit::new("a", rate.parse().unwrap())
        }
    }

    #[test]
    fn burst_below_a_raised_mtu_never_admits_a_frame() {
        for (rate, burst, frame_max, says) in [
            (
                "10mbit",
                "2000b",
                9_022,
                "a burst of 2000b could never admit a frame of 9022 bytes",
            ),
            ("10mbit", "2000b", 1_522, ""),
            // The default is one second of the rate, but was made for the shorter frames.
            ("64kbit", "", 9_022, "a burst of 8000b could never"),
            ("10mbit", "", 9_022, ""),
            ("5/s", "1", 9_022, ""),
        ] {
            let why = limit(rate, burst).never_admits(1_522, frame_max);
            let why = why.map(|why| why.to_string()).unwrap_or_default();
            assert_eq!(why.is_empty(), says.is_empty(), "{rate}: {why}");
            assert!(why.starts_with(says), "{rate}: {why}");
        }
    }

    #[test]
    fn burst_of_few_frames_slows_tcp() {
        let warns = |limit: &Limit, frame_max| limit.slows_tcp(frame_max).is_some();
        for (rate, burst, frame_max, expected) in [
            ("10mbit", "1522b", 1_522, true),
            ("10mbit", "15219b", 1_522, true),
            ("10mbit", "15220b", 1_522, false),
            ("10mbit", "64kb", 9_022, false),
            ("10mbit", "65535b", 9_022, true),
            ("10mbit", "", 1_522, false),
            ("64kbit", "", 1_522, true),
            // In the network stack, a frame may be several that were merged.
            ("10mbit", "65558", 65_558, false),
            ("10/s", "1", 1_522, false),
        ] {
            assert_eq!(
                warns(&limit(rate, burst), frame_max),
                expected,
                "{rate} {burst}"
            );
        }
        let mut one = limit("10mbit", "1522b");
        one.matches.protocol = Some(Protocol::TCP);
        assert!(warns(&one, 1_522));
        one.matches.protocol = Some(Protocol(17));
        assert!(!warns(&one, 1_522));
        let delayed = Limit {
            max_delay: Some("50ms".parse().unwrap()),
            ..limit("10mbit", "1522b")
        };
        assert!(!warns(&delayed, 1_522), "no segment is lost");
    }
}
