//! Arithmetic as the processor does it.

use crate::instruction::{
    ADD, ALU64, AND, ARSH, DIV, Instruction, JEQ, JGE, JGT, JLE, JLT, JNE, JSET, JSGE, JSGT, JSLE,
    JSLT, JUMP, LSH, MOD, MUL, NEG, OR, RSH, SUB, XOR,
};

/// The result of arithmetic, if it is known.
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
pub fn computed(instruction: Instruction, first: u64, second: u64) -> Option<u64> {
    if instruction.offset != 0 {
        return None;
    }
    let operation = instruction.operation();
    if instruction.class() == ALU64 {
        let shift = (second & 63) as u32;
        return Some(match operation {
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
            ARSH => (first.cast_signed() >> shift).cast_unsigned(),
            NEG => first.wrapping_neg(),
            _ => return None,
        });
    }
    let (first, second) = (first as u32, second as u32);
    let shift = second & 31;
    let result = match operation {
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
        ARSH => (first.cast_signed() >> shift).cast_unsigned(),
        NEG => first.wrapping_neg(),
        _ => return None,
    };
    Some(result.into())
}

/// Whether a conditional jump is taken.
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
pub fn is_taken(instruction: Instruction, first: u64, second: u64) -> Option<bool> {
    let (signed_first, signed_second) = if instruction.class() == JUMP {
        (first.cast_signed(), second.cast_signed())
    } else {
        let signed = |number: u64| i64::from((number as u32).cast_signed());
        (signed(first), signed(second))
    };
    let (first, second) = if instruction.class() == JUMP {
        (first, second)
    } else {
        (u64::from(first as u32), u64::from(second as u32))
    };
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
