//! The parts of an ELF file that matter here, in this machine's byte order.

use crate::instruction::SIZE;

/// A section of the file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Offset of its header in the file.
    header: usize,
    kind: u32,
    flags: u64,
    offset: usize,
    size: usize,
    /// For relocations, the section of the symbols.
    link: usize,
    /// For relocations, the section that they are about.
    about: usize,
}

/// A symbol.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    /// Offset in the file.
    place: usize,
    name: usize,
    kind: u8,
    binding: u8,
    /// Number of its section.
    pub section: usize,
    /// Its place in the section, in bytes.
    pub value: u64,
    /// Its bytes.
    pub size: u64,
}

/// A relocation.
#[derive(Clone, Copy, Debug)]
pub struct Relocation {
    /// The bytes of the file with it.
    place: usize,
    /// Offset in the section that it is about, in bytes.
    pub offset: u64,
    /// Number of its symbol.
    pub symbol: usize,
}

const SYMBOLS: u32 = 2;
const RELOCATIONS: u32 = 9;
const EXECUTABLE: u64 = 4;
const FUNCTION: u8 = 2;
const GLOBAL: u8 = 1;

const HEADER: usize = 64;
const SYMBOL: usize = 24;
const RELOCATION: usize = 16;

/// An ELF file.
pub struct Elf {
    bytes: Vec<u8>,
    /// The sections.
    pub sections: Vec<Section>,
    /// The symbols.
    pub symbols: Vec<Symbol>,
    /// Offset of the symbols' names.
    names: usize,
    /// Offset of the sections' names.
    section_names: usize,
}

/// The text at this place, up to its end.
pub fn text(bytes: &[u8], place: usize) -> Option<&[u8]> {
    let rest = bytes.get(place..)?;
    rest.split(|byte| *byte == 0).next()
}

