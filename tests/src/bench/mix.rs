//! Defines the traffic of a case: one kind of packet, or the mix that a service receives.
//!
//! A mix has the packets that pass on an ordinary day. The shares are estimates, not measurements: a client of a web
//! server mostly acknowledges, resolvers are asked by UDP, players send small packets at a fixed rate.

use limiter_tests::{
    hosts::{SERVER, SERVER_IPV6},
    packet::{Ends, Segment},
};
use serde::Serialize;

use super::case::Family;

/// Lengths of headers.
pub const ETHERNET: usize = 14;
pub const IPV4: usize = 20;

/// Hardware addresses: source, destination.
type Macs = ([u8; 6], [u8; 6]);

/// Bytes of the shortest Ethernet frame, without its checksum.
const SHORTEST: usize = 60;

/// The packets of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Traffic {
    /// Small UDP packets to one port.
    Plain,
    /// Packets to a web front end.
    Web,
    /// Packets to the resolver of a network.
    Dns,
    /// Packets to a game server.
    Game,
}

/// A kind of packet.
#[derive(Debug)]
pub struct Kind {
    /// Share of the packets, in percent.
    pub share: u32,
    is: Is,
    /// Source port, and destination port.
    ports: (u16, u16),
    /// Bytes of the payload.
    bytes: usize,
    /// First bytes of the payload.
    first: &'static [u8],
    /// True if the recipe's limits count the packets.
    pub limited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Udp,
    /// A request for a TCP connection.
    Syn,
    /// A segment of a TCP connection that the server has with each source.
    Connected,
    /// An ICMP echo request.
    Ping,
}

use Is::{Connected, Ping, Syn, Udp};

const fn kind(share: u32, is: Is, ports: (u16, u16), bytes: usize, limited: bool) -> Kind {
    Kind {
        share,
        is,
        ports,
        bytes,
        first: &[],
        limited,
    }
}

const fn query(share: u32, bytes: usize, first: &'static [u8]) -> Kind {
    Kind {
        first,
        ..kind(share, Udp, (CLIENT, 27_015), bytes, true)
    }
}

/// The clients' port of the connections. Requests for further connections come from another one.
pub const CLIENT: u16 = 40_000;

const PLAIN: [Kind; 1] = [kind(100, Udp, (CLIENT, 9), 18, true)];

const WEB: [Kind; 8] = [
    // Acknowledgements of what is downloaded, and requests.
    kind(45, Connected, (CLIENT, 443), 0, true),
    kind(20, Connected, (CLIENT, 443), 300, true),
    kind(5, Syn, (40_001, 443), 0, true),
    kind(2, Syn, (40_001, 80), 0, true),
    // QUIC: acknowledgements, and handshakes and uploads.
    kind(20, Udp, (CLIENT, 443), 50, true),
    kind(5, Udp, (CLIENT, 443), 1_250, true),
    // Answers to the host's own questions.
    kind(2, Udp, (53, CLIENT), 120, false),
    kind(1, Ping, (0, 0), 56, false),
];

const DNS: [Kind; 8] = [
    kind(55, Udp, (CLIENT, 53), 35, true),
    kind(18, Udp, (CLIENT, 53), 55, true),
    // Answers to the resolver's own questions.
    kind(12, Udp, (53, CLIENT), 120, false),
    kind(6, Udp, (53, CLIENT), 500, false),
    kind(2, Udp, (53, CLIENT), 1_200, false),
    kind(2, Syn, (40_001, 53), 0, true),
    kind(4, Connected, (CLIENT, 53), 40, true),
    kind(1, Ping, (0, 0), 56, false),
];

const GAME: [Kind; 9] = [
    // Players' inputs, on three servers of the host; voice; files.
    kind(45, Udp, (CLIENT, 27_015), 40, true),
    kind(25, Udp, (CLIENT, 27_016), 80, true),
    kind(15, Udp, (CLIENT, 27_020), 160, true),
    kind(6, Udp, (CLIENT, 27_015), 600, true),
    // A2S_INFO, and requests for a challenge and for a connection.
    query(3, 25, b"\xff\xff\xff\xffTSource"),
    query(3, 19, b"\xff\xff\xff\xffq"),
    // The console over TCP, answers to the host's own questions.
    kind(1, Syn, (40_001, 27_015), 0, false),
    kind(1, Udp, (53, CLIENT), 120, true),
    kind(1, Ping, (0, 0), 56, false),
];

const fn total(kinds: &[Kind]) -> u32 {
    match kinds {
        [] => 0,
        [first, rest @ ..] => first.share + total(rest),
    }
}

const _: () = assert!(total(&WEB) == 100 && total(&DNS) == 100 && total(&GAME) == 100);

impl Traffic {
    /// The kinds of packets. Their shares add up to 100.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Plain => &PLAIN,
            Self::Web => &WEB,
            Self::Dns => &DNS,
            Self::Game => &GAME,
        }
    }

    /// The recipe of the cookbook that is measured with these packets.
    pub fn recipe(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Web => Some("web"),
            Self::Dns => Some("dns-resolver"),
            Self::Game => Some("source-engine"),
        }
    }

    /// Percent of the packets that pass if the limits admit next to nothing.
    pub fn unlimited(self) -> u64 {
        let unlimited = self.kinds().iter().filter(|kind| !kind.limited);
        unlimited.map(|kind| u64::from(kind.share)).sum()
    }

    /// The average length of the frames.
    pub fn mean_bytes(self, family: Family) -> usize {
        let share_of =
            |kind: &Kind| kind.share as usize * kind.frame(family, Macs::default()).len();
        self.kinds().iter().map(share_of).sum::<usize>() / 100
    }

    /// The server's port of the connections that the packets belong to.
    pub fn connected(self) -> Option<u16> {
        let mut kinds = self.kinds().iter();
        kinds
            .find(|kind| kind.is == Connected)
            .map(|kind| kind.ports.1)
    }
}

impl Kind {
    /// A frame to the server from the family's first source. Over IPv4, checksums of TCP and ICMP fit only this source,
    /// and UDP has none: the sender replaces the source.
    pub fn frame(&self, family: Family, macs: Macs) -> Vec<u8> {
        const CHECKSUM: usize = ETHERNET + IPV4 + 6;
        let server = match family {
            Family::Ipv4 => SERVER,
            Family::Ipv6 => SERVER_IPV6,
        };
        let ends = Ends {
            macs,
            from: (family.first_source(), self.ports.0).into(),
            to: (server, self.ports.1).into(),
        };
        let mut payload = self.first.to_vec();
        payload.resize(self.bytes, 0x5a);
        let mut frame = match self.is {
            Udp => ends.udp(&payload),
            Syn => ends.tcp(Segment::Syn),
            Connected => ends.tcp_with(Segment::Data, &payload),
            Ping => ends.ping(&payload),
        };
        if (family, self.is) == (Family::Ipv4, Udp) {
            frame[CHECKSUM..CHECKSUM + 2].fill(0);
        }
        frame.resize(frame.len().max(SHORTEST), 0);
        frame
    }
}
