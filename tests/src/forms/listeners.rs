//! Runs listeners on the server, and counts the traffic that reaches them.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr, TcpListener, UdpSocket},
    time::Duration,
};

use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};

use crate::{
    hosts::{Hosts, on},
    processes::packets_are_delivered,
    raw::Raw,
};

/// Port of the listeners.
pub const PORT: u16 = 9_000;

/// Silence after which nothing more arrives.
const SILENCE: Duration = Duration::from_millis(100);

/// A UDP and a TCP listener. The TCP answers are read from the wire, because the clients do not exist.
pub struct Listeners {
    udp: UdpSocket,
    _tcp: TcpListener,
    answers: Raw,
}

/// Datagrams and bytes from each source.
pub type Arrived = BTreeMap<IpAddr, (u64, u64)>;

impl Listeners {
    /// Listens on both families of the server.
    pub fn on(hosts: &Hosts) -> Self {
        let (udp, tcp) = on(&hosts.server, || {
            let any = (Ipv6Addr::UNSPECIFIED, PORT);
            (
                UdpSocket::bind(any).unwrap(),
                TcpListener::bind(any).unwrap(),
            )
        });
        udp.set_read_timeout(Some(SILENCE)).unwrap();
        setsockopt(&udp, RcvBufForce, &(64 << 20)).unwrap();
        Self {
            udp,
            _tcp: tcp,
            answers: Raw::open(&hosts.client),
        }
    }

    /// Traffic that has arrived since the last call.
    pub fn arrived(&self, protocol: u8) -> Arrived {
        if protocol == 6 {
            self.accepted()
        } else {
            self.received()
        }
    }

    fn received(&self) -> Arrived {
        packets_are_delivered();
        let mut arrived = Arrived::new();
        let mut buffer = vec![0; 65_536];
        while let Ok((length, from)) = self.udp.recv_from(&mut buffer) {
            let (datagrams, bytes) = arrived.entry(from.ip().to_canonical()).or_default();
            *datagrams += 1;
            *bytes += length as u64;
        }
        let _ = self.answers.arrived();
        arrived
    }

    /// Segments that the server has answered with SYN and ACK. Repeated answers count once.
    fn accepted(&self) -> Arrived {
        let mut seen = std::collections::BTreeSet::new();
        let mut arrived = Arrived::new();
        for frame in self.answers.receive(SILENCE) {
            let Some((client, port, length)) = answered(&frame) else {
                continue;
            };
            if seen.insert((client, port)) {
                let (segments, bytes) = arrived.entry(client).or_default();
                *segments += 1;
                *bytes += length;
            }
        }
        arrived
    }
}

/// Destination address and port of a SYN and ACK, and its length.
fn answered(frame: &[u8]) -> Option<(IpAddr, u16, u64)> {
    let packet = etherparse::SlicedPacket::from_ethernet(frame).ok()?;
    let client: IpAddr = match packet.net? {
        etherparse::NetSlice::Ipv4(ip) => ip.header().destination_addr().into(),
        etherparse::NetSlice::Ipv6(ip) => ip.header().destination_addr().into(),
        _ => return None,
    };
    match packet.transport? {
        etherparse::TransportSlice::Tcp(tcp) if tcp.syn() && tcp.ack() => {
            Some((client, tcp.destination_port(), frame.len() as u64))
        }
        _ => None,
    }
}
