//! The ban of a prefix by one origin, and the keys of the maps.

use std::net::{IpAddr, Ipv6Addr};

use aya::maps::lpm_trie::Key;
use ipnet::IpNet;
use limiter_common::{
    abi::{Ban, BanKey, Ends},
    pod::Pod as _,
    policy::ban,
};
use limiter_config::{Invalid, invalid};

use crate::{Result, error::read_failed};

/// Bits of an IPv6 address.
pub(super) const WHOLE: u32 = 128;

pub(super) type Address = Key<[u8; 16]>;

/// The IPv6 form of a prefix.
pub(super) fn key_of(prefix: &IpNet) -> Address {
    let length = u32::from(prefix.prefix_len());
    match prefix {
        IpNet::V4(net) => Key::new(96 + length, net.addr().to_ipv6_mapped().octets()),
        IpNet::V6(net) => Key::new(length, net.addr().octets()),
    }
}

/// The key of the ban of a prefix with this number.
pub(super) fn record_key(prefix: &IpNet, owner: u32) -> BanKey {
    let key = key_of(prefix);
    BanKey {
        address: key.data(),
        bits: key.prefix_len(),
        owner,
    }
}

/// The prefix with this IPv6 form.
pub(super) fn prefix_of(bits: u32, address: [u8; 16]) -> Result<IpNet> {
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

/// A ban until `until`, made at `made`, in nanoseconds of the kernel's clock; an end of 0: no end.
pub fn ban(until: u64, made: u64, origin: &str, reason: &str) -> Result<Ban, Invalid> {
    let mut ban = Ban {
        ends: Ends {
            until,
            ..Ends::default()
        },
        made,
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

/// True if a person made the ban on this host.
pub(super) fn is_by_hand(ban: &Ban) -> bool {
    ban.origin
        .strip_prefix(BY_HAND.as_bytes())
        .is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
}

/// The ends of a ban that is in force until `until`, whatever the last change is.
pub(super) fn settled(until: u64, change: u64) -> Ends {
    Ends {
        until,
        before: until,
        change,
    }
}

/// A ban as it is if `change` is the last change in force.
pub(super) fn in_force(ban: &Ban, change: u64) -> Ban {
    Ban {
        ends: Ends {
            until: ban::end(&ban.ends, change),
            ..Ends::default()
        },
        ..*ban
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
        let longest = "ä".repeat(REASON_MAX / 2);
        let made = ban(0, 0, "hand", &longest).unwrap();
        assert_eq!([text(&made.origin), text(&made.reason)], ["hand", &longest]);
        assert!(ban(0, 0, "hand", &(longest + "x")).is_err());
        assert!(ban(0, 0, "hand", "a\0b").is_err());
    }

    #[test]
    fn only_the_origin_hand_is_by_hand() {
        for (origin, wanted) in [
            ("hand", true),
            ("handy", false),
            ("", false),
            ("fleet", false),
        ] {
            assert_eq!(
                is_by_hand(&ban(0, 0, origin, "").unwrap()),
                wanted,
                "{origin}"
            );
        }
    }
}
