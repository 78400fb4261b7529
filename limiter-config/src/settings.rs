//! Settings: one value for everything that can be configured, by flags or by a file.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    Adaptive, Algorithm, Burst, Control, Direction, Exempt, Key, Lists, Malformed, Match, Mode,
    NewSources, Proofs, Rate, Scope, Time, Translator, matches::Written,
};

/// Name of the limit that the command line creates.
pub const DEFAULT_LIMIT: &str = "default";
/// The most limits.
pub const LIMITS_MAX: usize = 32;
/// The most sources of a table.
pub const SOURCES_MAX: u32 = 1 << 24;
/// The most open connections of a bound.
pub const CONNECTIONS_MAX: u64 = 1 << 20;
/// The most bans.
pub const BANS_MAX: u32 = 1 << 24;

crate::keys! {
    /// Settings of an interface.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Settings("the file", "at the top of the file, above [lists] and [[limit]]") {
        /// Hook and mode of the program: `"auto"` (default), `"native"` (XDP in the driver), `"generic"` (XDP in the
        /// network stack), `"xdp"` (native, or generic if native mode fails) or `"tc"` (in the network stack, after
        /// receive offload; Linux 6.6). `"auto"` is `"xdp"`, and `"tc"` on a veth or tap unless a setting needs XDP, for
        /// packets that the interface sends, and for those without an Ethernet header. Fixed at `attach`.
        mode: Mode, shown, fixed;
        /// `"in"` (default): limits for packets that arrive. `"out"`: limits for packets that the interface sends;
        /// `allow` and `deny` name destinations, and the key of a limit is by default the destination. Fixed at
        /// `attach`.
        direction: Direction, fixed;
        /// Number of sources that the table holds: `65536` (default), `"64k"`. Fixed at `attach`.
        max_sources: u32 = 65_536, shown, fixed, r#"a number as in 65536 or "64k""#;
        /// Number of bans that there is room for, one for each prefix and origin: `65536` (default), `"64k"`; `0`: none, and no code for them in the
        /// program. Fixed at `attach`.
        max_bans: u32 = 65_536, fixed, r#"a number as in 65536 or "64k""#;
        /// `true`: bans of `limiter ban` outlive `detach`, another version of limiter and a restart of the host, in a file
        /// below `/var/lib/limiter`. Default: `false`.
        keep_bans: bool;
        /// Packets that are exempt from the limits: `"established"` (packets of connections of the host's own sockets),
        /// `"control"` (ARP, neighbour discovery, DHCP and group membership, which have limits of their own), `"vrrp"`,
        /// `"ospf"` and `"bfd"` (which have a limit of their own), or an array of these. Default: none.
        exempt: Exempt;
        /// Prefixes that translators (NAT64, SIIT-DC) put in front of IPv4 addresses, as in `"2001:db8:64::/96"`, or an array
        /// of up to 3, with 96, 64, 56, 48, 40 or 32 bits. Each IPv4 address behind a prefix is a source of its own, by the
        /// lengths of IPv4 in a key. Always one of them: `64:ff9b::/96`.
        #[serde(default)]
        nat64: Vec<Translator>, r#"a prefix as in "2001:db8:64::/96", or an array of them"#;
        /// Verdict for malformed IP packets (truncated header, wrong version, bad header length): `"drop"` (default) or
        /// `"pass"`.
        malformed: Malformed;
        /// `true`: count packets that would be dropped, but drop nothing on the whole interface. Default: `false`.
        shadow: bool;
        /// Name of the fleet. Hosts with the same name share the limits and lists of scope `"fleet"`, through `limiter
        /// agent`.
        fleet: Option<String>, r#"a name as in "edge""#;
    }
    fields {
        /// The limit on new sources; `None`: no limit.
        new_sources: Option<NewSources> = Some(NewSources::default());
        /// The limits on control traffic, if that is exempt.
        control: Control;
        /// Names of the lists that the fleet adds prefixes to.
        fleet_lists: BTreeSet<String>;
        /// Lists of sources, which may be long. The record does not have them: they are read back from the maps.
        #[serde(skip)]
        lists: Lists;
        /// The limits, in the order in which they are checked.
        limits: Vec<Limit>;
    }
}

impl Settings {
    /// Returns true if a limit bounds open connections.
    pub fn bounds_connections(&self) -> bool {
        self.limits.iter().any(|limit| limit.connections.is_some())
    }

    /// Returns true if new sources may prove their address.
    pub fn has_proof(&self) -> bool {
        self.limits.iter().any(|limit| limit.proof.any())
    }
}

