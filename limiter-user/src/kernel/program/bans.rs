//! Bans: a map of banned addresses and one of banned prefixes, which all generations share. Only a holder of the
//! attachment's lock changes them.
//!
//! A command that is killed leaves each ban as it was or as it should be. The number of bans, which switches the
//! program's lookups on, may then be too high. The next reading of all bans corrects it.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    os::fd::AsFd,
};

use aya::maps::{Array, HashMap, IterableMap, LpmTrie, Map, MapData, MapError, lpm_trie::Key};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use limiter_common::{
    abi::{Ban, Banned, ORIGIN_MAX, REASON_MAX},
    policy::ban::{NESTED, drops, is_over},
};

use crate::{
    config::{Invalid, invalid},
    kernel::{
        Error, Failed, Result,
        error::read_failed,
        program::{Raw, maps::open_map},
        sys::{Dir, bpf},
    },
};

const MAPS: [&str; 2] = ["BANS", "BANNED_PREFIXES"];
/// Bits of an IPv6 address.
const WHOLE: u32 = 128;

/// The IPv6 form of a prefix: its length and its address.
fn key_of(prefix: &IpNet) -> (u32, [u8; 16]) {
    match prefix {
        IpNet::V4(net) => (
            u32::from(net.prefix_len()) + 96,
            net.addr().to_ipv6_mapped().octets(),
        ),
        IpNet::V6(net) => (net.prefix_len().into(), net.addr().octets()),
    }
}

/// The prefix with this IPv6 form.
fn prefix_of(bits: u32, address: [u8; 16]) -> Result<IpNet> {
    let length = |bits: u32| u8::try_from(bits).unwrap_or(u8::MAX);
    let address = Ipv6Addr::from(address);
    match (address.to_ipv4_mapped(), bits.checked_sub(96)) {
        (Some(v4), Some(bits)) => Ipv4Net::new(v4, length(bits)).map(IpNet::V4),
        _ => Ipv6Net::new(address, length(bits)).map(IpNet::V6),
    }
    .map_err(read_failed)
}

/// A ban of `prefix` until `until`, in nanoseconds of the kernel's clock; 0: without end.
pub fn ban(prefix: &IpNet, until: u64, origin: &str, reason: &str) -> Result<Ban, Invalid> {
    let mut ban = Ban {
        until,
        dropped: 0,
        bits: key_of(prefix).0,
        reserved: 0,
        origin: [0; ORIGIN_MAX],
        reason: [0; REASON_MAX],
    };
    for (what, field, text) in [
        ("origin", &mut ban.origin[..], origin),
        ("reason", &mut ban.reason, reason),
    ] {
        let (most, length) = (field.len(), text.len());
        if length > most || text.contains(char::is_control) {
            return Err(invalid!(
                "the {what} of a ban has at most {most} bytes, without control characters, and this one has {length}: shorten it"
            ));
        }
        field[..length].copy_from_slice(text.as_bytes());
    }
    Ok(ban)
}

/// A text of a ban.
pub fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// The bans of one attachment.
pub struct Bans {
    addresses: HashMap<MapData, [u8; 16], Raw<Ban>>,
    prefixes: LpmTrie<MapData, [u8; 16], Raw<Ban>>,
    banned: Array<MapData, Raw<Banned>>,
}

impl std::fmt::Debug for Bans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bans").finish_non_exhaustive()
    }
}

impl Bans {
    /// Opens the maps that are pinned in the folder of an attachment.
    pub fn open(folder: &Dir) -> Result<Self> {
        let [addresses, prefixes] = MAPS.map(|name| open_map(folder, name));
        let addresses = Map::HashMap(addresses?);
        let prefixes = Map::LpmTrie(prefixes?);
        let banned = Map::Array(open_map(folder, "BANNED")?);
        Ok(Self {
            addresses: addresses.try_into().map_err(read_failed)?,
            prefixes: prefixes.try_into().map_err(read_failed)?,
            banned: banned.try_into().map_err(read_failed)?,
        })
    }

    fn banned(&self) -> Result<Banned> {
        let Raw(banned) = self.banned.get(&0, 0).map_err(read_failed)?;
        Ok(banned)
    }

    fn write(&mut self, banned: Banned) -> Result<()> {
        self.banned.set(0, Raw(banned), 0).map_err(read_failed)
    }

