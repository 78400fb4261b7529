//! Instructions of BPF, version 3.

/// One slot of eight bytes. [`LOAD_WORD`] takes two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Class and operation.
    pub code: u8,
    /// Number of the destination register.
    pub destination: u8,
    /// Number of the source register.
    pub source: u8,
    /// Instructions to jump, or bytes from an address.
    pub offset: i16,
    /// The immediate operand.
    pub immediate: i32,
}

/// Bytes of an instruction.
pub const SIZE: usize = 8;

/// Number of the register with the address of the stack's end.
pub const FRAME: u8 = 10;

// Classes: bits 0 to 2 of the code.
pub const LOAD: u8 = 1;
pub const STORE_NUMBER: u8 = 2;
pub const STORE: u8 = 3;
pub const ALU32: u8 = 4;
pub const JUMP: u8 = 5;
pub const JUMP32: u8 = 6;
pub const ALU64: u8 = 7;

// Operations: bits 4 to 7 of the code.
pub const ADD: u8 = 0x00;
pub const SUB: u8 = 0x10;
pub const MUL: u8 = 0x20;
pub const DIV: u8 = 0x30;
pub const OR: u8 = 0x40;
pub const AND: u8 = 0x50;
pub const LSH: u8 = 0x60;
pub const RSH: u8 = 0x70;
pub const NEG: u8 = 0x80;
pub const MOD: u8 = 0x90;
pub const XOR: u8 = 0xa0;
pub const MOV: u8 = 0xb0;
pub const ARSH: u8 = 0xc0;
pub const END: u8 = 0xd0;

pub const JA: u8 = 0x00;
pub const JEQ: u8 = 0x10;
pub const JGT: u8 = 0x20;
pub const JGE: u8 = 0x30;
pub const JSET: u8 = 0x40;
pub const JNE: u8 = 0x50;
pub const JSGT: u8 = 0x60;
pub const JSGE: u8 = 0x70;
pub const CALL: u8 = 0x80;
pub const EXIT: u8 = 0x90;
pub const JLT: u8 = 0xa0;
pub const JLE: u8 = 0xb0;
pub const JSLT: u8 = 0xc0;
pub const JSLE: u8 = 0xd0;

/// Bit of the code: the second operand is a register.
pub const BY_REGISTER: u8 = 0x08;
/// The code that loads an immediate operand of 64 bits. Its upper half is in the next slot.
pub const LOAD_WORD: u8 = 0x18;
/// Bits 5 to 7 of the code of a load or store to memory: an ordinary one.
const ORDINARY: u8 = 0x60;
/// The same of an atomic operation.
const ATOMIC: u8 = 0xc0;
/// Bit of the immediate operand of an atomic operation that returns the old value.
const FETCH: i32 = 0x01;
/// The immediate operand of a compare-and-swap, which returns the old value in register 0.
const COMPARE: i32 = 0xf1;
/// [`Instruction::source`] of a call to a function of the object.
const OF_OBJECT: u8 = 1;

impl Instruction {
    /// Does nothing.
    pub const NOTHING: Self = Self {
        code: JUMP,
        destination: 0,
        source: 0,
        offset: 0,
        immediate: 0,
    };

    /// Bits of the registers with the arguments of a call; of all five if their number is not known.
    pub const fn arguments(self) -> u16 {
        if self.is_call_of_object() {
            return 0b11_1110;
        }
        match self.immediate {
            // bpf_ktime_get_ns, bpf_get_prandom_u32, bpf_jiffies64, bpf_ktime_get_coarse_ns
            5 | 7 | 118 | 160 => 0,
            // bpf_map_lookup_elem
            1 => 0b110,
            _ => 0b11_1110,
        }
    }

    /// Reads an instruction of this machine's byte order.
    pub fn read(bytes: [u8; SIZE]) -> Self {
        let [code, registers, a, b, c, d, e, f] = bytes;
        let (upper, lower) = (registers >> 4, registers & 15);
        let (destination, source) = match cfg!(target_endian = "little") {
            true => (lower, upper),
            false => (upper, lower),
        };
        Self {
            code,
            destination,
            source,
            offset: i16::from_ne_bytes([a, b]),
            immediate: i32::from_ne_bytes([c, d, e, f]),
        }
    }

