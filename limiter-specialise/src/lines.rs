//! The places of functions and of the lines of the sources: the section `.BTF.ext`.
//!
//! Its header has the place of each table, from the header's end on. A table has the bytes of an entry, and for each
//! section of code the place of its name in `.BTF`, the number of entries, and these. An entry begins with its place in
//! the code.

use crate::elf::{Elf, text};

/// Bytes of the fields.
const WORD: usize = 4;
/// Offset of the header's own size, in both sections.
const HEADER_SIZE: usize = 4;
/// Offset of the place of the texts in the header of `.BTF`.
const TEXTS: usize = 16;
/// Offsets of the places of the tables in the header of `.BTF.ext`. The size of each follows.
const TABLES: [usize; 2] = [8, 16];

/// Moves the functions and lines of a section of code. Of several lines at one place, the last one stays.
/// `end_of_code`: bytes of the code that is left.
pub fn move_lines(
    elf: &mut Elf,
    section: usize,
    end_of_code: u64,
    moved: impl Fn(u64) -> Option<u64>,
) -> Option<()> {
    let (Some(types), Some(lines)) = (elf.find(".BTF"), elf.find(".BTF.ext")) else {
        return Some(());
    };
    let name = elf.name(section)?.to_vec();
    let types = elf.bytes_of(types)?.to_vec();
    let texts = word(&types, HEADER_SIZE)? + word(&types, TEXTS)?;
    let bytes = elf.bytes_of(lines)?;
    let header = word(bytes, HEADER_SIZE)?;
    for table in TABLES {
        let (first, size) = (header + word(bytes, table)?, word(bytes, table + WORD)?);
        let old = bytes.get(first..first.checked_add(size)?)?.to_vec();
        if old.is_empty() {
            continue;
        }
        let entry = word(&old, 0)?;
        let mut new = old.get(..WORD)?.to_vec();
        let mut place = WORD;
        while place < old.len() {
            let (text_place, count) = (word(&old, place)?, word(&old, place + WORD)?);
            let begin = place + 2 * WORD;
            let end = begin.checked_add(count.checked_mul(entry)?)?;
            let entries = old.get(begin..end)?;
            let mut left: Vec<Vec<u8>> = Vec::new();
            for found in entries.chunks_exact(entry) {
                let mut found = found.to_vec();
                if text(&types, texts + text_place)? == name {
                    let offset = moved(word(&found, 0)? as u64)?;
                    if offset >= end_of_code {
                        continue;
                    }
                    let offset = u32::try_from(offset).ok()?;
                    found[..WORD].copy_from_slice(&offset.to_ne_bytes());
                    left.pop_if(|last| last[..WORD] == found[..WORD]);
                }
                left.push(found);
            }
            new.extend(&old[place..place + WORD]);
            new.extend(u32::try_from(left.len()).ok()?.to_ne_bytes());
            new.extend(left.concat());
            place = end;
        }
        bytes[first..first + new.len()].copy_from_slice(&new);
        let size = u32::try_from(new.len()).ok()?;
        bytes[table + WORD..table + 2 * WORD].copy_from_slice(&size.to_ne_bytes());
    }
    Some(())
}

fn word(bytes: &[u8], offset: usize) -> Option<usize> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    usize::try_from(u32::from_ne_bytes(*bytes)).ok()
}
