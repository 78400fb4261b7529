//! `match`: the packets that a limit applies to.

mod values;

use std::net::IpAddr;

use limiter_common::{
    abi::rules::{self, ANY, FIRST_FRAGMENT, LATER_FRAGMENT, WHOLE},
    table::key::{IPV4, IPV6},
};
use serde::{Deserialize, Serialize};

use super::{Invalid, compile::TierBits};
pub use values::{IpVersion, Lengths, PortRange, Ports, Protocol, TcpFlags, flag_names};

/// Conditions on packets: each given field narrows the match. An empty match accepts every IP packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// The transport protocol.
    pub protocol: Option<Protocol>,
    /// Destination ports; empty for all. Later fragments may go to any.
    pub destination_port: Ports,
    /// Source ports; empty for all.
    pub source_port: Ports,
    /// Flags of a TCP segment.
    pub tcp_flags: Option<TcpFlags>,
    /// Lists: the source must be on one of them; empty for all.
    pub source: Vec<String>,
    /// Lists: the source must be on none of them.
    pub unless: Vec<String>,
    /// The version of IP.
    pub ip_version: Option<IpVersion>,
    /// True: only fragments; false: only whole packets.
    pub fragments: Option<bool>,
    /// Lengths of the IP packet, in bytes. Records of earlier versions have none.
    #[serde(default)]
    pub length: Option<Lengths>,
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

    /// Returns true if this needs fields behind the fixed part of the IP header.
    pub fn needs_transport(&self) -> bool {
        self.protocol.is_some()
            || !self.destination_port.0.is_empty()
            || !self.source_port.0.is_empty()
            || self.tcp_flags.is_some()
            || self.fragments.is_some()
            || self.length.is_some()
    }

    /// Compiles the match for the kernel. `bits` are those of the lists.
    ///
    /// # Errors
    /// Too many ports, or an unknown list.
    pub fn compile(&self, bits: &TierBits) -> Result<rules::Match, Invalid> {
        let fragments = match self.fragments {
            None => WHOLE | FIRST_FRAGMENT | LATER_FRAGMENT,
            Some(true) => FIRST_FRAGMENT | LATER_FRAGMENT,
            Some(false) => WHOLE,
        };
        Ok(rules::Match {
            control: 0,
            family: match self.ip_version {
                None => 0,
                Some(IpVersion::V4) => IPV4,
                Some(IpVersion::V6) => IPV6,
            },
            protocol: self.protocol.map_or(ANY, |protocol| protocol.0.into()),
            fragments,
            length_min: self.length.map_or(0, |length| length.first),
            length_max: self.length.map_or(u32::MAX, |length| length.last),
            flags_mask: self.tcp_flags.map_or(0, |flags| flags.looked_at.into()),
            flags: self.tcp_flags.map_or(0, |flags| flags.set.into()),
            lists: bits.mask(&self.source)?,
            unless: bits.mask(&self.unless)?,
            destination: compile_ports(&self.destination_port)?,
            source: compile_ports(&self.source_port)?,
        })
    }
}

fn port(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

fn compile_ports(ports: &Ports) -> Result<rules::Ports, Invalid> {
    let mut compiled = rules::Ports {
        length: u32::try_from(ports.0.len()).unwrap_or(u32::MAX),
        ..rules::Ports::default()
    };
    if ports.0.len() > compiled.ranges.len() {
        return Err(Invalid::new(format!(
            "{} ports or ranges are too many for one limit: write at most {}",
            ports.0.len(),
            compiled.ranges.len()
        )));
    }
    for (slot, range) in compiled.ranges.iter_mut().zip(&ports.0) {
        *slot = rules::PortRange::new(port(range.first), port(range.last));
    }
    Ok(compiled)
}
