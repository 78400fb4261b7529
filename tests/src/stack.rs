//! Computes the stack use of an object's programs, by the rule of the strictest supported kernel.
//!
//! Linux 6.1 rounds each frame up to 32 bytes, and allows 512 bytes for all frames of a call chain
//! (`check_max_stack_depth` in kernel/bpf/verifier.c).

use std::collections::BTreeMap;

use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SectionKind,
    SymbolKind,
};

/// Bytes of stack that a call chain may use.
pub const STACK_MAX: u64 = 512;

/// Frames are rounded up to a multiple of this number of bytes. An empty frame counts as one byte.
const ROUNDED_TO: u64 = 32;

/// Bytes of an instruction.
const INSTRUCTION: usize = 8;

/// A call chain from a program down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Bytes of all its frames, each rounded up.
    pub bytes: u64,
    /// The functions, each with its frame's bytes before rounding.
    pub frames: Vec<(String, u64)>,
}

/// Location of a function: its section, and the offset there in bytes.
type Place = (usize, u64);

#[derive(Debug)]
struct Function {
    name: String,
    /// True if the function is a program, which the kernel calls.
    is_program: bool,
    /// Bytes of the function's own frame.
    frame: u64,
    calls: Vec<Place>,
}

/// The deepest call chain of each program in an ELF object.
pub fn deepest(object: &[u8]) -> Vec<Chain> {
    let file = object::File::parse(object).expect("the bytes are an ELF object");
    let mut functions = BTreeMap::new();
    for symbol in file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
    {
        let section = symbol.section_index().expect("a function is in a section");
        let function = read(&file, section, &symbol);
        functions.insert((section.0, symbol.address()), function);
    }
    (functions.iter())
        .filter(|(_, function)| function.is_program)
        .map(|(place, _)| from(&functions, *place, &mut Vec::new()))
        .collect()
}

/// The deepest call chain from this function down. `above` are its callers.
fn from(functions: &BTreeMap<Place, Function>, place: Place, above: &mut Vec<Place>) -> Chain {
    assert!(!above.contains(&place), "a function calls itself");
    let function = functions.get(&place);
    let function = function.unwrap_or_else(|| panic!("no function begins at {place:x?}"));
    above.push(place);
    let below = (function.calls.iter())
        .map(|place| from(functions, *place, above))
        .max_by_key(|chain| chain.bytes);
    above.pop();
    let (bytes, frames) = below.map_or((0, Vec::new()), |chain| (chain.bytes, chain.frames));
    let own = (function.name.clone(), function.frame);
    Chain {
        bytes: bytes + function.frame.max(1).next_multiple_of(ROUNDED_TO),
        frames: [own].into_iter().chain(frames).collect(),
    }
}

fn read<'a>(
    file: &object::File<'a>,
    section: SectionIndex,
    symbol: &impl ObjectSymbol<'a>,
) -> Function {
    let section = file.section_by_index(section).expect("the section exists");
    assert_eq!(section.kind(), SectionKind::Text);
    let relocated: BTreeMap<u64, RelocationTarget> = (section.relocations())
        .map(|(at, relocation)| (at, relocation.target()))
        .collect();
    let (start, size) = (symbol.address(), symbol.size());
    let code = section.data_range(start, size).expect("it is readable");
    let code = code.expect("a function is within its section");
    let mut function = Function {
        name: symbol.name().expect("the name is text").to_owned(),
        is_program: section.name() != Ok(".text"),
        frame: 0,
        calls: Vec::new(),
    };
    let mut at = 0;
    while at < code.len() {
        let instruction = Instruction::read(&code[at..at + INSTRUCTION], file.endianness());
        function.frame = function.frame.max(instruction.frame());
        let place = start + at as u64;
        if instruction.is_call() {
            let called = match relocated.get(&place) {
                Some(target) => relocated_call(file, *target, &instruction),
                None => (section.index().0, instruction.target(place)),
            };
            function.calls.push(called);
        }
        at += instruction.length();
    }
    function
}

/// Target of a call that names a symbol. A call to a function that is not exported names the section, and has the
/// number of instructions from its start.
fn relocated_call(
    file: &object::File<'_>,
    target: RelocationTarget,
    instruction: &Instruction,
) -> Place {
    let RelocationTarget::Symbol(index) = target else {
        panic!("a call to {target:?}");
    };
    let symbol = file.symbol_by_index(index).expect("the section exists");
    let section = symbol.section_index().expect("a local function");
    let address = match symbol.kind() {
        SymbolKind::Section => instruction.target(0),
        _ => symbol.address(),
    };
    (section.0, address)
}

/// One instruction (RFC 9669).
struct Instruction {
    code: u8,
    destination: u8,
    source: u8,
    offset: i16,
    immediate: i32,
}

/// The frame pointer.
const R10: u8 = 10;

impl Instruction {
    fn read(bytes: &[u8], endian: Endianness) -> Self {
        let registers = bytes[1];
        let (offset, immediate) = (
            [bytes[2], bytes[3]],
            [bytes[4], bytes[5], bytes[6], bytes[7]],
        );
        match endian {
            Endianness::Little => Self {
                code: bytes[0],
                destination: registers & 0xf,
                source: registers >> 4,
                offset: i16::from_le_bytes(offset),
                immediate: i32::from_le_bytes(immediate),
            },
            Endianness::Big => Self {
                code: bytes[0],
                destination: registers >> 4,
                source: registers & 0xf,
                offset: i16::from_be_bytes(offset),
                immediate: i32::from_be_bytes(immediate),
            },
        }
    }

    /// Bytes of the frame that the instruction uses. A subtraction from any register counts as one from the frame
    /// pointer, because LLVM subtracts no number of that size from another register.
    fn frame(&self) -> u64 {
        const LOAD: u8 = 1;
        const STORE: u8 = 2;
        const STORE_REGISTER: u8 = 3;
        const ADD: u8 = 0x07;
        let down = match self.code & 7 {
            LOAD if self.source == R10 => i32::from(self.offset),
            STORE | STORE_REGISTER if self.destination == R10 => i32::from(self.offset),
            _ if self.code == ADD && -self.immediate <= STACK_MAX as i32 => self.immediate,
            _ => 0,
        };
        u64::from(down.min(0).unsigned_abs())
    }

    /// True if it calls a function of the object, not a helper of the kernel.
    fn is_call(&self) -> bool {
        const CALL: u8 = 0x85;
        const OF_OBJECT: u8 = 1;
        self.code == CALL && self.source == OF_OBJECT
    }

    /// Target of the call at `place`, both in bytes.
    fn target(&self, place: u64) -> u64 {
        let after = place + INSTRUCTION as u64;
        after.wrapping_add_signed(i64::from(self.immediate) * INSTRUCTION as i64)
    }

    /// An instruction with a 64-bit immediate takes two.
    fn length(&self) -> usize {
        const LOAD_WIDE: u8 = 0x18;
        if self.code == LOAD_WIDE {
            2 * INSTRUCTION
        } else {
            INSTRUCTION
        }
    }
}
