//! Bursts of bit rates that are too small for the frames of an interface, and limits that stall TCP connections.

use super::{Algorithm, Burst, Invalid, Limit, Protocol, Rate, Unit};

/// The shortest time that a sender of TCP waits for an acknowledgement of its last segment (`TCP_RTO_MIN`,
/// include/net/tcp.h).
const WAIT: u64 = 200_000_000;
/// Such times in a second.
const WAITS: u64 = 1_000_000_000 / WAIT;

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

    /// A warning about a burst that leaves TCP less than half of the rate. A sender that loses all that it sends at once
    /// waits: it gets a burst in each [`WAIT`] (measured at 1 to 100 Mbit/s, with bursts of 1.5 KB to 1.5 MB).
    pub fn slows_tcp(&self) -> Option<String> {
        let Self { name, rate, .. } = self;
        let burst = self.burst?.for_rate(rate).ok()?;
        let has_tcp = (self.matches.protocol).is_none_or(|protocol| protocol == Protocol::TCP);
        // Delayed packets are not lost.
        let is_policed = self.algorithm == Algorithm::TokenBucket && self.max_delay.is_none();
        let enough = rate.tokens_in(WAIT);
        if rate.unit == Unit::Packets || !has_tcp || !is_policed || burst.tokens >= enough / 2 {
            return None;
        }
        let gets = Rate {
            amount: (8 * WAITS).saturating_mul(burst.tokens),
            ..*rate
        };
        let least = Burst {
            // People type units without a fraction.
            tokens: enough.next_multiple_of(1 << 10),
            unit: Some(Unit::Bytes),
        };
        Some(format!(
            "limit '{name}': with a burst of {burst}, a TCP connection gets about {gets} of {rate}, because its sender waits each time the bucket is empty: write a burst of at least {least}, or leave it out"
        ))
    }

    /// A warning about a limit of less than a packet per second that counts each segment of the TCP connections to a port.
    /// `are_exempt`: those of open connections are exempt.
    pub fn stalls_tcp(&self, are_exempt: bool) -> Option<String> {
        /// A burst of a few logins.
        const ENOUGH: u64 = 100;
        let Self {
            name,
            rate,
            matches,
            ..
        } = self;
        let is_of_tcp = match matches.protocol {
            Some(protocol) => protocol == Protocol::TCP,
            None => !matches.destination_port.is_empty(),
        };
        let chooses = matches.tcp_flags.is_some() || matches.established.is_some();
        let is_slow = rate.unit == Unit::Packets && rate.tokens_in(1_000_000_000) == 0;
        let has_room = || {
            let burst = self.burst(0).ok();
            burst.is_some_and(|burst| burst.tokens >= ENOUGH)
        };
        if are_exempt || !is_of_tcp || chooses || !is_slow || has_room() {
            return None;
        }
        Some(format!(
            "limit '{name}': {rate} counts each packet of a TCP connection, and a login takes dozens, so that connections stall: `--flags syn`, or tcp_flags = \"syn\" in a file, counts requests to connect"
        ))
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
    fn limits_per_minute_on_each_packet_of_connections_stall_them() {
        let to_ssh = |protocol, rate: &str, burst: &str| {
            let mut to_ssh = limit(rate, burst);
            to_ssh.matches.protocol = protocol;
            to_ssh.matches.destination_port = vec!["22".parse().unwrap()];
            to_ssh
        };
        let (tcp, udp) = (Some(Protocol::TCP), Some(Protocol::UDP));
        let warns = |limit: &Limit| limit.stalls_tcp(false).is_some();
        assert!(warns(&to_ssh(tcp, "5/m", "")));
        assert!(warns(&to_ssh(None, "30/m", "10")));
        assert!(!warns(&to_ssh(udp, "5/m", "")));
        assert!(!warns(&to_ssh(tcp, "5/s", "")));
        assert!(!warns(&to_ssh(tcp, "5/m", "100")), "room for some logins");
        assert!(!warns(&to_ssh(tcp, "64kbit", "")));
        assert!(!warns(&limit("5/m", "")), "on everything");
        assert_eq!(to_ssh(tcp, "5/m", "").stalls_tcp(true), None, "exempt");
        let mut requests = to_ssh(tcp, "5/m", "");
        requests.matches.tcp_flags = Some("syn".parse().unwrap());
        assert!(!warns(&requests));
    }

    #[test]
    fn burst_of_less_than_a_tenth_of_a_second_slows_tcp() {
        let warns = |limit: &Limit| limit.slows_tcp().unwrap_or_default();
        for (rate, burst, says) in [
            (
                "10mbit",
                "2000b",
                "a TCP connection gets about 80kbit of 10mbit, because its sender waits each time the bucket is empty: write a burst of at least 245kb",
            ),
            ("10mbit", "124999b", "at least 245kb"),
            ("10mbit", "125000b", ""),
            ("1mbit", "12kb", "at least 25kb"),
            ("64kbit", "1522b", ""),
            ("10mbit", "", ""),
            ("64kbit", "", ""),
            ("10/s", "1", ""),
        ] {
            let warning = warns(&limit(rate, burst));
            assert_eq!(
                warning.is_empty(),
                says.is_empty(),
                "{rate} {burst}: {warning}"
            );
            assert!(warning.contains(says), "{warning}");
        }
        let mut matching = limit("10mbit", "2000b");
        matching.matches.protocol = Some(Protocol::TCP);
        assert_ne!(warns(&matching), "");
        matching.matches.protocol = Some(Protocol(17));
        assert_eq!(warns(&matching), "");
        let delayed = Limit {
            max_delay: Some("50ms".parse().unwrap()),
            ..limit("10mbit", "2000b")
        };
        assert_eq!(warns(&delayed), "", "no segment is lost");
        let windows = Limit {
            algorithm: Algorithm::FixedWindow,
            ..limit("10mbit", "2000b")
        };
        assert_eq!(warns(&windows), "");
    }
}