impl Elf {
    /// Reads a file. `None` if it is damaged.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut elf = Self {
            bytes: bytes.to_vec(),
            sections: Vec::new(),
            symbols: Vec::new(),
            names: 0,
            section_names: 0,
        };
        let (table, count) = (elf.size_at(0x28)?, elf.u16_at(0x3c)?);
        for number in 0..usize::from(count) {
            let header = table.checked_add(number * HEADER)?;
            let section = elf.section(header)?;
            elf.sections.push(section);
        }
        let names = usize::from(elf.u16_at(0x3e)?);
        elf.section_names = elf.sections.get(names)?.offset;
        let symbols = *elf.sections.iter().find(|found| found.kind == SYMBOLS)?;
        elf.names = elf.sections.get(symbols.link)?.offset;
        for number in 0..symbols.size / SYMBOL {
            let symbol = elf.symbol(symbols.offset.checked_add(number * SYMBOL)?)?;
            elf.symbols.push(symbol);
        }
        Some(elf)
    }

    fn section(&self, header: usize) -> Option<Section> {
        Some(Section {
            header,
            kind: self.u32_at(header + 4)?,
            flags: self.u64_at(header + 8)?,
            offset: self.size_at(header + 24)?,
            size: self.size_at(header + 32)?,
            link: self.u32_at(header + 40)? as usize,
            about: self.u32_at(header + 44)? as usize,
        })
    }

    fn symbol(&self, offset: usize) -> Option<Symbol> {
        let info = *self.bytes.get(offset + 4)?;
        Some(Symbol {
            place: offset,
            name: self.u32_at(offset)? as usize,
            kind: info & 15,
            binding: info >> 4,
            section: self.u16_at(offset + 6)?.into(),
            value: self.u64_at(offset + 8)?,
            size: self.u64_at(offset + 16)?,
        })
    }

    /// True if this is the symbol's name.
    pub fn is_named(&self, symbol: &Symbol, name: &str) -> bool {
        text(&self.bytes, self.names + symbol.name) == Some(name.as_bytes())
    }

    /// The bytes of a section.
    pub fn bytes_of(&mut self, number: usize) -> Option<&mut [u8]> {
        let Section { offset, size, .. } = *self.sections.get(number)?;
        self.bytes.get_mut(offset..offset.checked_add(size)?)
    }

    /// The functions of a section.
    pub fn functions(&self, section: usize) -> Vec<Symbol> {
        let of_section = |symbol: &&Symbol| symbol.section == section && symbol.kind == FUNCTION;
        self.symbols.iter().filter(of_section).copied().collect()
    }

    /// The relocations of a section, and the number of the section that has them.
    pub fn relocations(&self, about: usize) -> Option<(usize, Vec<Relocation>)> {
        let is_about = |found: &Section| found.kind == RELOCATIONS && found.about == about;
        let Some(number) = self.sections.iter().position(is_about) else {
            return Some((0, Vec::new()));
        };
        let Section { offset, size, .. } = self.sections[number];
        let read = |number| {
            let place = offset.checked_add(number * RELOCATION)?;
            Some(Relocation {
                place,
                offset: self.u64_at(place)?,
                symbol: usize::try_from(self.u64_at(place + 8)? >> u32::BITS).ok()?,
            })
        };
        let found = (0..size / RELOCATION).map(read).collect::<Option<_>>()?;
        Some((number, found))
    }

    /// Leaves these relocations, sorted as before, of the section with the number `number`.
    pub fn keep(&mut self, number: usize, kept: &[Relocation]) -> Option<()> {
        let mut bytes = Vec::with_capacity(kept.len() * RELOCATION);
        for relocation in kept {
            let place = relocation.place;
            bytes.extend(relocation.offset.to_ne_bytes());
            bytes.extend(self.bytes.get(place + 8..place + RELOCATION)?);
        }
        if number == 0 {
            return Some(());
        }
        self.shorten(number, &bytes)
    }

    /// Replaces the bytes of a section by as many or fewer.
    pub fn shorten(&mut self, number: usize, bytes: &[u8]) -> Option<()> {
        let section = self.sections.get_mut(number)?;
        if bytes.len() > section.size {
            return None;
        }
        section.size = bytes.len();
        let Section { header, offset, .. } = *section;
        let place = self
            .bytes
            .get_mut(offset..offset.checked_add(bytes.len())?)?;
        place.copy_from_slice(bytes);
        let size = self.bytes.get_mut(header + 32..header + 40)?;
        size.copy_from_slice(&(bytes.len() as u64).to_ne_bytes());
        Some(())
    }

    /// Moves the symbols of a section.
    pub fn move_symbols(
        &mut self,
        section: usize,
        moved: impl Fn(u64) -> Option<u64>,
    ) -> Option<()> {
        for symbol in &mut self.symbols {
            if symbol.section != section {
                continue;
            }
            let (value, end) = (moved(symbol.value)?, moved(symbol.value + symbol.size)?);
            (symbol.value, symbol.size) = (value, end - value);
            let place = self
                .bytes
                .get_mut(symbol.place + 8..symbol.place + SYMBOL)?;
            place[..8].copy_from_slice(&symbol.value.to_ne_bytes());
            place[8..].copy_from_slice(&symbol.size.to_ne_bytes());
        }
        Some(())
    }

    /// The number of the section with this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        (0..self.sections.len()).find(|number| self.name(*number) == Some(name.as_bytes()))
    }

    /// The name of a section.
    pub fn name(&self, number: usize) -> Option<&[u8]> {
        let place = self.section_names + self.u32_at(self.sections.get(number)?.header)? as usize;
        text(&self.bytes, place)
    }

    /// The file.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn u16_at(&self, offset: usize) -> Option<u16> {
        let bytes = self.bytes.get(offset..)?.first_chunk()?;
        Some(u16::from_ne_bytes(*bytes))
    }

    fn u32_at(&self, offset: usize) -> Option<u32> {
        let bytes = self.bytes.get(offset..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    }

    fn u64_at(&self, offset: usize) -> Option<u64> {
        let bytes = self.bytes.get(offset..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    }

    fn size_at(&self, offset: usize) -> Option<usize> {
        usize::try_from(self.u64_at(offset)?).ok()
    }
}

impl Section {
    /// True if the section has instructions.
    pub const fn is_code(&self) -> bool {
        self.flags & EXECUTABLE != 0 && self.size >= SIZE
    }
}

impl Symbol {
    /// True if the verifier checks the function by itself: then it gets no addresses inside memory, and returns none.
    pub const fn is_global_function(&self) -> bool {
        self.kind == FUNCTION && self.binding == GLOBAL
    }
}