    /// The bans that have not ended at `now`, in no order.
    pub fn at(&self, now: u64) -> Result<Vec<(IpNet, Ban)>> {
        let mut all = self.all()?;
        all.retain(|(_, ban)| !is_over(ban, now));
        Ok(all)
    }

    fn all(&self) -> Result<Vec<(IpNet, Ban)>> {
        let banned = self.banned()?;
        let mut all = Vec::new();
        if banned.addresses > 0 {
            let read = bpf::read_all(self.addresses.map().fd().as_fd());
            for (address, Raw(ban)) in read.failed("reading the bans")? {
                all.push((prefix_of(WHOLE, address)?, ban));
            }
        }
        if banned.prefixes > 0 {
            let read = bpf::read_all(self.prefixes.map().fd().as_fd());
            let read: Vec<(Key<[u8; 16]>, Raw<Ban>)> = read.failed("reading the bans")?;
            for (key, Raw(ban)) in read {
                all.push((prefix_of(key.prefix_len(), key.data())?, ban));
            }
        }
        Ok(all)
    }

    /// The ban that drops packets of a source at `now`. `allowed`: see [`limiter_common::abi::Listed::allowed`].
    pub fn of(&self, source: IpAddr, allowed: u32, now: u64) -> Result<Option<(IpNet, Ban)>> {
        let address = key_of(&source.into()).1;
        let applies = |ban: &Ban| drops(ban, allowed, now);
        if let Some(ban) = self.get(&source.into())?.filter(applies) {
            return Ok(Some((source.into(), ban)));
        }
        let mut bits = WHOLE;
        for _ in 0..NESTED {
            let found = self.prefixes.get(&Key::new(bits, address), 0);
            let Some(ban) = found_in(found)? else { break };
            if applies(&ban) {
                return Ok(Some((prefix_of(ban.bits, address)?.trunc(), ban)));
            }
            let Some(shorter) = ban.bits.checked_sub(1) else {
                break;
            };
            bits = shorter;
        }
        Ok(None)
    }

    /// The ban of exactly this prefix.
    fn get(&self, prefix: &IpNet) -> Result<Option<Ban>> {
        let (bits, address) = key_of(prefix);
        if bits == WHOLE {
            return found_in(self.addresses.get(&address, 0));
        }
        // The trie finds a shorter prefix too.
        let found = found_in(self.prefixes.get(&Key::new(bits, address), 0))?;
        Ok(found.filter(|ban| ban.bits == bits))
    }

    fn put(&mut self, prefix: &IpNet, ban: Ban) -> Result<(), MapError> {
        let (bits, address) = key_of(prefix);
        match bits {
            WHOLE => self.addresses.insert(address, Raw(ban), 0),
            bits => self.prefixes.insert(&Key::new(bits, address), Raw(ban), 0),
        }
    }

    fn take(&mut self, prefix: &IpNet) -> Result<()> {
        let (bits, address) = key_of(prefix);
        let removed = match bits {
            WHOLE => self.addresses.remove(&address),
            bits => self.prefixes.remove(&Key::new(bits, address)),
        };
        removed.map_err(read_failed)
    }

    /// Adds or renews these bans, all or none of them. Returns those that were there already, as they were. `most`: the
    /// bans that there is room for.
    pub fn add(
        &mut self,
        bans: &BTreeMap<IpNet, Ban>,
        most: u32,
        now: u64,
    ) -> Result<BTreeMap<IpNet, Ban>> {
        let mut banned = self.without_ended(bans.len(), most, now)?;
        let mut before = BTreeMap::new();
        for (prefix, ban) in bans {
            match self.get(prefix)? {
                Some(earlier) => drop(before.insert(*prefix, earlier)),
                None => banned.add(ban.bits),
            }
            banned.ends(ban.until);
        }
        let count = banned.addresses + banned.prefixes;
        if count > most.into() {
            return Err(Error::Refused(format!(
                "there is room for {most} bans, and with these there would be {count}; none was added: remove some (`limiter bans` lists them), ban a prefix instead of its addresses, or attach again with a larger --max-bans"
            )));
        }
        // The program looks for bans before there is one.
        self.write(banned)?;
        for (prefix, ban) in bans {
            let dropped = before.get(prefix).map_or(0, |earlier| earlier.dropped);
            if let Err(error) = self.put(prefix, Ban { dropped, ..*ban }) {
                for (undone, _) in bans.range(..*prefix) {
                    let _ = match before.get(undone) {
                        Some(earlier) => self.put(undone, *earlier).map_err(read_failed),
                        None => self.take(undone),
                    };
                }
                return Err(Error::Refused(format!(
                    "the kernel did not take a ban ({error}); none was added: free memory, and try again"
                )));
            }
        }
        Ok(before)
    }

