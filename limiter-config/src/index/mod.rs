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

use families::{Ipv4, Ipv6, Placed};
use flat::Flat;

use super::{Invalid, Prefixes, compile::Compiled, ensure, invalid};

mod families;
mod flat;
#[cfg(test)]
mod tests;

/// An index that is not written yet. It has the ranges. The prefixes are read again when it is written, so that there is
/// no second copy of them.
#[derive(Debug)]
pub struct Plan<'a> {
    prefixes: &'a Compiled,
    ipv4: (Ipv4, Placed),
    ipv6: (Ipv6, Placed),
    records: Vec<u64>,
    groups: BTreeMap<u32, Group>,
    /// The places of its parts.
    pub index: Index,
    /// Number of its words.
    pub length: u32,
}

/// The prefixes that are on the same lists: their numbers, and the place of their first word.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    ipv4: usize,
    ipv6: usize,
    place: u32,
}

/// Words of a prefix in a group, by family.
const WORDS: [usize; 2] = [1, 3];

impl<'a> Plan<'a> {
    /// Makes the ranges of these prefixes, and gives all parts of the index their places.
    pub fn new(prefixes: &'a Compiled) -> Result<Self, Invalid> {
        let mut records = Records::default();
        let mut last = (0, 0);
        let mut ipv4 = Flat::<u32, Ipv4>::default();
        let mut ipv6 = Flat::<u128, Ipv6>::default();
        let mut groups: BTreeMap<u32, Group> = BTreeMap::new();
        for (prefix, listed) in prefixes.iter() {
            // Most prefixes have the record of the one before.
            if last.0 != listed.record() {
                last = (listed.record(), records.number(listed.record()));
            }
            let (_, record) = last;
            let group = groups.entry(listed.own).or_default();
            match prefix {
                IpNet::V4(net) => {
                    let [first, last] = [net.network(), net.broadcast()].map(u32::from);
                    ipv4.add(first, last, record, |last| last.checked_add(1));
                    group.ipv4 += 1;
                }
                IpNet::V6(net) => {
                    let [first, last] = [net.network(), net.broadcast()].map(u128::from);
                    ipv6.add(first, last, record, |last| last.checked_add(1));
                    group.ipv6 += 1;
                }
            }
        }
        let ipv4 = ipv4.end(|last| last.checked_add(1));
        let mut ipv6 = ipv6.end(|last| last.checked_add(1));
        ipv6.close();
        let mut places = Places(HEADER as u32);
        let placed = [ipv4.place(&mut places)?, ipv6.place(&mut places)?];
        let records = records.words;
        let index = Index {
            ipv4: placed[0].ranges,
            ipv6: placed[1].ranges,
            records: places.take(records.len())?,
            prefixes: places.0,
        };
        for group in groups.values_mut() {
            let [of_ipv4, of_ipv6] = WORDS;
            fits(group.ipv4.max(group.ipv6))?;
            group.place = places.take(2 + group.ipv4 * of_ipv4 + group.ipv6 * of_ipv6)?;
        }
        let [in_ipv4, in_ipv6] = placed;
        Ok(Self {
            prefixes,
            ipv4: (ipv4, in_ipv4),
            ipv6: (ipv6, in_ipv6),
            records,
            groups,
            index,
            length: places.0,
        })
    }

    /// Calls `put` with each word and its number.
    pub fn write(self, mut put: impl FnMut(u32, u64)) {
        let put = &mut put;
        (0..)
            .zip(self.index.words())
            .for_each(|(place, word)| put(place, word));
        let (ipv4, placed) = self.ipv4;
        ipv4.write(&placed, put);
        drop(ipv4);
        let (ipv6, placed) = self.ipv6;
        ipv6.write(&placed, put);
        drop(ipv6);
        let records = (self.index.records..).zip(self.records);
        records.for_each(|(place, record)| put(place, record));
        write_prefixes(self.prefixes, self.groups, put);
    }
}

/// Writes the prefixes by their groups: the lists, the numbers of both families, and the prefixes, of IPv4 in one word and
/// of IPv6 in three.
fn write_prefixes(
    prefixes: &Compiled,
    groups: BTreeMap<u32, Group>,
    put: &mut impl FnMut(u32, u64),
) {
    // The places of the next prefixes of each group.
    let mut next = HashMap::new();
    for (own, group) in groups {
        put(group.place, own.into());
        put(
            group.place + 1,
            joined(group.ipv4 as u32, group.ipv6 as u32),
        );
        let ipv4 = group.place + 2;
        next.insert(own, (ipv4, ipv4 + (group.ipv4 * WORDS[0]) as u32));
    }
    for (prefix, own) in prefixes.own() {
        let Some((ipv4, ipv6)) = next.get_mut(&own) else {
            continue;
        };
        match prefix {
            IpNet::V4(net) => {
                put(*ipv4, joined(net.prefix_len().into(), net.addr().into()));
                *ipv4 += WORDS[0] as u32;
            }
            IpNet::V6(net) => {
                let address = u128::from(net.addr());
                let words = [
                    (address >> 64) as u64,
                    address as u64,
                    net.prefix_len().into(),
                ];
                (*ipv6..)
                    .zip(words)
                    .for_each(|(place, word)| put(place, word));
                *ipv6 += WORDS[1] as u32;
            }
        }
    }
}

/// The number of the next word that has no use yet.
#[derive(Debug)]
struct Places(u32);

impl Places {
    /// Takes the places of some words. Returns the first one.
    fn take(&mut self, words: usize) -> Result<u32, Invalid> {
        let first = self.0;
        let next = u32::try_from(words).ok();
        let next = next.and_then(|words| first.checked_add(words));
        self.0 = next.ok_or_else(too_many)?;
        Ok(first)
    }
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

fn too_many() -> Invalid {
    invalid!("the lists have too many prefixes: at most some 60 million have room")
}

/// A place or a number of bounds.
fn fits(bounds: usize) -> Result<u32, Invalid> {
    ensure!(
        bounds < BOUNDS_MAX,
        "the lists have too many prefixes: at most some 60 million have room"
    );
    Ok(bounds as u32)
}

/// The prefixes in the words of an index, by the bits of the lists that they are on. None if these are no such words.
pub fn prefixes(array: &impl Array) -> Option<Vec<(Prefixes, u32)>> {
    let mut next = Index::read(array)?.prefixes;
    let mut word = || {
        next = next.checked_add(1)?;
        array.word(next - 1)
    };
    let mut groups = Vec::new();
    while let Some(own) = word() {
        let own = u32::try_from(own).ok()?;
        let (ipv4, ipv6) = halves(word()?);
        let (mut of_ipv4, mut of_ipv6) = (Vec::new(), Vec::new());
        for _ in 0..ipv4 {
            let (length, address) = halves(word()?);
            of_ipv4.push(Ipv4Net::new(address.into(), u8::try_from(length).ok()?).ok()?);
        }
        for _ in 0..ipv6 {
            let address = u128::from(word()?) << 64 | u128::from(word()?);
            of_ipv6.push(Ipv6Net::new(address.into(), u8::try_from(word()?).ok()?).ok()?);
        }
        groups.push((Prefixes::of_families(of_ipv4, of_ipv6), own));
    }
    Some(groups)
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
