//! Bans: a map of banned addresses and one of banned prefixes, which all generations share. Only a holder of the
//! attachment's lock changes them.
//!
//! A command that is killed leaves all bans as they were, or all as they should be: they have the number of their change,
//! which one store puts in force ([`limiter_common::policy::ban`]). Only reasons and origins of bans that were renewed
//! may be new already. The number of bans, which switches the program's lookups on, may then be too high. The next edit
//! corrects it, and removes what is left.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    os::fd::AsFd,
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

use aya::maps::{HashMap, IterableMap, LpmTrie, Map, MapData, MapError, lpm_trie::Key};
use ipnet::IpNet;
use limiter_common::{
    abi::{Ban, Banned},
    plain::Plain as _,
    policy::ban::{NESTED, OVER, drops, end, is_over},
};
use limiter_config::{Invalid, invalid};

use crate::{
    Error, Failed, Result,
    error::read_failed,
    program::{
        Raw,
        maps::{self, open_map},
    },
    sys::{Dir, bpf, words::Words},
};

/// Bits of an IPv6 address.
const WHOLE: u32 = 128;

/// Attempts to write a ban, a millisecond apart.
const TRIES: u32 = 100;

/// Nanoseconds for which bans that have ended may stay, so that not every edit reads all bans.
const LEFT_OVER: u64 = 10_000_000_000;

type Address = Key<[u8; 16]>;

/// The IPv6 form of a prefix.
fn key_of(prefix: &IpNet) -> Address {
    let length = u32::from(prefix.prefix_len());
    match prefix {
        IpNet::V4(net) => Key::new(96 + length, net.addr().to_ipv6_mapped().octets()),
        IpNet::V6(net) => Key::new(length, net.addr().octets()),
    }
}

/// The prefix with this IPv6 form.
fn prefix_of(bits: u32, address: [u8; 16]) -> Result<IpNet> {
    let address = Ipv6Addr::from(address);
    let (address, bits) = match (address.to_ipv4_mapped(), bits.checked_sub(96)) {
        (Some(v4), Some(bits)) => (IpAddr::V4(v4), bits),
        _ => (IpAddr::V6(address), bits),
    };
    IpNet::new(address, u8::try_from(bits).unwrap_or(u8::MAX)).map_err(read_failed)
}

/// The origin of bans that people make with `limiter ban` on one host. Only these may drop a source whose network is
/// allowed.
pub const BY_HAND: &str = "hand";

/// A ban of `prefix` until `until`, in nanoseconds of the kernel's clock; 0: without end.
pub fn ban(prefix: &IpNet, until: u64, origin: &str, reason: &str) -> Result<Ban, Invalid> {
    let mut ban = Ban {
        until,
        bits: key_of(prefix).prefix_len(),
        yields: u32::from(origin != BY_HAND),
        ..Ban::ZEROS
    };
    for (name, field, text) in [
        ("origin", &mut ban.origin[..], origin),
        ("reason", &mut ban.reason, reason),
    ] {
        let (most, length) = (field.len(), text.len());
        if length > most || text.contains(char::is_control) {
            return Err(invalid!(
                "the {name} of a ban has at most {most} bytes, without control characters, and this one has {length}: shorten it"
            ));
        }
        field[..length].copy_from_slice(text.as_bytes());
    }
    Ok(ban)
}

