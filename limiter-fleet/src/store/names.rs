//! The names of the store's keys. All begin with `limiter:{FLEET}:` or `limiter:{FLEET:SHARD}:`. A user of the store
//! needs access to these. A cluster divides the keys by the text in braces.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
};

use limiter_common::table::key::{IPV4, IPV6, SourceKey};

use super::error::Error;
use crate::member::{Group, SHARDS};

/// Maximum length of the name of a fleet, a limit or a list.
const LONGEST: usize = 64;

/// Maximum length of a label.
const LABEL: usize = 128;

/// Returns true if a text is valid as a label: printable ASCII, so that it is harmless in any output.
pub(super) fn is_label(text: &str) -> bool {
    let printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    !text.is_empty() && text.len() <= LABEL && text.bytes().all(printable)
}

pub(super) fn label(text: &str) -> Result<&str, Error> {
    if is_label(text) {
        return Ok(text);
    }
    Err(Error::Label(text.escape_debug().take(LABEL).collect()))
}

/// Checks the name of a fleet, a limit or a list for use in a key.
/// Fails if the name is empty, too long, or has characters other than letters, digits, `-`, `_` and `.`.
pub fn name(text: &str) -> Result<&str, Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > LONGEST || !text.chars().all(allowed) {
        return Err(Error::Name(text.escape_debug().take(2 * LONGEST).collect()));
    }
    Ok(text)
}

/// A source as written in the name of its record: `192.0.2.7`, `2001:db8::` or `interface`, followed by `,PORT` if the
/// limit's key has a port.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a>(pub &'a SourceKey);

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest] = self.0.address().map(u64::to_ne_bytes);
        match self.0.family() {
            IPV4 => {
                let [a, b, c, d, ..] = first;
                Ipv4Addr::new(a, b, c, d).fmt(f)?;
            }
            IPV6 => {
                let both = (u128::from(u64::from_be_bytes(first)) << 64)
                    | u128::from(u64::from_be_bytes(rest));
                Ipv6Addr::from(both).fmt(f)?;
            }
            _ => f.write_str("interface")?,
        }
        match self.0.port() {
            0 => Ok(()),
            port => write!(f, ",{port}"),
        }
    }
}

/// The shard of a source's record, out of [`SHARDS`]. It is equal on all hosts and in all versions.
pub fn shard(limit: &str, source: &SourceKey) -> u32 {
    part(&format!("{limit}:{}", Source(source)))
}

/// Returns the shard of a text: its 64-bit FNV-1a hash, folded, because the lower bits do not depend on the upper ones.
fn part(text: &str) -> u32 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let add = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    let hash = text.bytes().fold(BASIS, add);
    let folded = hash ^ (hash >> 32);
    let folded = folded ^ (folded >> 16);
    let folded = folded ^ (folded >> 8);
    u32::from(folded.to_le_bytes()[0]) % SHARDS
}

/// The key of a source's record.
pub(super) fn record(fleet: &str, limit: &str, source: &SourceKey) -> String {
    let name = format!("{limit}:{}", Source(source));
    format!("limiter:{{{fleet}:{:02x}}}:s:{name}", part(&name))
}

/// The key of a member's last round, one per group, because rounds of several groups are under way at once. If a group
/// is one shard, its key is in that shard.
pub(super) fn last_round(fleet: &str, member: u64, group: Group) -> String {
    let Group { of, index } = group;
    if of == SHARDS {
        format!("limiter:{{{fleet}:{index:02x}}}:m:{member:016x}")
    } else {
        format!("limiter:{{{fleet}}}:m:{member:016x}:{of}:{index}")
    }
}

pub(super) fn members(fleet: &str) -> String {
    format!("limiter:{{{fleet}}}:members")
}

pub(super) fn limits(fleet: &str) -> String {
    format!("limiter:{{{fleet}}}:limits")
}

pub(super) fn list(fleet: &str, list: &str) -> String {
    format!("limiter:{{{fleet}}}:list:{list}")
}

pub(super) fn removed(fleet: &str, list: &str) -> String {
    format!("limiter:{{{fleet}}}:removed:{list}")
}

pub(super) fn revision(fleet: &str) -> String {
    format!("limiter:{{{fleet}}}:revision")
}

#[cfg(test)]
mod tests {
    use limiter_common::table::key::{INTERFACE, ipv4_words};

    use super::*;

    fn v4(address: u32, port: u32) -> SourceKey {
        SourceKey::new(IPV4, ipv4_words(address.to_be()), 3, port)
    }

    #[test]
    fn record_names_contain_limit_and_source() {
        let key = record("edge", "http", &v4(0xc000_0207, 0));
        assert!(key.starts_with("limiter:{edge:"), "{key}");
        assert!(key.ends_with("}:s:http:192.0.2.7"), "{key}");
        assert!(record("edge", "http", &v4(0xc000_0207, 443)).ends_with(":192.0.2.7,443"));
        let mut address = [0; 16];
        address[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
        address[15] = 9;
        let words = [0, 8].map(|at| u64::from_ne_bytes(address[at..at + 8].try_into().unwrap()));
        let v6 = SourceKey::new(IPV6, words, 0, 0);
        assert_eq!(Source(&v6).to_string(), "2001:db8::9");
        let all = SourceKey::new(INTERFACE, [0; 2], 0, 0);
        assert_eq!(Source(&all).to_string(), "interface");
    }

    #[test]
    fn shard_numbers_are_stable_and_evenly_spread() {
        // Running fleets have these values in their stores. Other values would lose their records at an upgrade.
        assert_eq!(part(""), 0xe1);
        assert_eq!(part("http:2001:db8::,443"), 0x94);
        assert_eq!(shard("http", &v4(0xc000_0207, 0)), 0xe1);
        let mut counts = [0_u32; SHARDS as usize];
        for address in 0..65_536 {
            counts[shard("http", &v4(0x0a00_0000 + address, 0)) as usize] += 1;
        }
        let (least, most) = (counts.iter().min(), counts.iter().max());
        assert!(least >= Some(&180) && most <= Some(&340), "{counts:?}");
    }

    #[test]
    fn name_with_special_characters_or_wrong_length_is_refused() {
        assert_eq!(name("edge-1.b_c").unwrap(), "edge-1.b_c");
        for wrong in ["", "a b", "a{b", "a:b", "a*", "é", &"x".repeat(65)] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
