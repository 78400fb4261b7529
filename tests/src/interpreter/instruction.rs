//! One BPF instruction, and the machine instructions that the JIT of x86-64 makes of it.

/// An instruction as in `struct bpf_insn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Class, operation and kind of operand.
    pub code: u8,
    /// The register that changes.
    pub destination: usize,
    /// The other register, or the kind of an immediate.
    pub source: usize,
    /// Offset of an address or a jump.
    pub offset: i16,
    /// The immediate.
    pub immediate: i32,
}

/// Bytes of an instruction.
pub const BYTES: usize = 8;

// Classes.
pub const LD: u8 = 0;
pub const LDX: u8 = 1;
pub const ST: u8 = 2;
pub const STX: u8 = 3;
pub const ALU: u8 = 4;
pub const JMP: u8 = 5;
pub const JMP32: u8 = 6;

// Operations of arithmetic.
pub const MUL: u8 = 2;
pub const DIV: u8 = 3;
pub const MOD: u8 = 9;
pub const MOV: u8 = 11;
pub const END: u8 = 13;

// Operations of jumps.
pub const JA: u8 = 0;
pub const CALL: u8 = 8;
pub const EXIT: u8 = 9;

/// Offset of a move that turns a per-CPU address into this CPU's.
pub const PER_CPU: i16 = -1;
/// Kind of a call of another function of the program.
pub const OWN: usize = 1;

/// Machine instructions at the beginning and at the end of each function.
pub const FRAME: u64 = 6;

impl Instruction {
    /// The instruction in these bytes.
    pub fn new(bytes: [u8; BYTES]) -> Self {
        let [code, registers, low, high, immediate @ ..] = bytes;
        Self {
            code,
            destination: usize::from(registers & 15),
            source: usize::from(registers >> 4),
            offset: i16::from_le_bytes([low, high]),
            immediate: i32::from_le_bytes(immediate),
        }
    }

    /// The class.
    pub const fn class(self) -> u8 {
        self.code & 7
    }

    /// The operation of an arithmetic instruction or a jump.
    pub const fn operation(self) -> u8 {
        self.code >> 4
    }

    /// True if the operand is a register.
    pub const fn has_source(self) -> bool {
        self.code & 8 != 0
    }

    /// The mode of a load or store: 3 for plain memory, 4 with the sign, 6 for atomic operations.
    pub const fn mode(self) -> u8 {
        self.code >> 5
    }

    /// Bytes of a load or store.
    pub const fn size(self) -> usize {
        match self.code & 0x18 {
            0 => 4,
            8 => 2,
            16 => 1,
            _ => 8,
        }
    }

    /// True if arithmetic or a comparison is about 64 bits.
    pub const fn is_wide(self) -> bool {
        matches!(self.class(), 5 | 7)
    }

    /// Machine instructions of it, as in `arch/x86/net/bpf_jit_comp.c`: one for most; two for a comparison with its jump,
    /// and for a call of the program's own function with its adjustment of the stack.
    pub const fn native(self) -> u64 {
        match (self.class(), self.operation()) {
            (JMP | JMP32, JA | EXIT) => 1,
            (JMP, CALL) if self.source == OWN => 2,
            (JMP, CALL) => 1,
            (JMP | JMP32, _) => 2,
            (LD | LDX | ST | STX, _) => 1,
            (_, DIV | MOD) => 8,
            (_, MOV) if self.offset == PER_CPU && self.has_source() => 2,
            (_, END) if self.immediate == 16 => 2,
            _ => 1,
        }
    }
}
