//! A match as the kernel program has it.

use limiter_common::{
    abi::rules::{
        self, ANY, DESTINATION_PORT, DSCP, FIRST_FRAGMENT, ICMP_TYPE, LATER_FRAGMENT, LENGTH,
        NEEDS_CONNECTION, NEEDS_DESTINATION, NEEDS_DESTINATION_LISTS, NEEDS_EXCEPT, NEEDS_HEADER,
        NEEDS_PAYLOAD, NEEDS_PAYLOAD_LENGTH, NEEDS_TRANSPORT, NEEDS_VLAN, OF_CONNECTIONS,
        OF_OTHERS, PAYLOAD_LENGTH, Pattern, RANGES_MAX, SOURCE_PORT, TTL, VLAN, WHOLE,
    },
    table::key::{IPV4, IPV6},
};

use super::{IpVersion, Match, Numbers, Payload};
use crate::{Invalid, TierBits, invalid};

impl Match {
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
            (!self.vlan.is_empty(), NEEDS_VLAN),
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
            destination: bits.mask(&self.destination)?,
            established: match self.established {
                None => 0,
                Some(true) => OF_CONNECTIONS,
                Some(false) => OF_OTHERS,
            },
            other: self.other.into(),
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
            (VLAN, "vlan", ranges(&self.vlan)),
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
pub(crate) fn check_count(ranges: &[rules::Range]) -> Result<(), Invalid> {
    let count = ranges.len();
    if count <= RANGES_MAX {
        return Ok(());
    }
    Err(invalid!(
        "{count} separate values or ranges are too many for one limit (a number of `icmp_type` is two, for ICMP and ICMPv6): write at most {RANGES_MAX}, or two limits"
    ))
}
