//! Prefixes behind which IPv6 addresses stand for IPv4 addresses (RFC 6052).

use ipnet::Ipv6Net;
use limiter_common::table::nat64::Nat64;

/// The prefix that needs no setting.
pub fn well_known() -> Ipv6Net {
    let first = std::net::Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);
    Ipv6Net::new_assert(first, 96)
}

/// The length of a prefix of this translator with `ipv4` bits of the address behind it. `index` is that of
/// [`Nat64::find`].
pub fn bits(nat64: &Nat64, index: usize, ipv4: u8) -> u8 {
    let prefix = nat64.prefixes.get(index).copied().unwrap_or_default();
    let length = prefix.mask.map(u64::count_ones).iter().sum();
    let bits = limiter_common::table::nat64::bits(length, ipv4.into());
    u8::try_from(bits).unwrap_or(128)
}
