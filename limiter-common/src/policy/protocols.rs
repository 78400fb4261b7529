//! Numbers of protocols, as the parser compares them, and fields of headers, by network-types.

pub use network_types::{eth::EtherType, ip::IpProto};

/// An EtherType as the parser reads it: in network byte order.
#[inline(always)]
pub const fn in_frame(kind: EtherType) -> u16 {
    kind as u16
}

/// An EtherType as a number.
#[inline(always)]
pub const fn number(kind: EtherType) -> u32 {
    u16::from_be(kind as u16) as u32
}

/// Defines the numbers of these protocols of IP.
macro_rules! protocols {
    ($($name:ident = $protocol:ident,)+) => {
        $(#[doc = concat!("[`IpProto::", stringify!($protocol), "`], as a field of a packet.")]
        pub const $name: u32 = IpProto::$protocol as u32;)+
    };
}

protocols! {
    HOP_BY_HOP = HopOpt,
    ICMP = Icmp,
    IGMP = Igmp,
    IPV4_IN_IP = Ipv4,
    TCP = Tcp,
    UDP = Udp,
    DCCP = Dccp,
    IPV6_IN_IP = Ipv6,
    ROUTING = Ipv6Route,
    FRAGMENT = Ipv6Frag,
    GRE = Gre,
    ESP = Esp,
    AUTHENTICATION = Ah,
    ICMPV6 = Ipv6Icmp,
    DESTINATION = Ipv6Opts,
    OSPF = Ospfigp,
    VRRP = Vrrp,
    SCTP = Sctp,
    UDP_LITE = UdpLite,
}

/// The length of a header as a number of the packet's.
#[expect(clippy::cast_possible_truncation, reason = "headers are short")]
#[inline(always)]
pub(super) const fn length(bytes: usize) -> u32 {
    bytes as u32
}

/// The bytes of a field of a header, as network-types places it. The compiler loads fields that are written out as it
/// needs them.
macro_rules! field {
    ($header:expr, $type:ident, $field:ident, 2) => {{
        const AT: usize = core::mem::offset_of!($type, $field);
        [$header[AT], $header[AT + 1]]
    }};
    ($header:expr, $type:ident, $field:ident, 4) => {{
        const AT: usize = core::mem::offset_of!($type, $field);
        [
            $header[AT],
            $header[AT + 1],
            $header[AT + 2],
            $header[AT + 3],
        ]
    }};
}
pub(super) use field;