crate::keys! {
    /// A limit: matching packets are charged to one bucket for each key.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Limit("a limit", "under [[limit]]") {
        /// Name of the limit, different for each limit.
        name: String, required, r#"a text as in "ssh""#;
        /// Packets that the limit applies to, as in `{ protocol = "udp", destination_port = 53 }`, or `"other"` for packets
        /// that no other limit matches. Default: all IP packets.
        matches ("match"): Match as Written, r#"a table as in { protocol = "udp", destination_port = 53 }"#;
        /// Parts of a packet that select its bucket. `"/32,/64"` (default): that many bits of the source address, for
        /// IPv4 and IPv6. `"interface"`: one bucket for all packets. `"destination"`, `"source + destination"`, with
        /// prefix lengths as in `"source/24,/48 + destination/32,/64"` (default: `/32,/64` for sources, whole addresses
        /// for destinations). `"flow"`: addresses, protocol and ports. With `,destination_port` at the end of any but
        /// `"flow"`, each destination port has its own bucket; with `,vlan` at the end of any, each VLAN.
        key: Key, r#"a key as in "/32,/64", "interface" or "source + destination""#;
        /// Rate at which a bucket refills: `"5/s"`, `"300/m"`, `"1k/s"` in packets; `"64kbit"`, `"10mbit"` in bits per
        /// second.
        rate: Rate = Rate::packets_per_second(1), required,
            r#"a rate as in "5/s", "300/m" or "10mbit""#;
        /// Size of a bucket: packets (`10`, `"2k"`), or bytes (`"64kb"`) for a rate in bits. Default: the amount of the
        /// period (`"6/30s"`: six packets at once; a rate in bits: one second of it), and at least one packet or one frame.
        burst: Option<Burst>, r#"packets as in 10 or "2k", or bytes as in "64kb""#;
        /// Tokens that a packet takes, as in `2`, with a `rate` in packets. Default: one, or the length of the packet
        /// in bytes with a `rate` in bits.
        cost: Option<u64>, "a number of tokens as in 2";
        /// `"token-bucket"` (default): a bucket refills continuously. `"fixed-window"`: it refills at the start of each
        /// period.
        algorithm: Algorithm;
        /// Time as in `"10m"`: the first packet that the limit refuses puts the bucket in debt for that time, so that
        /// the limit refuses all its packets until then. Default: none. It needs a key with the source, and has no
        /// effect in shadow. For addresses that many people share, it punishes all of them.
        hold: Option<Time>, r#"a time as in "10m""#;
        /// Time as in `"50ms"`, at most 5 s, for `direction = "out"` and an interface with the qdisc `fq`: a packet
        /// over the limit leaves when its tokens are there, and is dropped only if that takes longer. Default: packets
        /// over the limit are dropped. For token buckets of scope `"host"` without `hold`.
        max_delay: Option<Time>, r#"a time as in "50ms""#;
        /// Signals of the host's load that lower `rate` and `burst` while `limiter adapt` runs, as in `{ floor = "10%",
        /// when = { cpu_pressure = "20%" } }`. Default: none. For token buckets of scope `"host"` without `hold`.
        adaptive: Option<Adaptive>, r#"a table as in { when = { cpu_pressure = "20%" } }"#;
        /// Ways in which a new source that would be refused as such may prove its address, to enter the table from a
        /// budget of its own. `"syn-cookie"`: a SYN to a listener of the host is answered by a SYN cookie.
        /// `"dns-tc"`: a question of DNS over UDP is answered as truncated, so that it comes again over TCP; also if the
        /// source is over the limit. `"a2s"`: one of Valve's server queries is answered by a challenge. Or an array of
        /// these. Default: `"none"`. They need a key of sources, `new_sources` and Linux 6.1; `"syn-cookie"` needs
        /// `net.ipv4.tcp_syncookies=2`.
        proof: Proofs;
        /// Number as in `2`, with the proof `"dns-tc"`: of so many refused questions, each CPU answers one. Default: each
        /// question is answered.
        #[serde(default)]
        slip: Option<u64>, "a number as in 2";
        /// Number of open TCP connections that a key may have to sockets of the host, as in `50`: further SYNs are dropped,
        /// and packets of open connections pass. Default: any number. It needs `match = { protocol = "tcp" }`, in which
        /// only `destination_port`, `ip_version`, `source`, `unless` and `tcp_flags = "syn"` may stand too, and a key of
        /// sources or of the interface. `rate` is needed as ever, and applies to the packets that match.
        #[serde(default)]
        connections: Option<u64>, "a number of connections as in 50";
        /// `true`: the limit counts packets that it would drop, but drops nothing. Default: `false`.
        shadow: bool;
        /// `"host"` (default), or `"fleet"`: one limit per source for all hosts of the fleet together.
        scope: Scope;
    }
}

impl Limit {
    /// A limit on all packets, by source address.
    pub fn new(name: &str, rate: Rate) -> Self {
        Self {
            name: name.to_owned(),
            rate,
            ..Self::default()
        }
    }
}
