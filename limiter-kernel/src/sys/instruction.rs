//! Small programs, in the notation of the kernel's documentation: Documentation/bpf/standardization/instruction-set.rst.

/// An instruction of a program.
pub type Instruction = [u8; 8];

/// One instruction: code, registers (destination, source), offset, immediate.
pub fn instruction(code: u8, (into, from): (u8, u8), offset: i16, number: i32) -> Instruction {
    let registers = match cfg!(target_endian = "little") {
        true => from << 4 | into,
        false => into << 4 | from,
    };
    let ([first, second], [a, b, c, d]) = (offset.to_ne_bytes(), number.to_ne_bytes());
    [code, registers, first, second, a, b, c, d]
}
