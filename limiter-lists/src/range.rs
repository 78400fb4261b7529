//! Ranges of addresses.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, IpSubnets, Ipv4Subnets, Ipv6Subnets};

/// Addresses from a first to a last one, of one family. IPv4 addresses in IPv6 form are IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    first: IpAddr,
    last: IpAddr,
}

impl Range {
    /// The addresses from `first` to `last`. None if they are of two families, or in the wrong order.
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        let canonical = (first.to_canonical(), last.to_canonical());
        // A range that has only some of the IPv4 addresses in IPv6 form stays one of IPv6.
        let (first, last) = match canonical {
            (IpAddr::V4(_), IpAddr::V4(_)) => canonical,
            _ => (first, last),
        };
        let is_one_family = first.is_ipv4() == last.is_ipv4();
        (is_one_family && first <= last).then_some(Self { first, last })
    }

    /// The one address.
    pub fn of_address(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self {
            first: address,
            last: address,
        }
    }

    /// The addresses from `first` to `last`, which is not before it.
    pub(crate) const fn of_ipv4(first: Ipv4Addr, last: Ipv4Addr) -> Self {
        Self {
            first: IpAddr::V4(first),
            last: IpAddr::V4(last),
        }
    }

    /// The addresses of a prefix. Bits behind its length do not count.
    pub fn of_prefix(net: &IpNet) -> Self {
        let (first, last) = (net.network(), net.broadcast());
        Self::new(first, last).unwrap_or(Self { first, last })
    }

    /// The first address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The last address.
    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// The prefix that has exactly these addresses.
    fn prefix(&self) -> Option<IpNet> {
        let (has_others, length) = match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                let [first, last] = [first, last].map(u32::from);
                let differs = first ^ last;
                let is_prefix = first & differs == 0 && differs & differs.wrapping_add(1) == 0;
                (!is_prefix, differs.leading_zeros())
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                let [first, last] = [first, last].map(u128::from);
                let differs = first ^ last;
                let is_prefix = first & differs == 0 && differs & differs.wrapping_add(1) == 0;
                (!is_prefix, differs.leading_zeros())
            }
            _ => return None,
        };
        let length = u8::try_from(length).ok().filter(|_| !has_others)?;
        IpNet::new(self.first, length).ok()
    }

    /// The fewest prefixes that have exactly these addresses, in order.
    pub fn prefixes(&self) -> impl Iterator<Item = IpNet> + use<> {
        let single = self.prefix();
        let several = match (self.first, self.last) {
            _ if single.is_some() => None,
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                Some(IpSubnets::V4(Ipv4Subnets::new(first, last, 0)))
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                Some(IpSubnets::V6(Ipv6Subnets::new(first, last, 0)))
            }
            _ => None,
        };
        single.into_iter().chain(several.into_iter().flatten())
    }

    /// Returns true if it has all addresses of `other`, and more.
    pub fn is_around(&self, other: &Self) -> bool {
        self.first.is_ipv4() == other.first.is_ipv4()
            && self != other
            && self.first <= other.first
            && other.last <= self.last
    }

    /// The addresses without those of `other`, which lie within: up to two ranges.
    pub fn without(&self, other: &Self) -> impl Iterator<Item = Self> + use<> {
        let before = neighbour(other.first, false).and_then(|last| Self::new(self.first, last));
        let behind = neighbour(other.last, true).and_then(|first| Self::new(first, self.last));
        before.into_iter().chain(behind)
    }
}

/// The address before or behind another one.
fn neighbour(address: IpAddr, is_next: bool) -> Option<IpAddr> {
    match (address, is_next) {
        (IpAddr::V4(v4), true) => v4
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V4(bits.into())),
        (IpAddr::V4(v4), false) => v4
            .to_bits()
            .checked_sub(1)
            .map(|bits| IpAddr::V4(bits.into())),
        (IpAddr::V6(v6), true) => v6
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V6(bits.into())),
        (IpAddr::V6(v6), false) => v6
            .to_bits()
            .checked_sub(1)
            .map(|bits| IpAddr::V6(bits.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: &str, last: &str) -> Range {
        Range::new(first.parse().unwrap(), last.parse().unwrap()).unwrap()
    }

    fn texts(range: Range) -> Vec<String> {
        range.prefixes().map(|net| net.to_string()).collect()
    }

    #[test]
    fn range_is_the_fewest_prefixes() {
        for (first, last, prefixes) in [
            ("192.0.2.0", "192.0.2.255", &["192.0.2.0/24"][..]),
            ("192.0.2.7", "192.0.2.7", &["192.0.2.7/32"]),
            (
                "192.0.2.1",
                "192.0.2.4",
                &["192.0.2.1/32", "192.0.2.2/31", "192.0.2.4/32"],
            ),
            ("0.0.0.0", "255.255.255.255", &["0.0.0.0/0"]),
            (
                "255.255.255.254",
                "255.255.255.255",
                &["255.255.255.254/31"],
            ),
            (
                "2001:db8::",
                "2001:db8:0:ffff:ffff:ffff:ffff:ffff",
                &["2001:db8::/48"],
            ),
            ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &["::/0"]),
            ("::ffff:192.0.2.0", "::ffff:192.0.2.1", &["192.0.2.0/31"]),
        ] {
            assert_eq!(texts(range(first, last)), prefixes, "{first}-{last}");
        }
        let wrong = |first: &str, last: &str| {
            Range::new(first.parse().unwrap(), last.parse().unwrap()).is_none()
        };
        assert!(wrong("192.0.2.2", "192.0.2.1") && wrong("192.0.2.2", "2001:db8::1"));
    }

    #[test]
    fn prefixes_of_mapped_addresses_are_those_of_ipv4() {
        for (prefix, meant) in [
            ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
            ("::ffff:192.0.2.7/128", "192.0.2.7/32"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:0:0/95", "::fffe:0:0/95"),
            ("::/0", "::/0"),
        ] {
            let net: IpNet = prefix.parse().unwrap();
            assert_eq!(texts(Range::of_prefix(&net)), [meant], "{prefix}");
        }
    }

    #[test]
    fn part_of_a_range_is_taken_out() {
        let all = range("192.0.2.0", "192.0.2.255");
        for (first, last, left) in [
            ("192.0.2.0", "192.0.2.127", &["192.0.2.128/25"][..]),
            ("192.0.2.128", "192.0.2.255", &["192.0.2.0/25"]),
            ("192.0.2.2", "192.0.2.255", &["192.0.2.0/31"]),
        ] {
            let part = range(first, last);
            assert!(all.is_around(&part));
            let left_over: Vec<_> = all.without(&part).flat_map(texts).collect();
            assert_eq!(left_over, left, "{first}-{last}");
        }
        assert!(!all.is_around(&all) && !all.is_around(&range("::", "::1")));
        let everything = range("0.0.0.0", "255.255.255.255");
        assert_eq!(everything.without(&everything).count(), 0);
    }
}
