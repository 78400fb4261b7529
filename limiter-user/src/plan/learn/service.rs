//! Services: destinations of clients' packets, which limits can match.

use limiter_common::abi::learn::Flow;

use crate::config::{
    Match, Protocol,
    matches::{PortRange, TcpFlags},
};

/// A service: transport protocol and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Service {
    /// The transport protocol.
    pub protocol: u8,
    /// The destination port. For TCP, only segments that open a connection count.
    pub port: u16,
}

impl Service {
    /// Protocol number of TCP.
    pub const TCP: u8 = 6;

    /// The service of a flow, if its port can be a service's and is not a client's.
    pub(super) fn of(flow: &Flow) -> Option<Self> {
        const UDP: u8 = 17;
        /// First port that systems give to clients (`ip_local_port_range` of Linux). Packets to such ports are
        /// answers.
        const EPHEMERAL: u16 = 32_768;
        let (protocol, port) = (flow.protocol(), flow.port());
        let is_service = protocol == UDP || protocol == Self::TCP && flow.opens != 0;
        (is_service && port != 0 && port < EPHEMERAL).then_some(Self { protocol, port })
    }

    /// The name of the service's limit: `tcp-22`, `udp-53`.
    pub fn name(&self) -> String {
        format!("{}-{}", Protocol(self.protocol), self.port)
    }

    /// The match of the service's limit.
    pub(super) fn matches(self) -> Match {
        /// Matches SYN without FIN, RST and ACK.
        const OPENS: TcpFlags = TcpFlags {
            set: 2,
            looked_at: 1 | 2 | 4 | 16,
        };
        Match {
            protocol: Some(Protocol(self.protocol)),
            destination_port: vec![PortRange::new(self.port, self.port)],
            tcp_flags: (self.protocol == Self::TCP).then_some(OPENS),
            ..Match::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_service_ports_and_opening_segments_are_services() {
        for (protocol, port, opens, expected) in [
            (17, 53, false, Some("udp-53")),
            (17, 32_767, false, Some("udp-32767")),
            (17, 32_768, false, None),
            (17, 0, false, None),
            (6, 443, true, Some("tcp-443")),
            (6, 443, false, None),
            (1, 8, true, None),
        ] {
            let flow = Flow::new([7, 0], 4, protocol, port, opens);
            let name = Service::of(&flow).map(|service| service.name());
            assert_eq!(name.as_deref(), expected, "{protocol}, {port}, {opens}");
        }
    }
}
