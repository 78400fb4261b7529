//! Services: what clients send packets to, and what limits of their own match.

use limiter_common::abi::learn::Flow;

use crate::config::{
    Match,
    matches::{PortRange, Ports, Protocol, TcpFlags},
};

/// What packets are for: a transport protocol and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Service {
    /// The transport protocol.
    pub protocol: u8,
    /// The port that they go to. Of TCP only segments that open a connection count.
    pub port: u16,
}

impl Service {
    /// Number of TCP.
    pub const TCP: u8 = 6;

    /// That of a flow, if it is one that people name limits for: one with a port that no client's own is.
    pub(super) fn of(flow: &Flow) -> Option<Self> {
        const UDP: u8 = 17;
        /// Where systems take the ports of clients from (`ip_local_port_range` of Linux): what comes to them are
        /// answers.
        const EPHEMERAL: u16 = 32_768;
        let (protocol, port) = (flow.protocol(), flow.port());
        let is_service = protocol == UDP || protocol == Self::TCP && flow.opens != 0;
        (is_service && port != 0 && port < EPHEMERAL).then_some(Self { protocol, port })
    }

    /// As its limit is called: `tcp-22`, `udp-53`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{}", Protocol(self.protocol), self.port)
    }

    /// What its limit matches.
    pub(super) fn matches(self) -> Match {
        /// SYN set; FIN, RST and ACK not.
        const OPENS: TcpFlags = TcpFlags {
            set: 2,
            looked_at: 1 | 2 | 4 | 16,
        };
        Match {
            protocol: Some(Protocol(self.protocol)),
            destination_port: Ports(vec![PortRange {
                first: self.port,
                last: self.port,
            }]),
            tcp_flags: (self.protocol == Self::TCP).then_some(OPENS),
            ..Match::default()
        }
    }
}
