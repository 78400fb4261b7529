//! Bounds on the open connections of a key: constants of the program.

use super::rules::LIMITS_MAX;
use crate::pod::pod;

/// Offsets of the fields of a socket in the running kernel, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Offsets {
    /// The family: `skc_family`.
    pub family: u32,
    /// The peer's IPv4 address: `skc_daddr`.
    pub ipv4: u32,
    /// The peer's IPv6 address: `skc_v6_daddr`.
    pub ipv6: u32,
    /// The pointer to the network namespace: `skc_net`.
    pub namespace: u32,
    /// The protocol: `sk_protocol`.
    pub protocol: u32,
    /// The local port in network byte order: `inet_sport`, which a closed socket still has.
    pub port: u32,
    /// The cookie in the network namespace: `net_cookie`.
    pub cookie: u32,
    /// 0, for the alignment.
    pub reserved: u32,
}

pod!(Offsets: family ipv4 ipv6 namespace protocol port cookie reserved);

/// The bound of one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Bound {
    /// The most open connections of a key; 0: no bound.
    pub most: u32,
    /// The limit's part of the table, counted from 0.
    pub region: u32,
}

pod!(Bound: most region);

/// The bounds of all limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Bounds {
    /// Limits with a bound, by index.
    pub limits: u64,
    /// Cookie of the network namespace whose sockets count.
    pub namespace: u64,
    /// Lines of each limit's part of the table.
    pub lines: u32,
    /// 0, for the alignment.
    pub reserved: u32,
    /// The fields of sockets. The loader sets them.
    pub offsets: Offsets,
    /// The bounds, by the index of the limit.
    pub of_limits: [Bound; LIMITS_MAX as usize],
}

pod!(Bounds: limits namespace lines reserved offsets of_limits);
