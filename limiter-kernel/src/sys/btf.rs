//! Places of fields in the running kernel's structures, by its types (BTF; Documentation/bpf/btf.rst).

use std::fs;

use limiter_common::abi::connections::Offsets;

use crate::{Error, Result};

const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
/// Kinds that only qualify another type: typedef, volatile, const, restrict, type tag.
const QUALIFIERS: [u32; 5] = [8, 9, 10, 11, 18];

/// The offsets of what is read of a socket.
pub fn offsets() -> Result<Offsets> {
    let missing = |why: &str| {
        Error::Refused(format!(
            "the kernel does not say where sockets have their fields ({PATH}: {why}), so connections cannot be counted: use a kernel with CONFIG_DEBUG_INFO_BTF=y, or leave connections out"
        ))
    };
    let bytes = fs::read(PATH).map_err(|error| missing(&error.to_string()))?;
    let types = Types::parse(&bytes).ok_or_else(|| missing("damaged"))?;
    let offset = |outer: &str, member: &str| {
        let found = types.offset(outer, member);
        found.ok_or_else(|| missing(&format!("no {member} in {outer}")))
    };
    Ok(Offsets {
        family: offset("sock_common", "skc_family")?,
        ipv4: offset("sock_common", "skc_daddr")?,
        ipv6: offset("sock_common", "skc_v6_daddr")?,
        namespace: offset("sock_common", "skc_net")?,
        protocol: offset("sock", "sk_protocol")?,
        port: offset("inet_sock", "inet_sport")?,
        cookie: offset("net", "net_cookie")?,
        reserved: 0,
    })
}

/// The types in a BTF file.
struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// The place of each type, by its id.
    places: Vec<usize>,
}

fn word(bytes: &[u8], place: usize) -> Option<u32> {
    let bytes = bytes.get(place..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

impl<'a> Types<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let magic = u16::from_ne_bytes(*bytes.first_chunk()?);
        if magic != MAGIC {
            return None;
        }
        let field = |place| word(bytes, place).map(|value| value as usize);
        let body = bytes.get(field(4)?..)?;
        let part = |first: usize| body.get(field(first)?..)?.get(..field(first + 4)?);
        let (types, strings) = (part(8)?, part(16)?);
        // Type 0 is void.
        let (mut places, mut place) = (vec![usize::MAX], 0);
        while place < types.len() {
            places.push(place);
            let info = word(types, place + 4)?;
            let length = (info & 0xffff) as usize;
            place += 12
                + match info >> 24 & 0x1f {
                    1 | 14 | 17 => 4,
                    3 => 12,
                    STRUCT | UNION | 15 | 19 => 12 * length,
                    6 | 13 => 8 * length,
                    _ => 0,
                };
        }
        Some(Self {
            types,
            strings,
            places,
        })
    }

    fn is_named(&self, place: u32, name: &str) -> bool {
        let text = self.strings.get(place as usize..);
        text.and_then(|text| text.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    /// Offset in bytes of a member of a structure, also within nested ones without a name.
    fn offset(&self, outer: &str, member: &str) -> Option<u32> {
        let is_it = |place: &&usize| {
            let kind = word(self.types, **place + 4).map(|info| info >> 24 & 0x1f);
            let name = word(self.types, **place);
            kind == Some(STRUCT) && name.is_some_and(|name| self.is_named(name, outer))
        };
        let place = self.places.iter().skip(1).find(is_it)?;
        self.member(*place, member).map(|bits| bits / u8::BITS)
    }

    /// Offset in bits of a member of the structure or union at this place.
    fn member(&self, place: usize, wanted: &str) -> Option<u32> {
        let info = word(self.types, place + 4)?;
        if ![STRUCT, UNION].contains(&(info >> 24 & 0x1f)) {
            return None;
        }
        let members = (0..info & 0xffff).map(|index| place + 12 + 12 * index as usize);
        members.into_iter().find_map(|member| {
            let (name, kind) = (word(self.types, member)?, word(self.types, member + 4)?);
            let mut offset = word(self.types, member + 8)?;
            if info >> 31 != 0 {
                // The upper bits are the length of a bit field.
                offset &= 0x00ff_ffff;
            }
            if self.is_named(name, wanted) {
                return Some(offset);
            }
            if !self.is_named(name, "") {
                return None;
            }
            Some(offset + self.member(self.unqualified(kind)?, wanted)?)
        })
    }

    /// The place of a type behind its qualifiers.
    fn unqualified(&self, mut id: u32) -> Option<usize> {
        loop {
            let place = *self
                .places
                .get(id as usize)
                .filter(|place| **place != usize::MAX)?;
            if !QUALIFIERS.contains(&(word(self.types, place + 4)? >> 24 & 0x1f)) {
                return Some(place);
            }
            id = word(self.types, place + 8)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_types_are_no_types() {
        assert!(Types::parse(&[]).is_none());
        let bytes = [
            MAGIC.to_ne_bytes().as_slice(),
            &[1, 0, 24, 0, 0, 0],
            &[0xff; 16],
        ]
        .concat();
        assert!(Types::parse(&bytes).is_none());
    }

    #[test]
    fn fields_of_sockets_are_found() {
        let found = offsets().unwrap();
        // These have not moved since Linux 3.9.
        assert_eq!((found.ipv4, found.family), (0, 16), "{found:?}");
        assert!(found.ipv6 > found.namespace, "{found:?}");
        assert!(found.port > found.protocol, "{found:?}");
    }
}