    /// The bytes of the instruction.
    pub fn bytes(self) -> [u8; SIZE] {
        let registers = match cfg!(target_endian = "little") {
            true => self.source << 4 | self.destination,
            false => self.destination << 4 | self.source,
        };
        let [a, b] = self.offset.to_ne_bytes();
        let [c, d, e, f] = self.immediate.to_ne_bytes();
        [self.code, registers, a, b, c, d, e, f]
    }

    /// The class.
    pub const fn class(self) -> u8 {
        self.code & 7
    }

    /// The operation of arithmetic or of a jump.
    pub const fn operation(self) -> u8 {
        self.code & 0xf0
    }

    /// True if the second operand is a register.
    pub const fn is_by_register(self) -> bool {
        self.code & BY_REGISTER != 0
    }

    /// True if the instruction computes a register from registers.
    pub const fn is_arithmetic(self) -> bool {
        matches!(self.class(), ALU32 | ALU64)
    }

    /// True if the instruction jumps, always or by a condition. A call is no jump.
    pub const fn is_jump(self) -> bool {
        matches!(self.class(), JUMP | JUMP32) && !self.is_call() && !self.is_exit()
    }

    /// True if the instruction jumps by a condition.
    pub const fn is_conditional(self) -> bool {
        self.is_jump() && self.operation() != JA
    }

    /// True if the instruction calls a helper or a function.
    pub const fn is_call(self) -> bool {
        self.code == JUMP | CALL
    }

    /// True if the instruction calls a function of the object.
    pub const fn is_call_of_object(self) -> bool {
        self.is_call() && self.source == OF_OBJECT
    }

    /// True if the instruction ends the function.
    pub const fn is_exit(self) -> bool {
        self.code == JUMP | EXIT
    }

    /// Bytes that an ordinary load or store moves; `None` for other instructions.
    pub const fn moved(self) -> Option<usize> {
        if !matches!(self.class(), LOAD | STORE_NUMBER | STORE) || self.code & 0xe0 != ORDINARY {
            return None;
        }
        Some(match self.code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => 8,
        })
    }

    /// True if the instruction reads and writes memory at once.
    pub const fn is_atomic(self) -> bool {
        self.class() == STORE && self.code & 0xe0 == ATOMIC
    }

    /// The register that an atomic operation writes the old value to.
    pub const fn fetched(self) -> Option<u8> {
        if self.immediate == COMPARE {
            Some(0)
        } else if self.immediate & FETCH != 0 {
            Some(self.source)
        } else {
            None
        }
    }

    /// `destination = number`, if one slot has room for it.
    pub fn constant(destination: u8, number: u64) -> Option<Self> {
        let (class, immediate) = match (u32::try_from(number), small(number)) {
            (Ok(number), _) => (ALU32, number.cast_signed()),
            (_, Some(immediate)) => (ALU64, immediate),
            _ => return None,
        };
        Some(Self {
            code: class | MOV,
            destination,
            source: 0,
            offset: 0,
            immediate,
        })
    }

    /// `destination = number`, in two slots.
    pub fn word(destination: u8, number: u64) -> [Self; 2] {
        let half = |code, destination, number| Self {
            code,
            destination,
            source: 0,
            offset: 0,
            immediate: lower(number),
        };
        [
            half(LOAD_WORD, destination, number),
            half(0, 0, number >> u32::BITS),
        ]
    }

    /// True if the instruction loads eight bytes from memory.
    pub fn loads_word(self) -> bool {
        self.class() == LOAD && self.moved() == Some(size_of::<u64>())
    }
}

/// The immediate operand that the processor extends to these 64 bits.
pub fn small(number: u64) -> Option<i32> {
    i32::try_from(number.cast_signed()).ok()
}

/// The immediate operand of an operation on 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
pub const fn lower(number: u64) -> i32 {
    (number as u32).cast_signed()
}
