//! Configurations as text, and again as plain functions.

use std::net::IpAddr;

use limiter_common::table::key::SourceKey;

use super::oracle::Seen;

/// A configuration.
#[derive(Debug)]
pub(super) struct Configuration {
    /// The configuration file.
    pub text: &'static str,
    /// The limits.
    pub limits: &'static [Limit],
    /// Whether limits match on anything after the fixed part of the IP header.
    pub looks: bool,
    /// Whether control traffic has its own limits, which are the last two.
    pub control: bool,
}

/// A limit with a burst of one.
#[derive(Debug)]
pub(super) struct Limit {
    /// Selects the packets of the limit, among those that are not control traffic.
    pub holds: fn(&Seen) -> bool,
    /// Prefix lengths of IPv4 and IPv6; none if one bucket is for all.
    pub bits: Option<(u32, u32)>,
    /// Whether each destination port has its own bucket.
    pub by_port: bool,
}

impl Limit {
    /// The key of a source's bucket.
    pub fn key(&self, slot: u32, source: IpAddr, port: u16) -> SourceKey {
        let mut bytes = [0; 16];
        let family = match (self.bits, source) {
            (None, _) => 0,
            (Some((bits, _)), IpAddr::V4(v4)) => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                bytes[..4].copy_from_slice(&(v4.to_bits() & mask).to_be_bytes());
                4
            }
            (Some((_, bits)), IpAddr::V6(v6)) => {
                // Each neighbour has its own bucket.
                let bits = if v6.is_unicast_link_local() && bits > 10 {
                    128
                } else {
                    bits
                };
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                bytes = (v6.to_bits() & mask).to_be_bytes();
                6
            }
        };
        let half = |from: usize| u64::from_ne_bytes(bytes[from..from + 8].try_into().unwrap());
        let port = if self.by_port { port } else { 0 };
        SourceKey {
            address: [half(0), half(8)],
            scope: family | slot << 8 | u32::from(port) << 16,
            reserved: 0,
        }
    }
}

const BY_SOURCE: Limit = Limit {
    holds: |_| true,
    bits: Some((32, 64)),
    by_port: false,
};

const CONTROL: Limit = Limit {
    holds: |_| false,
    ..BY_SOURCE
};

const CONTROL_TOTAL: Limit = Limit {
    bits: None,
    ..CONTROL
};

