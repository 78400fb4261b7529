//! A packet that offload has merged, and the packets that it is on the wire.

/// A merged packet: the headers that each packet gets a copy of, and what is distributed among them.
#[derive(Clone, Debug)]
pub struct Merged {
    /// Headers up to the end of the innermost TCP or UDP header, whose length fields are those of the whole packet.
    pub headers: Vec<u8>,
    /// Bytes behind them.
    pub payload: Vec<u8>,
    /// Bytes of the rest that each packet gets (`gso_size`).
    pub segment: usize,
    /// The way in which the packet is distributed.
    pub kind: Kind,
    /// Whether the innermost IP header is IPv6.
    pub is_ipv6: bool,
    /// Offset of the innermost TCP or UDP header.
    pub transport: usize,
    /// Whether another UDP header is in front of it.
    pub in_udp: bool,
}

/// The way in which a merged packet is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP segments.
    Tcp,
    /// UDP packets.
    Udp,
    /// IP fragments of one UDP packet: only the first has its UDP header.
    Fragments,
}

impl Merged {
    /// The merged packet's bytes.
    pub fn frame(&self) -> Vec<u8> {
        [&self.headers[..], &self.payload].concat()
    }

    /// The packets on the wire. Their length fields are still those of the merged one.
    pub fn cut(&self) -> Vec<Vec<u8>> {
        let frame = self.frame();
        let (headers, rest) = match self.kind {
            Kind::Fragments => frame.split_at(self.transport),
            Kind::Tcp | Kind::Udp => frame.split_at(self.headers.len()),
        };
        let mut headers = headers.to_vec();
        if self.kind == Kind::Fragments && self.is_ipv6 {
            headers.extend([17, 0, 0, 0, 0, 0, 0, 1]);
        }
        let packets = rest.chunks(self.segment);
        packets.map(|part| [&headers[..], part].concat()).collect()
    }
}
