//! The part of the Internet that a list covers.

use ipnet::IpNet;

/// Addresses of IPv4.
const IPV4: f64 = (1_u64 << 32) as f64;
/// Networks of /48 in 2000::/3, which global IPv6 addresses are from.
const NETWORKS: f64 = (1_u64 << 45) as f64;

/// Bits of an IPv6 address behind those of a /48.
const BEHIND: u32 = 80;

/// The part of IPv4 that prefixes cover, and the networks of /48 that they touch, as part of 2000::/3; in per cent.
/// Prefixes within others count once. `prefixes`: in their order.
pub fn coverage<'p>(prefixes: impl Iterator<Item = &'p IpNet>) -> [f64; 2] {
    let mut sums = [0_u128; 2];
    // The first addresses behind the prefixes so far.
    let mut next = [0_u128; 2];
    for prefix in prefixes {
        let (version, first, last) = match prefix {
            IpNet::V4(net) => (
                0,
                net.network().to_bits().into(),
                net.broadcast().to_bits().into(),
            ),
            IpNet::V6(net) => (
                1,
                net.network().to_bits() >> BEHIND,
                net.broadcast().to_bits() >> BEHIND,
            ),
        };
        let first: u128 = next[version].max(first);
        sums[version] += (last + 1).saturating_sub(first);
        next[version] = next[version].max(last + 1);
    }
    let per_cent = |sum: u128, all: f64| 100.0 * sum as f64 / all;
    [per_cent(sums[0], IPV4), per_cent(sums[1], NETWORKS)]
}

/// Fails if the prefixes cover more than `most` per cent of IPv4 or of IPv6.
pub fn check<'p>(prefixes: impl Iterator<Item = &'p IpNet>, most: f64) -> Result<(), String> {
    for (covered, addresses) in coverage(prefixes)
        .iter()
        .zip(["all IPv4 addresses", "the IPv6 networks (/48) of 2000::/3"])
    {
        if *covered > most {
            return Err(format!(
                "it covers {covered:.1} % of {addresses}, more than max-coverage = {most} allows: read it, and write max-coverage = {} in the feed's file if it is right",
                covered.ceil()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn nets(all: &[&str]) -> BTreeSet<IpNet> {
        all.iter().map(|net| net.parse().unwrap()).collect()
    }

    #[test]
    fn addresses_are_counted_once() {
        for (prefixes, [ipv4, ipv6]) in [
            (&["10.0.0.0/8"][..], [100.0 / 256.0, 0.0]),
            (
                &["10.0.0.0/8", "10.1.0.0/16", "10.255.255.255/32"],
                [100.0 / 256.0, 0.0],
            ),
            (&["0.0.0.0/8", "255.0.0.0/8"], [200.0 / 256.0, 0.0]),
            (
                &["2001::/16", "2001:db8::/32", "2001:db8::1/128"],
                [0.0, 100.0 / 8192.0],
            ),
            // Two addresses in one /48, and one in another.
            (
                &["2001:db8::1/128", "2001:db8::2/128", "2001:db8:1::/64"],
                [0.0, 200.0 / NETWORKS],
            ),
        ] {
            assert_eq!(
                coverage(nets(prefixes).iter()),
                [ipv4, ipv6],
                "{prefixes:?}"
            );
        }
    }

    #[test]
    fn list_of_large_prefixes_is_refused_with_the_setting_that_allows_it() {
        let many: Vec<_> = (1..=100).map(|net| format!("{net}.0.0.0/8")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let why = check(nets(&many).iter(), 1.0).unwrap_err();
        assert!(
            why.contains("39.1 %") && why.contains("max-coverage = 40"),
            "{why}"
        );
        assert_eq!(check(nets(&many).iter(), 40.0), Ok(()));
        assert_eq!(check(nets(&many[..2]).iter(), 1.0), Ok(()));
        let many: Vec<_> = (0..83).map(|net| format!("2a{net:02}::/16")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let why = check(nets(&many).iter(), 1.0).unwrap_err();
        assert!(why.contains("1.0 % of the IPv6"), "{why}");
        assert_eq!(check(nets(&many[..81]).iter(), 1.0), Ok(()));
    }
}
