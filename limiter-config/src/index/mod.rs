//! Makes the [`limiter_common::index`] of the lists, and reads it back.

#![expect(
    clippy::cast_possible_truncation,
    reason = "addresses have two halves, and numbers are checked"
)]

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use limiter_common::{
    abi::Listed,
    index::{Array, BOUNDS_MAX, HEADER, Index, halves, joined},
    table::key::ipv4_words,
};

use flat::Flat;

use super::{Invalid, ensure, invalid};

mod families;
mod flat;
#[cfg(test)]
mod tests;

/// The words of the index of these prefixes, each with its lists; and the places of its parts.
pub fn words(prefixes: &BTreeMap<IpNet, Listed>) -> Result<(Vec<u64>, Index), Invalid> {
    let mut records = Records::default();
    let (mut ipv4, mut ipv6) = (Flat::default(), Flat::default());
    let mut by_own: BTreeMap<u32, (Vec<Ipv4Net>, Vec<Ipv6Net>)> = BTreeMap::new();
    for (prefix, listed) in prefixes {
        let record = records.number(listed.record());
        let own = by_own.entry(listed.own).or_default();
        match prefix {
            IpNet::V4(net) => {
                let [first, last] = [net.network(), net.broadcast()].map(u32::from);
                ipv4.add(first, last, record, |last| last.checked_add(1));
                own.0.push(*net);
            }
            IpNet::V6(net) => {
                let [first, last] = [net.network(), net.broadcast()].map(u128::from);
                ipv6.add(first, last, record, |last| last.checked_add(1));
                own.1.push(*net);
            }
        }
    }
    let ipv4 = ipv4.end(|last| last.checked_add(1));
    let ipv6 = ipv6.end(|last| last.checked_add(1));
    let mut words = vec![0; HEADER];
    let ipv4 = families::put_ipv4(&mut words, &ipv4)?;
    let ipv6 = families::put_ipv6(&mut words, &ipv6)?;
    let records = put(&mut words, records.words);
    let index = Index {
        ipv4,
        ipv6,
        records: records?,
        prefixes: place(&words)?,
    };
    words[..HEADER].copy_from_slice(&index.words());
    put_prefixes(&mut words, by_own)?;
    place(&words)?;
    Ok((words, index))
}

/// Distinct records. The first one is that of no list.
#[derive(Debug)]
struct Records {
    words: Vec<u64>,
    numbers: HashMap<u64, u32>,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            words: vec![0],
            numbers: HashMap::from([(0, 0)]),
        }
    }
}

impl Records {
    fn number(&mut self, record: u64) -> u32 {
        *self.numbers.entry(record).or_insert_with(|| {
            self.words.push(record);
            self.words.len() as u32 - 1
        })
    }
}

/// The number of the next word.
fn place(words: &[u64]) -> Result<u32, Invalid> {
    u32::try_from(words.len()).map_err(|_| too_many())
}

fn too_many() -> Invalid {
    invalid!("the lists have too many prefixes: at most some 60 million have room")
}

fn put(words: &mut Vec<u64>, new: impl IntoIterator<Item = u64>) -> Result<u32, Invalid> {
    let place = place(words);
    words.extend(new);
    place
}

/// A place or a number of bounds.
fn fits(bounds: usize) -> Result<u32, Invalid> {
    ensure!(
        bounds < BOUNDS_MAX,
        "the lists have too many prefixes: at most some 60 million have room"
    );
    Ok(bounds as u32)
}

/// Writes the prefixes, in groups that are on the same lists: the lists, the numbers of both families, and the prefixes,
/// of IPv4 in one word and of IPv6 in three.
fn put_prefixes(
    words: &mut Vec<u64>,
    by_own: BTreeMap<u32, (Vec<Ipv4Net>, Vec<Ipv6Net>)>,
) -> Result<(), Invalid> {
    for (own, (ipv4, ipv6)) in by_own {
        words.extend([own.into(), joined(fits(ipv4.len())?, fits(ipv6.len())?)]);
        words.extend(
            ipv4.iter()
                .map(|net| joined(net.prefix_len().into(), net.addr().into())),
        );
        for net in ipv6 {
            let address = u128::from(net.addr());
            words.extend([
                (address >> 64) as u64,
                address as u64,
                net.prefix_len().into(),
            ]);
        }
    }
    Ok(())
}

/// The prefixes in the words of an index, each with the lists that it is on. None if these are no such words.
pub fn prefixes(array: &impl Array) -> Option<Vec<(IpNet, u32)>> {
    let mut next = Index::read(array)?.prefixes;
    let mut word = || {
        next = next.checked_add(1)?;
        array.word(next - 1)
    };
    let mut prefixes = Vec::new();
    while let Some(own) = word() {
        let own = u32::try_from(own).ok()?;
        let (ipv4, ipv6) = halves(word()?);
        for _ in 0..ipv4 {
            let (length, address) = halves(word()?);
            let net = Ipv4Net::new(address.into(), u8::try_from(length).ok()?).ok()?;
            prefixes.push((net.into(), own));
        }
        for _ in 0..ipv6 {
            let address = u128::from(word()?) << 64 | u128::from(word()?);
            let net = Ipv6Net::new(address.into(), u8::try_from(word()?).ok()?).ok()?;
            prefixes.push((net.into(), own));
        }
    }
    Some(prefixes)
}

/// The lists that decide about an address, by the words of an index. None if these are no such words.
pub fn listed(array: &impl Array, address: IpAddr) -> Option<Listed> {
    let index = Index::read(array)?;
    Some(Listed::of_record(match address {
        IpAddr::V4(v4) => index.ipv4(array, &ipv4_words(u32::from(v4).to_be())),
        IpAddr::V6(v6) => {
            let address = u128::from(v6);
            let halves = [(address >> 64) as u64, address as u64];
            index.ipv6(array, &halves.map(u64::to_be))
        }
    }))
}