/// The fast path, lists, and everything that a limit can match.
pub(super) static CONFIGURATIONS: [Configuration; 7] = [
    Configuration {
        text: "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nburst = 1\n",
        limits: &[BY_SOURCE],
        looks: false,
        control: false,
    },
    Configuration {
        text: "malformed = \"pass\"\n[[limit]]\nname = \"a\"\nkey = \"/24,/128\"\nrate = \"1/s\"\nburst = 1\n",
        limits: &[Limit {
            bits: Some((24, 128)),
            ..BY_SOURCE
        }],
        looks: false,
        control: false,
    },
    Configuration {
        text: "shadow = true\n[[limit]]\nname = \"a\"\nkey = \"/0,/0\"\nrate = \"1/s\"\nburst = 1\n",
        limits: &[Limit {
            bits: Some((0, 0)),
            ..BY_SOURCE
        }],
        looks: false,
        control: false,
    },
    Configuration {
        text: "[lists]\nallow = [\"203.0.113.0/24\", \"2001:db8:a::/48\"]\n\
            deny = [\"198.51.100.66\", \"203.0.113.128/25\", \"2001:db8:d::/64\"]\n\
            [[limit]]\nname = \"a\"\nrate = \"1/s\"\nburst = 1\n\
            [[limit]]\nname = \"six\"\nmatch = { ip_version = 6 }\nkey = \"interface\"\nrate = \"1/s\"\nburst = 1\n",
        limits: &[
            BY_SOURCE,
            Limit {
                holds: |seen| seen.source.is_ipv6(),
                bits: None,
                by_port: false,
            },
        ],
        looks: false,
        control: false,
    },
    Configuration {
        text: "[[limit]]\nname = \"dns\"\nmatch = { protocol = \"udp\", destination_port = [53, \"5300-5353\"] }\nrate = \"1/s\"\nburst = 1\n\
            [[limit]]\nname = \"syn\"\nmatch = { protocol = \"tcp\", tcp_flags = \"syn\" }\nkey = \"/24,/48\"\nrate = \"1/s\"\nburst = 1\n\
            [[limit]]\nname = \"ports\"\nmatch = { fragments = false }\nkey = \"/32,/64,destination_port\"\nrate = \"1/s\"\nburst = 1\n\
            [[limit]]\nname = \"fragments\"\nmatch = { fragments = true }\nkey = \"/16,/32\"\nrate = \"1/s\"\nburst = 1\n",
        limits: &[
            Limit {
                holds: |seen| {
                    let dns = |port| port == 53 || (5300..=5353).contains(&port);
                    seen.protocol.may(|protocol| *protocol == 17)
                        && seen.ports.may(|(_, to)| dns(*to))
                },
                ..BY_SOURCE
            },
            Limit {
                // SYN alone, of FIN, SYN, RST and ACK.
                holds: |seen| seen.flags.may(|flags| flags & 0b1_0111 == 0b10),
                bits: Some((24, 48)),
                by_port: false,
            },
            Limit {
                holds: |seen| seen.fragment.may(|fragment| !fragment),
                bits: Some((32, 64)),
                by_port: true,
            },
            Limit {
                holds: |seen| seen.fragment.may(|fragment| *fragment),
                bits: Some((16, 32)),
                by_port: false,
            },
        ],
        looks: true,
        control: false,
    },
    Configuration {
        text: "exempt = [\"control\"]\n[lists]\ndeny = [\"198.51.100.66\", \"2001:db8:d::/64\"]\nallow = [\"203.0.113.0/24\"]\n\
            [[limit]]\nname = \"icmp\"\nmatch = { protocol = \"icmpv6\" }\nkey = \"/32,/128\"\nrate = \"1/s\"\nburst = 1\n\
            [[limit]]\nname = \"from\"\nmatch = { source_port = \"0-1023\" }\nrate = \"1/s\"\nburst = 1\n",
        limits: &[
            Limit {
                holds: |seen| seen.protocol.may(|protocol| *protocol == 58),
                bits: Some((32, 128)),
                by_port: false,
            },
            Limit {
                holds: |seen| seen.ports.may(|(from, _)| *from < 1_024),
                ..BY_SOURCE
            },
            CONTROL,
            CONTROL_TOTAL,
        ],
        looks: true,
        control: true,
    },
    Configuration {
        text: "malformed = \"pass\"\nexempt = [\"control\"]\n[[limit]]\nname = \"all\"\nrate = \"1/s\"\nburst = 1\n\
            [[limit]]\nname = \"sctp\"\nmatch = { protocol = \"sctp\" }\nkey = \"interface,destination_port\"\nrate = \"1/s\"\nburst = 1\n",
        limits: &[
            BY_SOURCE,
            Limit {
                holds: |seen| seen.protocol.may(|protocol| *protocol == 132),
                bits: None,
                by_port: true,
            },
            CONTROL,
            CONTROL_TOTAL,
        ],
        looks: true,
        control: true,
    },
];

/// The lists of the configurations above: whether a source is denied or allowed, if listed.
pub(super) fn listed(text: &str, source: IpAddr) -> Option<bool> {
    let denied = match source {
        IpAddr::V4(v4) => {
            v4.octets() == [198, 51, 100, 66]
                || (text.contains("203.0.113.128/25")
                    && v4.octets()[..3] == [203, 0, 113]
                    && v4.octets()[3] >= 128)
        }
        IpAddr::V6(v6) => v6.segments()[..4] == [0x2001, 0xdb8, 0xd, 0],
    };
    let allowed = match source {
        IpAddr::V4(v4) => v4.octets()[..3] == [203, 0, 113],
        IpAddr::V6(v6) => {
            text.contains("2001:db8:a::/48") && v6.segments()[..3] == [0x2001, 0xdb8, 0xa]
        }
    };
    match (text.contains("[lists]"), denied, allowed) {
        (false, ..) | (_, false, false) => None,
        (true, denied, _) => Some(denied),
    }
}
