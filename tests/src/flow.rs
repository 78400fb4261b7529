//! Finds loops in an object's functions that the strictest supported kernel refuses.
//!
//! Linux 6.1 requires a jump at the end of a loop. It refuses an instruction that falls through to the first
//! instruction of its own loop as a back-edge (`visit_insn` and `push_insn` in kernel/bpf/verifier.c).

use std::collections::BTreeMap;

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

/// Bytes of an instruction.
const INSTRUCTION: usize = 8;
/// `BPF_LD | BPF_DW | BPF_IMM`, which takes two instructions.
const LOAD_64: u8 = 0x18;
const JUMP: u8 = 0x05;
const JUMP_32: u8 = 0x06;
const ALWAYS: u8 = 0x00;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;

/// Target of an instruction, and whether it is reached by a jump.
type Edge = (usize, bool);

/// The loops of an ELF object that do not end with a jump: function, and index of the instruction in it.
///
/// # Panics
/// If `object` is not an ELF object.
pub fn loops_without_jump(object: &[u8]) -> Vec<(String, usize)> {
    let file = object::File::parse(object).expect("the bytes are an ELF object");
    let functions = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    let mut found = Vec::new();
    for symbol in functions {
        let section = symbol.section_index().expect("a function is in a section");
        let section = file.section_by_index(section).expect("the section exists");
        let from = usize::try_from(symbol.address()).expect("the number fits");
        let to = from + usize::try_from(symbol.size()).expect("the number fits");
        let code = &section.data().expect("the section can be read")[from..to];
        let name = symbol.name().expect("the function has a name");
        let own = back_edges(code, file.is_little_endian()).into_iter();
        found.extend(own.map(|at| (name.to_owned(), at)));
    }
    found
}

/// Instructions that fall through to one that is still being followed.
fn back_edges(code: &[u8], little_endian: bool) -> Vec<usize> {
    // Searches depth first, the next instruction before the target of a jump, like the kernel.
    let mut open = BTreeMap::from([(0, true)]);
    let mut path = vec![(0, edges(code, 0, little_endian).into_iter())];
    let mut found = Vec::new();
    while let Some((at, rest)) = path.last_mut() {
        let at = *at;
        match rest.next() {
            None => {
                open.insert(at, false);
                path.pop();
            }
            Some((next, by_jump)) => match open.get(&next) {
                Some(true) if !by_jump => found.push(at),
                Some(_) => {}
                None => {
                    open.insert(next, true);
                    path.push((next, edges(code, next, little_endian).into_iter()));
                }
            },
        }
    }
    found
}

fn edges(code: &[u8], at: usize, little_endian: bool) -> Vec<Edge> {
    let instruction = &code[at * INSTRUCTION..][..INSTRUCTION];
    let opcode = instruction[0];
    let offset = [instruction[2], instruction[3]];
    let offset = if little_endian {
        i16::from_le_bytes(offset)
    } else {
        i16::from_be_bytes(offset)
    };
    let target = at.wrapping_add_signed(1 + isize::from(offset));
    let next = at + if opcode == LOAD_64 { 2 } else { 1 };
    let is_jump = matches!(opcode & 0x07, JUMP | JUMP_32);
    match opcode & 0xf0 {
        EXIT if is_jump => vec![],
        ALWAYS if is_jump => vec![(target, true)],
        CALL if is_jump => vec![(next, false)],
        _ if is_jump => vec![(next, true), (target, true)],
        _ => vec![(next, false)],
    }
}

#[cfg(test)]
mod tests {
    use super::back_edges;

    /// `goto` over `by` instructions.
    fn jump(by: i16) -> [u8; 8] {
        let [low, high] = by.to_le_bytes();
        [0x05, 0, low, high, 0, 0, 0, 0]
    }

    /// `if r0 == 0 goto` over `by` instructions.
    fn branch(by: i16) -> [u8; 8] {
        let [low, high] = by.to_le_bytes();
        [0x15, 0, low, high, 0, 0, 0, 0]
    }

    const ADD: [u8; 8] = [0x07, 0, 0, 0, 1, 0, 0, 0];
    const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn loops_are_classified_by_whether_a_jump_closes_them() {
        let closed = [ADD, branch(1), jump(-3), EXIT].concat();
        assert_eq!(back_edges(&closed, true), [0_usize; 0]);
        // The first jump enters the loop after its last instruction.
        let open = [jump(1), ADD, branch(1), jump(-3), EXIT].concat();
        assert_eq!(back_edges(&open, true), [1]);
    }
}