    /// Removes the bans of these prefixes. Returns those that were there.
    pub fn remove(&mut self, prefixes: &[IpNet], now: u64) -> Result<BTreeMap<IpNet, Ban>> {
        let mut banned = self.without_ended(0, u32::MAX, now)?;
        let mut removed = BTreeMap::new();
        for prefix in prefixes {
            if let Some(ban) = self.get(prefix)? {
                self.take(prefix)?;
                banned.remove(ban.bits);
                removed.insert(*prefix, ban);
            }
        }
        self.write(banned)?;
        Ok(removed)
    }

    /// Removes the bans that have ended, if there are any, or if there may be no room for `more`.
    fn without_ended(&mut self, more: usize, most: u32, now: u64) -> Result<Banned> {
        let banned = self.banned()?;
        let any_ended = banned.first_end != 0 && banned.first_end <= now;
        let count = banned.addresses + banned.prefixes;
        if !any_ended && count + more as u64 <= most.into() {
            return Ok(banned);
        }
        let mut counted = Banned::default();
        for (prefix, ban) in self.all()? {
            if is_over(&ban, now) {
                self.take(&prefix)?;
            } else {
                counted.add(ban.bits);
                counted.ends(ban.until);
            }
        }
        self.write(counted)?;
        Ok(counted)
    }
}

/// The counts, as they change with single bans.
trait Counts {
    fn add(&mut self, bits: u32);
    fn remove(&mut self, bits: u32);
    fn ends(&mut self, until: u64);
}

impl Counts for Banned {
    fn add(&mut self, bits: u32) {
        match bits {
            WHOLE => self.addresses += 1,
            _ => self.prefixes += 1,
        }
    }

    fn remove(&mut self, bits: u32) {
        let count = match bits {
            WHOLE => &mut self.addresses,
            _ => &mut self.prefixes,
        };
        *count = count.saturating_sub(1);
    }

    fn ends(&mut self, until: u64) {
        if until != 0 && (self.first_end == 0 || until < self.first_end) {
            self.first_end = until;
        }
    }
}

fn found_in(found: Result<Raw<Ban>, MapError>) -> Result<Option<Ban>> {
    match found {
        Ok(Raw(ban)) => Ok(Some(ban)),
        Err(MapError::KeyNotFound) => Ok(None),
        Err(error) => Err(read_failed(error)),
    }
}

/// Removes all bans of an attachment that is to be unpinned, one by one: freeing a large trie at once would stop a CPU
/// for seconds. Maps that are not there, or cannot be read, are left to the kernel.
pub(in crate::kernel) fn clear(folder: &Dir) {
    if let Ok(mut bans) = Bans::open(folder) {
        for (prefix, _) in bans.all().unwrap_or_default() {
            let _ = bans.take(&prefix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_found_again_by_their_ipv6_form() {
        for prefix in [
            "0.0.0.0/0",
            "192.0.2.0/24",
            "192.0.2.7/32",
            "::/0",
            "2001:db8::/32",
            "::1/128",
        ] {
            let prefix: IpNet = prefix.parse().unwrap();
            let (bits, address) = key_of(&prefix);
            assert_eq!(prefix_of(bits, address).unwrap(), prefix);
        }
    }

    #[test]
    fn texts_of_a_ban_read_back_up_to_their_longest() {
        let prefix = "::1/128".parse().unwrap();
        let longest = "ä".repeat(REASON_MAX / 2);
        let made = ban(&prefix, 0, "hand", &longest).unwrap();
        assert_eq!([text(&made.origin), text(&made.reason)], ["hand", &longest]);
        assert!(ban(&prefix, 0, "hand", &(longest + "x")).is_err());
        assert!(ban(&prefix, 0, "hand", "a\0b").is_err());
    }
}
