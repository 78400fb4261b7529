//! The memory that a program sees: map values, stack, context and packet. Values are read from the kernel when they are
//! first used, and written only here.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use anyhow::{Context, Result, bail};

use super::program::Program;

/// The place of the maps, each [`STEP`] bytes behind the one before it.
const MAPS: u64 = 1 << 44;
/// The place of this CPU's values of per-CPU maps.
const OWN: u64 = 1 << 46;
const STEP: u64 = 1 << 36;
/// The place of the stack: one page for each function that is running.
const STACK: u64 = 7 << 44;
/// The place of the context, a `struct xdp_buff`.
pub const CONTEXT: u64 = STACK + (1 << 40);
/// The place of the packet. No half of a pointer is 0: a program may check it.
const PACKET: u64 = CONTEXT + (1 << 40) + 0x1_0100;
/// Bytes in front of the packet.
const HEADROOM: u64 = 256;
/// Bytes of a function's page of the stack.
const PAGE: u64 = 4096;
/// Value of `jiffies`.
const TICKS: u64 = 4_294_900_000;
/// Bytes of a cache line.
const LINE: u64 = 64;

/// The memory.
#[derive(Debug)]
pub struct Memory<'p> {
    program: &'p Program,
    /// Values, by the number of the map and the index.
    values: BTreeMap<(usize, u32), Vec<u8>>,
    /// Bytes of stack, context and packet.
    others: BTreeMap<u64, u8>,
    /// Lines of values that were used: number of the map, and line.
    lines: BTreeSet<(usize, u64)>,
    /// The frame's length.
    pub length: u64,
}

/// A place in a map.
struct Place {
    map: usize,
    /// Bytes from the first value, or before it.
    offset: u64,
    /// True if it is this CPU's value of a per-CPU map.
    is_own: bool,
}

/// The end of the stack of the function at this depth.
pub const fn end_of_stack(depth: usize) -> u64 {
    STACK + PAGE * (depth as u64 + 1)
}

impl<'p> Memory<'p> {
    /// Memory with this packet.
    pub fn new(program: &'p Program, frame: &[u8]) -> Result<Self> {
        let mut memory = Self {
            program,
            values: BTreeMap::new(),
            others: BTreeMap::new(),
            lines: BTreeSet::new(),
            length: frame.len() as u64,
        };
        let end = PACKET + memory.length;
        for (address, value) in (CONTEXT..)
            .step_by(8)
            .zip([PACKET, end, PACKET, PACKET - HEADROOM])
        {
            memory.store(address, 8, value)?;
        }
        memory.others.extend((PACKET..).zip(frame.iter().copied()));
        Ok(memory)
    }

    /// The address of the map with this id.
    pub fn map(&self, id: u32) -> Result<u64> {
        let position = self.program.maps.iter().position(|map| map.id == id);
        let position = position.with_context(|| format!("map {id} is not the program's"))?;
        Ok(MAPS + STEP * position as u64)
    }

    /// The address of the first value of the map with this id.
    pub fn first_value(&self, id: u32) -> Result<u64> {
        Ok(self.map(id)? + self.program.value_offset)
    }

    /// Loads `size` bytes.
    pub fn load(&mut self, address: u64, size: usize) -> Result<u64> {
        if self.program.jiffies.contains(&address) {
            return Ok(TICKS);
        }
        let Some(place) = place(address) else {
            let byte = |offset| self.others.get(&(address + offset)).copied().unwrap_or(0);
            return Ok((0..size as u64)
                .rev()
                .fold(0, |word, offset| word << 8 | u64::from(byte(offset))));
        };
        let map = &self.program.maps[place.map];
        if map.is_per_cpu() && !place.is_own {
            // The array of pointers to each element's values.
            let index = place.offset.wrapping_sub(self.program.value_offset) / 8;
            return Ok(OWN + STEP * place.map as u64 + index * map.step());
        }
        let bytes = self.bytes(&place, size)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte)))
    }

    /// Stores the lowest `size` bytes of a value.
    pub fn store(&mut self, address: u64, size: usize, value: u64) -> Result<()> {
        let new = &value.to_le_bytes()[..size];
        match place(address) {
            Some(place) => self.bytes(&place, size)?.copy_from_slice(new),
            None => self.others.extend((address..).zip(new.iter().copied())),
        }
        Ok(())
    }

    /// Forgets which lines were used.
    pub fn forget_lines(&mut self) {
        self.lines.clear();
    }

    /// Number of lines that were used.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    fn bytes(&mut self, place: &Place, size: usize) -> Result<&mut [u8]> {
        let map = &self.program.maps[place.map];
        let before = if place.is_own {
            0
        } else {
            self.program.value_offset
        };
        let offset = place.offset.checked_sub(before);
        let offset = offset.filter(|offset| offset / map.step() < map.max_entries);
        let Some(offset) = offset else {
            bail!("map {}: no place {}", map.id, place.offset);
        };
        self.lines.insert((place.map, offset / LINE));
        let index = u32::try_from(offset / map.step())?;
        let begin = usize::try_from(offset % map.step())?;
        let key = (place.map, index);
        let value = match self.values.entry(key) {
            Entry::Occupied(value) => value.into_mut(),
            Entry::Vacant(place) => place.insert(map.value(index)?),
        };
        value
            .get_mut(begin..begin + size)
            .with_context(|| format!("map {}: {size} bytes at {begin}", map.id))
    }
}

/// The place in a map; none for the stack, the context and the packet.
fn place(address: u64) -> Option<Place> {
    let is_own = match address {
        MAPS..OWN => false,
        OWN..STACK => true,
        _ => return None,
    };
    let distance = address - if is_own { OWN } else { MAPS };
    Some(Place {
        map: usize::try_from(distance / STEP).ok()?,
        offset: distance % STEP,
        is_own,
    })
}
