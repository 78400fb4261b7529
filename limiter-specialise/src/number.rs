//! Arithmetic as the processor does it.

use crate::instruction::{
    ADD, ALU64, AND, ARSH, DIV, Instruction, JEQ, JGE, JGT, JLE, JLT, JNE, JSET, JSGE, JSGT, JSLE,
    JSLT, JUMP, LSH, MOD, MUL, NEG, OR, RSH, SUB, XOR,
};

/// The operands as an instruction sees them: with their sign, and without.
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
fn operands(is_wide: bool, first: u64, second: u64) -> [(i64, u64); 2] {
    [first, second].map(|number| {
        if is_wide {
            (number.cast_signed(), number)
        } else {
            let lower = number as u32;
            (lower.cast_signed().into(), lower.into())
        }
    })
}

/// The result of arithmetic, if it is known. One of 32 bits has zeros above.
pub fn computed(instruction: Instruction, first: u64, second: u64) -> Option<u64> {
    if instruction.offset != 0 {
        return None;
    }
    let is_wide = instruction.class() == ALU64;
    let [(signed, first), (_, second)] = operands(is_wide, first, second);
    let shift = second & if is_wide { 63 } else { 31 };
    let result = match instruction.operation() {
        ADD => first.wrapping_add(second),
        SUB => first.wrapping_sub(second),
        MUL => first.wrapping_mul(second),
        DIV => first.checked_div(second)?,
        MOD => first.checked_rem(second)?,
        OR => first | second,
        AND => first & second,
        XOR => first ^ second,
        LSH => first << shift,
        RSH => first >> shift,
        ARSH => (signed >> shift).cast_unsigned(),
        NEG => first.wrapping_neg(),
        _ => return None,
    };
    Some(if is_wide {
        result
    } else {
        result & u64::from(u32::MAX)
    })
}

/// True if a conditional jump is taken. `None` for another instruction.
pub fn is_taken(instruction: Instruction, first: u64, second: u64) -> Option<bool> {
    let is_wide = instruction.class() == JUMP;
    let [(signed_first, first), (signed_second, second)] = operands(is_wide, first, second);
    Some(match instruction.operation() {
        JEQ => first == second,
        JNE => first != second,
        JGT => first > second,
        JGE => first >= second,
        JLT => first < second,
        JLE => first <= second,
        JSET => first & second != 0,
        JSGT => signed_first > signed_second,
        JSGE => signed_first >= signed_second,
        JSLT => signed_first < signed_second,
        JSLE => signed_first <= signed_second,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction::{ALU32, JUMP32};

    fn instruction(code: u8) -> Instruction {
        Instruction {
            code,
            ..Instruction::NOTHING
        }
    }

    /// The results are those of the kernel's documentation of the instruction set, computed by hand.
    #[test]
    fn arithmetic_is_that_of_the_processor() {
        const TOP: u64 = 1 << 63;
        for (operation, first, second, wide, narrow) in [
            (ADD, u64::MAX, 2, Some(1), Some(1)),
            (ADD, 0xffff_ffff, 1, Some(0x1_0000_0000), Some(0)),
            (SUB, 0, 1, Some(u64::MAX), Some(0xffff_ffff)),
            (MUL, 0x1_0000_0001, 3, Some(0x3_0000_0003), Some(3)),
            (DIV, 0x2_0000_0006, 2, Some(0x1_0000_0003), Some(3)),
            (DIV, u64::MAX, 16, Some(u64::MAX >> 4), Some(0x0fff_ffff)),
            (DIV, 7, 0, None, None),
            (DIV, 7, 0x1_0000_0000, Some(0), None),
            (MOD, 0x1_0000_0007, 4, Some(3), Some(3)),
            (MOD, 7, 0, None, None),
            (OR, 0x1_0000_0000, 5, Some(0x1_0000_0005), Some(5)),
            (AND, u64::MAX, TOP | 6, Some(TOP | 6), Some(6)),
            (XOR, TOP | 3, 1, Some(TOP | 2), Some(2)),
            (LSH, 1, 33, Some(1 << 33), Some(2)),
            (LSH, 0x8000_0001, 1, Some(0x1_0000_0002), Some(2)),
            (LSH, 1, 64, Some(1), Some(1)),
            (RSH, TOP | 0x8000_0000, 31, Some((1 << 32) | 1), Some(1)),
            (RSH, 0x8000_0000, 36, Some(0), Some(0x0800_0000)),
            (ARSH, TOP, 62, Some(u64::MAX - 1), Some(0)),
            (ARSH, 0x8000_0000, 31, Some(1), Some(0xffff_ffff)),
            (NEG, 1, 0, Some(u64::MAX), Some(0xffff_ffff)),
        ] {
            let result = |class: u8| computed(instruction(operation | class), first, second);
            let results = (result(ALU64), result(ALU32));
            assert_eq!(
                results,
                (wide, narrow),
                "{operation:#x} {first:#x} {second:#x}"
            );
        }
        let signed_division = Instruction {
            offset: 1,
            ..instruction(DIV | ALU64)
        };
        assert_eq!(computed(signed_division, 6, 2), None);
    }

    #[test]
    fn jumps_compare_as_the_processor_does() {
        const MINUS: u64 = u64::MAX;
        for (operation, first, second, wide, narrow) in [
            (JEQ, 0x1_0000_0005, 5, false, true),
            (JNE, 0x1_0000_0005, 5, true, false),
            (JGT, MINUS, 1, true, true),
            (JGT, 0x1_0000_0000, 1, true, false),
            (JGE, 1, 1, true, true),
            (JGE, 0, 0x1_0000_0000, false, true),
            (JLT, 1, MINUS, true, true),
            (JLT, 1, 0x1_0000_0000, true, false),
            (JLE, 0x1_0000_0001, 1, false, true),
            (JSET, 0x1_0000_0000, 0x1_0000_0000, true, false),
            (JSET, 6, 4, true, true),
            (JSGT, 0x8000_0000, 0, true, false),
            (JSGT, 1, MINUS, true, true),
            (JSGE, MINUS, MINUS, true, true),
            (JSGE, MINUS, 0, false, false),
            (JSLT, MINUS, 0, true, true),
            (JSLT, 0x8000_0000, 0, false, true),
            (JSLE, 0, MINUS, false, false),
            (JSLE, 0x8000_0000, 0, false, true),
        ] {
            let taken = |class: u8| is_taken(instruction(operation | class), first, second);
            let taken = (taken(JUMP), taken(JUMP32));
            assert_eq!(
                taken,
                (Some(wide), Some(narrow)),
                "{operation:#x} {first:#x} {second:#x}"
            );
        }
    }
}
