//! `match`: the packets that a limit applies to.

mod compile;
mod fields;
mod names;
mod sets;
mod values;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub(super) use compile::check_count;
pub use fields::{Destination, Dscp, Hex, IcmpType, Payload};
pub(super) use sets::{set_name, set_of};
pub use values::{IpVersion, Lengths, Numbers, PortRange, Protocol, TcpFlags, Ttl, flag_names};

/// Conditions on packets: each given field narrows the match. An empty match accepts every IP packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// The transport protocol.
    pub protocol: Option<Protocol>,
    /// Destination ports; empty for all. Later fragments may go to any.
    pub destination_port: Vec<PortRange>,
    /// Source ports; empty for all.
    pub source_port: Vec<PortRange>,
    /// Flags of a TCP segment.
    pub tcp_flags: Option<TcpFlags>,
    /// Lists: the source must be on one of them; empty for all.
    pub source: Vec<String>,
    /// Lists: the source must be on none of them.
    pub unless: Vec<String>,
    /// Prefixes and lists, one of which must have the destination; empty for all.
    pub destination: Vec<Destination>,
    /// The version of IP.
    pub ip_version: Option<IpVersion>,
    /// True: only fragments; false: only whole packets.
    pub fragments: Option<bool>,
    /// Lengths of the IP packet, in bytes; empty for all.
    pub length: Vec<Lengths>,
    /// TTL or hop limit; empty for all.
    pub ttl: Vec<Ttl>,
    /// DSCP; empty for all.
    pub dscp: Vec<Dscp>,
    /// Types of ICMP and ICMPv6; empty for all packets.
    pub icmp_type: Vec<IcmpType>,
    /// Bytes of the payload.
    pub payload: Option<Payload>,
    /// Lengths of the payload, in bytes; empty for all.
    #[serde(default)]
    pub payload_length: Vec<Lengths>,
    /// True: only packets of the host's established connections; false: only others. Not in `not`.
    #[serde(default)]
    pub established: Option<bool>,
    /// Packets of these that the limit does not apply to.
    pub not: Option<Box<Match>>,
}

impl Match {
    /// Returns true if this matches every IP packet.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if packets from `source` have the wanted version of IP.
    pub fn holds_version_of(&self, source: IpAddr) -> bool {
        let is_v4 = |version| version == IpVersion::V4;
        self.ip_version
            .is_none_or(|version| is_v4(version) == source.is_ipv4())
    }

    /// Returns true if this names the list.
    pub fn names(&self, list: &String) -> bool {
        let destination = Destination::List(list.clone());
        self.source.contains(list)
            || self.unless.contains(list)
            || self.destination.contains(&destination)
    }

    /// Returns true if the lists that the source is on decide.
    pub fn names_sources(&self) -> bool {
        !(self.source.is_empty() && self.unless.is_empty())
    }

    /// This match, and the one in `not`.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        [Some(self), self.not.as_deref()].into_iter().flatten()
    }

    /// Names of the sets of prefixes that this and `not` have as destinations: their texts.
    pub fn destination_sets(&self) -> impl Iterator<Item = String> {
        let sets = self.all().map(|matches| set_name(&matches.destination));
        sets.flatten()
    }
}
