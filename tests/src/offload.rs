//! Packets that their sender leaves to the kernel to cut: the header in front of them (`struct virtio_net_hdr`,
//! include/uapi/linux/virtio_net.h).

use crate::model::merged::{Kind, Merged};

/// Bytes of the header.
pub const HEADER: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const TCP_IPV4: u8 = 1;
const FRAGMENTS: u8 = 3;
const TCP_IPV6: u8 = 4;
const UDP_PACKETS: u8 = 5;

/// The merged packet with the header.
pub fn offloaded(merged: &Merged) -> Vec<u8> {
    let (kind, checksum) = match (merged.kind, merged.is_ipv6) {
        (Kind::Tcp, false) => (TCP_IPV4, 16_u16),
        (Kind::Tcp, true) => (TCP_IPV6, 16),
        (Kind::Fragments, _) => (FRAGMENTS, 6),
        (Kind::Udp, _) => (UDP_PACKETS, 6),
    };
    let numbers = [
        merged.headers.len() as u16,
        merged.segment as u16,
        merged.transport as u16,
        checksum,
    ];
    let mut bytes = vec![NEEDS_CHECKSUM, kind];
    bytes.extend(numbers.map(u16::to_ne_bytes).concat());
    bytes.extend(merged.frame());
    bytes
}
