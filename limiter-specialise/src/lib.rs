//! Specialises a BPF object for its constants, before the kernel gets it.
//!
//! The compiler does not know the constants, so the program loads them, and asks them what is switched on. The kernel's
//! verifier removes the code that is switched off, but not the questions. This crate answers the questions: it replaces
//! loads of constants, and what follows from them, by numbers, and leaves out the code that is switched off and what
//! nothing uses any more.
//!
//! Numbers of 64 bits get [`room`]. [`specialise`] reads the [`elf`] file and specialises each [`function`], by what is known of its [`values`],
//! its [`jumps`] and what is [`unused`]; [`lines`] moves the lines of the sources with the instructions.
#![forbid(unsafe_code)]

mod elf;
mod function;
mod instruction;
mod jumps;
mod lines;
mod number;
mod room;
#[cfg(test)]
mod tests;
mod unused;
mod values;

use elf::{Elf, Relocation};
use function::{Function, Target};
use instruction::{Instruction, LOAD_WORD, SIZE};
use jumps::compact;
use room::with_room;

/// Specialises the object for the constants: the bytes of the symbol with this name. `None` if the object is damaged
/// or no object of BPF.
pub fn specialise(object: &[u8], name: &str, constants: &[u8]) -> Option<Vec<u8>> {
    let mut elf = Elf::new(object)?;
    let symbol = elf
        .symbols
        .iter()
        .copied()
        .find(|symbol| elf.is_named(symbol, name))?;
    if symbol.size != constants.len() as u64 {
        return None;
    }
    for section in 0..elf.sections.len() {
        if elf.sections[section].is_code() {
            specialise_section(&mut elf, section, &symbol, constants)?;
        }
    }
    Some(elf.into_bytes())
}

fn specialise_section(
    elf: &mut Elf,
    section: usize,
    symbol: &elf::Symbol,
    constants: &[u8],
) -> Option<()> {
    let bytes = elf.bytes_of(section)?;
    let most = bytes.len() / SIZE;
    let (slots, rest) = bytes.as_chunks::<SIZE>();
    if !rest.is_empty() {
        return None;
    }
    let original: Vec<_> = slots.iter().copied().map(Instruction::read).collect();
    let (number, relocations) = elf.relocations(section)?;
    let specialised = |roomy: Option<_>| {
        specialised(elf, section, roomy?, &relocations, (symbol, constants))
            .filter(|specialised| specialised.code.len() <= most)
    };
    let as_it_is = || (original.clone(), (0..=original.len()).collect());
    // The section does not grow: a program of which nearly all is left has no room.
    let Specialised { code, places } =
        specialised(with_room(&original)).or_else(|| specialised(Some(as_it_is())))?;
    let moved = |offset: u64| Some((*places.get(index(offset)?)? * SIZE) as u64);
    let mut kept = Vec::new();
    for mut relocation in relocations {
        let place = index(relocation.offset)?;
        if places.get(place)? != places.get(place + 1)? {
            relocation.offset = moved(relocation.offset)?;
            kept.push(relocation);
        }
    }
    elf.keep(number, &kept)?;
    elf.move_symbols(section, moved)?;
    let bytes: Vec<u8> = code.into_iter().flat_map(Instruction::bytes).collect();
    lines::move_lines(elf, section, bytes.len() as u64, moved)?;
    elf.shorten(section, &bytes)
}

/// The specialised code of a section, and the new place of each of its instructions and of the end.
struct Specialised {
    code: Vec<Instruction>,
    places: Vec<usize>,
}

/// Specialises the functions of a section. `roomy`: its code, and the places of its instructions there.
fn specialised(
    elf: &Elf,
    section: usize,
    (mut code, roomy): (Vec<Instruction>, Vec<usize>),
    relocations: &[Relocation],
    (symbol, constants): (&elf::Symbol, &[u8]),
) -> Option<Specialised> {
    let mut targets = vec![None; code.len()];
    for relocation in relocations {
        let index = *roomy.get(index(relocation.offset)?)?;
        let target = target(elf, relocation, *code.get(index)?, symbol)?;
        *targets.get_mut(index)? = Some(target);
    }
    let mut is_left = vec![true; code.len()];
    for function in elf.functions(section) {
        let end = function.value.checked_add(function.size)?;
        let range = *roomy.get(index(function.value)?)?..*roomy.get(index(end)?)?;
        let left = Function {
            code: code.get_mut(range.clone())?,
            targets: targets.get(range.clone())?,
            constants,
        }
        .specialise()?;
        is_left.get_mut(range)?.copy_from_slice(&left);
    }
    // Without a relocation, a call has the distance to its function.
    let mut calls = code.iter().zip(&targets);
    if calls.any(|(code, target)| code.is_call_of_object() && target.is_none()) {
        return None;
    }
    let compacted = compact(&mut code, &is_left)?;
    let places = roomy.iter().map(|place| compacted.get(*place).copied());
    let places = places.collect::<Option<_>>()?;
    Some(Specialised { code, places })
}

/// Number of the instruction at this byte.
fn index(offset: u64) -> Option<usize> {
    let offset = usize::try_from(offset).ok()?;
    offset.is_multiple_of(SIZE).then_some(offset / SIZE)
}

fn target(
    elf: &Elf,
    relocation: &Relocation,
    instruction: Instruction,
    constants: &elf::Symbol,
) -> Option<Target> {
    let found = elf.symbols.get(relocation.symbol)?;
    if instruction.code != LOAD_WORD {
        return Some(if found.is_global_function() {
            Target::GlobalFunction
        } else {
            Target::Other
        });
    }
    let place = i64::try_from(found.value).ok()? + i64::from(instruction.immediate);
    let place = place - i64::try_from(constants.value).ok()?;
    let size = i64::try_from(constants.size).ok()?;
    let is_inside = found.section == constants.section && (0..size).contains(&place);
    Some(if is_inside {
        Target::Constants(place)
    } else {
        Target::Other
    })
}