/// The origin that a ban has for a name: names that are too long are cut, with a checksum that keeps them different.
pub fn origin(name: &str) -> String {
    let most = Ban::ZEROS.origin.len();
    if name.len() <= most {
        return name.to_owned();
    }
    // FNV-1a.
    let sum = name.bytes().fold(0x811c_9dc5_u32, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{}~{sum:08x}", cut(name, most - 9))
}

/// The reason that a ban has for a text, which is cut if it is too long.
pub fn reason(text: &str) -> String {
    let most = Ban::ZEROS.reason.len();
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", cut(text, most - '…'.len_utf8()))
}

/// The first characters of a text, of at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

/// A text of a ban.
pub fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// The bans of one attachment.
pub struct Bans {
    addresses: HashMap<MapData, Address, Raw<Ban>>,
    prefixes: LpmTrie<MapData, [u8; 16], Raw<Ban>>,
    /// [`Banned`].
    state: Words,
}

impl Bans {
    /// Opens the maps that are pinned in the folder of an attachment.
    pub fn open(folder: &Dir) -> Result<Self> {
        let [addresses, prefixes, state] =
            ["BANS", "BANNED_PREFIXES", "BANNED"].map(|name| open_map(folder, name));
        let state = Words::map(&state?, size_of::<Banned>());
        Ok(Self {
            addresses: Map::HashMap(addresses?).try_into()?,
            prefixes: Map::LpmTrie(prefixes?).try_into()?,
            state: state.failed("memory-mapping the map BANNED")?,
        })
    }

    /// The bans that have not ended at `now`, in no order.
    pub fn at(&self, now: u64) -> Result<Vec<(IpNet, Ban)>> {
        let change = self.banned().change;
        let mut all = self.all()?;
        for (_, ban) in &mut all {
            *ban = in_force(ban, change);
        }
        all.retain(|(_, ban)| !is_over(ban.until, now));
        Ok(all)
    }

    /// All entries, also of a change that is not in force.
    fn all(&self) -> Result<Vec<(IpNet, Ban)>> {
        let counted = self.banned().counts.into_iter();
        let mut all = Vec::new();
        for (count, map) in counted.zip([self.addresses.map(), self.prefixes.map()]) {
            if count > 0 {
                let read: Vec<(Address, Raw<Ban>)> =
                    bpf::read_all(map.fd().as_fd()).failed("reading the bans")?;
                for (key, Raw(ban)) in read {
                    all.push((prefix_of(key.prefix_len(), key.data())?, ban));
                }
            }
        }
        Ok(all)
    }

    fn banned(&self) -> Banned {
        let word = |index: usize| {
            self.state
                .get(index)
                .map_or(0, |word| word.load(Ordering::Acquire))
        };
        Banned {
            counts: [word(0), word(1)],
            first_end: word(2),
            change: word(3),
        }
    }

    /// Each word is stored in one step. The first end is the last one, because it may say that nothing is left to settle.
    fn write(&self, banned: Banned) {
        let [addresses, prefixes] = banned.counts;
        for (index, value) in [
            (0, addresses),
            (1, prefixes),
            (3, banned.change),
            (2, banned.first_end),
        ] {
            if let Some(word) = self.state.get(index) {
                word.store(value, Ordering::Release);
            }
        }
    }

    /// The ban that drops packets of a source at `now`. `allowed`: see [`limiter_common::abi::Listed::allowed`].
    pub fn of(&self, source: IpAddr, allowed: u32, now: u64) -> Result<Option<(IpNet, Ban)>> {
        let change = self.banned().change;
        let mut key = key_of(&source.into());
        let mut found = found_in(self.addresses.get(&key, 0))?;
        for _ in 0..=NESTED {
            if let Some(ban) = found.filter(|ban| drops(ban, change, allowed, now)) {
                let prefix = prefix_of(ban.bits, key.data())?.trunc();
                return Ok(Some((prefix, in_force(&ban, change))));
            }
            found = found_in(self.prefixes.get(&key, 0))?;
            let Some(ban) = found else { break };
            key = Key::new(ban.bits.saturating_sub(1), key.data());
        }
        Ok(None)
    }

    /// The ban of exactly this prefix.
    pub fn get(&self, prefix: &IpNet) -> Result<Option<Ban>> {
        let key = key_of(prefix);
        let found = match key.prefix_len() {
            WHOLE => self.addresses.get(&key, 0),
            _ => self.prefixes.get(&key, 0),
        };
        // The trie finds a shorter prefix too.
        let found = found_in(found)?.filter(|ban| ban.bits == key.prefix_len());
        let change = self.banned().change;
        Ok(found.map(|ban| in_force(&ban, change)))
    }

    /// Returns true if the prefix has a ban of another origin.
    pub fn is_of_another(&self, prefix: &IpNet, ban: &Ban, now: u64) -> Result<bool> {
        let earlier = self.get(prefix)?;
        Ok(earlier
            .is_some_and(|earlier| earlier.origin != ban.origin && !is_over(earlier.until, now)))
    }

    /// Writes the ban of a prefix, or removes it. Tries again for a while if the kernel has no memory at hand: it
    /// gets new memory for maps in the background.
    fn put(&mut self, prefix: &IpNet, ban: Option<Ban>) -> Result<()> {
        let key = key_of(prefix);
        let mut tries = 0;
        loop {
            let done = match (key.prefix_len(), ban) {
                (WHOLE, Some(ban)) => self.addresses.insert(key, Raw(ban), 0),
                (WHOLE, None) => self.addresses.remove(&key),
                (_, Some(ban)) => self.prefixes.insert(&key, Raw(ban), 0),
                (_, None) => self.prefixes.remove(&key),
            };
            tries += 1;
            match done {
                Err(MapError::SyscallError(error))
                    if tries < TRIES
                        && matches!(
                            error.io_error.raw_os_error(),
                            Some(libc::ENOMEM | libc::EBUSY | libc::EAGAIN)
                        ) =>
                {
                    thread::sleep(Duration::from_millis(1));
                }
                done => return done.map_err(read_failed),
            }
        }
    }

    /// Adds or renews these bans, all or none of them. Returns those that were there already, as they were. `most`: the
    /// bans that there is room for.
    pub fn add(
        &mut self,
        bans: &BTreeMap<IpNet, Ban>,
        most: u32,
        now: u64,
    ) -> Result<BTreeMap<IpNet, Ban>> {
        let mut banned = self.settled(bans.len() as u64, most.into(), now)?;
        let mut before = BTreeMap::new();
        for (prefix, ban) in bans {
            match self.get(prefix)? {
                Some(earlier) => drop(before.insert(*prefix, earlier)),
                None => *count_of(&mut banned, ban) += 1,
            }
            banned.first_end = first_end(&banned, ban.until);
        }
        let count: u64 = banned.counts.iter().sum();
        if count > most.into() {
            return Err(Error::Refused(format!(
                "there is room for {most} bans, and with these there would be {count}; none was added: remove some (`limiter bans` lists them), ban a prefix instead of its addresses, or attach again with a larger --max-bans"
            )));
        }
        // The program looks for bans before there is one.
        let change = self.begin(banned);
        for (prefix, ban) in bans {
            let earlier = before.get(prefix);
            let entry = Ban {
                before: earlier.map_or(OVER, |earlier| earlier.until),
                change,
                dropped: earlier.map_or(0, |earlier| earlier.dropped),
                ..*ban
            };
            if let Err(error) = self.put(prefix, Some(entry)) {
                self.undo(&before, now);
                return Err(Error::Refused(format!(
                    "the kernel did not take a ban; none was added: free memory, and try again ({error})"
                )));
            }
        }
        self.write(Banned { change, ..banned });
        Ok(before)
    }

    /// Removes the bans of these prefixes, all or none of them. Returns those that were there.
    pub fn remove(&mut self, prefixes: &[IpNet], now: u64) -> Result<BTreeMap<IpNet, Ban>> {
        let mut banned = self.settled(0, u64::MAX, now)?;
        let mut removed = BTreeMap::new();
        for prefix in prefixes {
            if let Some(ban) = self.get(prefix)? {
                removed.insert(*prefix, ban);
            }
        }
        let change = self.begin(banned);
        // One ban goes in one step, and needs no memory.
        if removed.len() > 1 {
            for (prefix, ban) in &removed {
                let ended = Ban {
                    until: OVER,
                    before: ban.until,
                    change,
                    ..*ban
                };
                if let Err(error) = self.put(prefix, Some(ended)) {
                    self.undo(&removed, now);
                    return Err(Error::Refused(format!(
                        "the kernel did not take the end of a ban; none was removed: free memory, and try again ({error})"
                    )));
                }
            }
            banned.change = change;
            self.begin(banned);
        }
        for (prefix, ban) in &removed {
            self.put(prefix, None)?;
            let count = count_of(&mut banned, ban);
            *count = count.saturating_sub(1);
        }
        self.write(banned);
        Ok(removed)
    }

    /// Writes `banned` so that the next edit settles all bans, if this one does not come to its end. Returns the number
    /// of the next change.
    fn begin(&self, banned: Banned) -> u64 {
        let first_end = OVER;
        self.write(Banned {
            first_end,
            ..banned
        });
        banned.change + 1
    }

    /// Puts these bans back, and removes what else a change that failed has left. Where that fails too, the next edit
    /// does it.
    fn undo(&mut self, bans: &BTreeMap<IpNet, Ban>, now: u64) {
        for (prefix, ban) in bans {
            let _ = self.put(prefix, Some(*ban));
        }
        let _ = self.settled(0, u64::MAX, now);
    }

    /// Removes the bans that have ended, and what a killed command has left: if there may be any, if one ended some time
    /// ago, or if there may be no room for `more`.
    fn settled(&mut self, more: u64, most: u64, now: u64) -> Result<Banned> {
        let banned = self.banned();
        let ended = |end: u64| end == OVER || end != 0 && end.saturating_add(LEFT_OVER) <= now;
        if !ended(banned.first_end) && banned.counts.iter().sum::<u64>() + more <= most {
            return Ok(banned);
        }
        let change = banned.change;
        let mut counted = Banned {
            change,
            ..Banned::default()
        };
        for (prefix, ban) in self.all()? {
            let until = end(&ban, change);
            if is_over(until, now) {
                self.put(&prefix, None)?;
                continue;
            }
            if ban.change > change {
                let earlier = Ban {
                    until,
                    change,
                    ..ban
                };
                self.put(&prefix, Some(earlier))?;
            }
            *count_of(&mut counted, &ban) += 1;
            counted.first_end = first_end(&counted, until);
        }
        self.write(counted);
        Ok(counted)
    }
}

/// A ban as it is if `change` is the last change in force.
fn in_force(ban: &Ban, change: u64) -> Ban {
    Ban {
        until: end(ban, change),
        before: 0,
        change: 0,
        ..*ban
    }
}

fn count_of<'b>(banned: &'b mut Banned, ban: &Ban) -> &'b mut u64 {
    let [addresses, prefixes] = &mut banned.counts;
    if ban.bits == WHOLE {
        addresses
    } else {
        prefixes
    }
}

/// The first end of all bans, with one that ends at `until`; 0 if none ends.
fn first_end(banned: &Banned, until: u64) -> u64 {
    let ends = [banned.first_end, until].into_iter();
    ends.filter(|end| *end != 0).min().unwrap_or(0)
}

fn found_in(found: Result<Raw<Ban>, MapError>) -> Result<Option<Ban>> {
    Ok(maps::found(found)?.map(|Raw(ban)| ban))
}

/// Removes all bans of an attachment that is to be unpinned, one by one: freeing a large trie at once would stop a CPU
/// for seconds. Maps that are not there, or cannot be read, are left to the kernel.
pub(crate) fn clear(folder: &Dir) {
    if let Ok(mut bans) = Bans::open(folder) {
        for (prefix, _) in bans.all().unwrap_or_default() {
            let _ = bans.put(&prefix, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use limiter_common::abi::REASON_MAX;

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
            let key = key_of(&prefix);
            assert_eq!(prefix_of(key.prefix_len(), key.data()).unwrap(), prefix);
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
