//! `match`: the packets that a limit applies to.

mod fields;
mod names;
mod values;

use std::{collections::BTreeSet, net::IpAddr};

use limiter_common::{
    abi::rules::{
        self, ANY, DESTINATION_PORT, DSCP, FIRST_FRAGMENT, ICMP_TYPE, LATER_FRAGMENT, LENGTH,
        NEEDS_CONNECTION, NEEDS_DESTINATION, NEEDS_DESTINATION_LISTS, NEEDS_EXCEPT, NEEDS_HEADER,
        NEEDS_PAYLOAD, NEEDS_PAYLOAD_LENGTH, NEEDS_TRANSPORT, OF_CONNECTIONS, OF_OTHERS,
        PAYLOAD_LENGTH, Pattern, RANGES_MAX, SOURCE_PORT, TTL, WHOLE,
    },
    table::key::{IPV4, IPV6},
};
use serde::{Deserialize, Serialize};

use super::{Invalid, Prefixes, TierBits, invalid, lists};
pub use fields::{Destination, Dscp, Hex, IcmpType, Payload};
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

    /// Bits of what this needs of a packet, as in [`rules::NEEDS_TRANSPORT`].
    pub fn needs(&self) -> u32 {
        let header = !(self.ttl.is_empty() && self.dscp.is_empty() && self.icmp_type.is_empty());
        let payload = self.payload.is_some();
        let measured = !self.payload_length.is_empty();
        let connection = self.established.is_some();
        let transport = self.protocol.is_some()
            || !self.destination_port.is_empty()
            || !self.source_port.is_empty()
            || self.tcp_flags.is_some()
            || self.fragments.is_some()
            || !self.length.is_empty();
        let needs = [
            (transport || header || payload || measured, NEEDS_TRANSPORT),
            // Sockets are looked up by addresses and ports.
            (
                connection,
                NEEDS_TRANSPORT | NEEDS_DESTINATION | NEEDS_CONNECTION,
            ),
            (header, NEEDS_HEADER),
            (payload, NEEDS_PAYLOAD),
            (measured, NEEDS_PAYLOAD_LENGTH),
            (
                !self.destination.is_empty(),
                NEEDS_DESTINATION | NEEDS_DESTINATION_LISTS,
            ),
            (self.not.is_some(), NEEDS_EXCEPT),
        ];
        let not = self.not.as_ref().map_or(0, |not| not.needs());
        let own = needs.iter().filter(|(needed, _)| *needed);
        own.fold(not, |all, (_, bit)| all | bit)
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

    /// Compiles the match for the kernel. `bits` are those of the lists.
    /// Fails if a field has too many values, or a list is unknown.
    pub fn compile(&self, bits: &TierBits) -> Result<rules::Match, Invalid> {
        let fragments = match self.fragments {
            None => WHOLE | FIRST_FRAGMENT | LATER_FRAGMENT,
            Some(true) => FIRST_FRAGMENT | LATER_FRAGMENT,
            Some(false) => WHOLE,
        };
        let mut compiled = rules::Match {
            family: match self.ip_version {
                None => 0,
                Some(IpVersion::V4) => IPV4,
                Some(IpVersion::V6) => IPV6,
            },
            protocol: self.protocol.map_or(ANY, |protocol| protocol.0.into()),
            fragments,
            flags_mask: self.tcp_flags.map_or(0, |flags| flags.looked_at.into()),
            flags: self.tcp_flags.map_or(0, |flags| flags.set.into()),
            lists: bits.mask(&self.source)?,
            unless: bits.mask(&self.unless)?,
            destination: bits.destination_mask(&self.destination)?,
            established: match self.established {
                None => 0,
                Some(true) => OF_CONNECTIONS,
                Some(false) => OF_OTHERS,
            },
            payload: self
                .payload
                .as_ref()
                .map_or(Pattern::default(), Payload::compile),
            ..rules::Match::EVERYTHING
        };
        for (field, _, ranges) in self.fields() {
            check_count(&ranges)?;
            compiled = compiled.with(field, &ranges);
        }
        Ok(compiled)
    }

    /// Each field that is compared with ranges: its index, key and ranges, as few as possible.
    pub fn fields(&self) -> [(usize, &'static str, Vec<rules::Range>); rules::FIELDS] {
        [
            (
                DESTINATION_PORT,
                "destination_port",
                ranges(&self.destination_port),
            ),
            (SOURCE_PORT, "source_port", ranges(&self.source_port)),
            (LENGTH, "length", ranges(&self.length)),
            (TTL, "ttl", ranges(&self.ttl)),
            (DSCP, "dscp", ranges(&self.dscp)),
            (ICMP_TYPE, "icmp_type", ranges(&self.icmp_type)),
            (
                PAYLOAD_LENGTH,
                "payload_length",
                ranges(&self.payload_length),
            ),
        ]
    }
}

/// The ranges of the values. Ranges that overlap or follow one another become one: a limit has room for few.
fn ranges<T: Numbers>(values: &[T]) -> Vec<rules::Range> {
    let mut all: Vec<_> = values.iter().flat_map(Numbers::ranges).collect();
    all.sort_by_key(|range| range.first());
    let mut merged: Vec<rules::Range> = Vec::new();
    for range in all {
        match merged.last_mut() {
            Some(before) if range.first() <= before.last() + 1 => {
                let number = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
                let last = before.last().max(range.last());
                *before = rules::Range::new(number(before.first()), number(last));
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Fails if a limit has no room for the ranges of a field.
pub(super) fn check_count(ranges: &[rules::Range]) -> Result<(), Invalid> {
    let count = ranges.len();
    if count <= RANGES_MAX {
        return Ok(());
    }
    Err(invalid!(
        "{count} separate values or ranges are too many for one limit (a number of `icmp_type` is two, for ICMP and ICMPv6): write at most {RANGES_MAX}, or two limits"
    ))
}

/// The first character of the name of a set of destinations. Names of lists cannot have it.
const SET: char = '=';

/// The prefixes among destinations, as the name of a list that no user can choose. None if there is no prefix.
pub(super) fn set_name(destinations: &[Destination]) -> Option<String> {
    let prefixes = destinations
        .iter()
        .filter_map(|destination| match destination {
            Destination::Prefix(prefix) => Some(lists::show(prefix)),
            Destination::List(_) => None,
        });
    let texts: BTreeSet<_> = prefixes.collect();
    let texts: Vec<_> = texts.into_iter().collect();
    (!texts.is_empty()).then(|| format!("{SET}{}", texts.join(",")))
}

/// The prefixes of a list with such a name. None for other lists.
pub(super) fn set_of(name: &str) -> Option<Prefixes> {
    let prefixes = name.strip_prefix(SET)?.split(',');
    let prefixes = prefixes.filter_map(|text| lists::prefix(text).ok());
    Some(prefixes.collect())
}
