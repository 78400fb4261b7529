//! Instructions whose result nothing uses.

use crate::{
    function::Function,
    instruction::{END, FRAME, Instruction, JUMP, LOAD, LOAD_WORD, MOV, NEG, STORE},
    values::{slots_from, slots_of},
};

impl Function<'_> {
    /// Removes instructions whose result nothing uses. Of the stack, what lies below `taken` is used by its own
    /// instructions alone.
    pub fn remove_unused(&mut self, reached: &[bool], taken: i64) -> Option<()> {
        let length = self.code.len();
        let others = slots_from(taken);
        // Registers and slots that are used from each instruction on.
        let mut used = vec![(0_u16, others); length];
        let mut needed = vec![false; length];
        loop {
            let mut changed = false;
            for index in (0..length).rev() {
                if !reached[index] || self.is_second_half(index) {
                    continue;
                }
                let instruction = self.code[index];
                let next = index + if instruction.code == LOAD_WORD { 2 } else { 1 };
                let mut behind = (0, others);
                let goes_on = !instruction.is_exit()
                    && (!instruction.is_jump() || instruction.is_conditional());
                if goes_on {
                    behind = *used.get(next)?;
                }
                if instruction.is_jump() {
                    let (registers, slots) = *used.get(self.jump_target(index)?)?;
                    behind = (behind.0 | registers, behind.1 | slots);
                }
                let (is_needed, in_front) = use_of(instruction, behind, others);
                needed[index] |= is_needed;
                if used[index] != in_front {
                    used[index] = in_front;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        for index in 0..length {
            if reached[index] && !needed[index] && !self.is_second_half(index) {
                if self.code[index].code == LOAD_WORD {
                    *self.code.get_mut(index + 1)? = Instruction::NOTHING;
                }
                self.code[index] = Instruction::NOTHING;
            }
        }
        Some(())
    }
}

/// True if an instruction is needed, and the registers and slots that are used in front of it. The arguments: those that
/// are used behind it, and the slots that others may read.
fn use_of(
    instruction: Instruction,
    (registers, slots): (u16, u128),
    others: u128,
) -> (bool, (u16, u128)) {
    let Instruction {
        destination,
        source,
        offset,
        ..
    } = instruction;
    let bit = |register: u8| 1_u16 << register;
    let of_stack = |register: u8, bytes: usize| match register {
        FRAME => slots_of(offset.into(), bytes),
        _ => 0,
    };
    let unneeded = (false, (registers, slots));
    if instruction == Instruction::NOTHING {
        return unneeded;
    }
    if instruction.is_exit() {
        return (true, (bit(0), others));
    }
    if instruction.is_call() {
        let kept = registers & !0x3f;
        return (true, (kept | instruction.arguments(), slots | others));
    }
    if instruction.is_atomic() {
        let old = instruction.fetched().map_or(0, bit);
        let read = bit(destination) | bit(source) | bit(0);
        let touched = of_stack(destination, 8);
        return (true, (registers & !old | read, slots | touched));
    }
    if instruction.code == LOAD_WORD {
        if registers & bit(destination) == 0 {
            return unneeded;
        }
        return (true, (registers & !bit(destination), slots));
    }
    if let Some(bytes) = instruction.moved() {
        let register = if instruction.class() == LOAD {
            if registers & bit(destination) == 0 {
                return unneeded;
            }
            let read = of_stack(source, bytes);
            return (
                true,
                (registers & !bit(destination) | bit(source), slots | read),
            );
        } else if instruction.class() == STORE {
            bit(source)
        } else {
            0
        };
        let mut slots = slots;
        if destination == FRAME {
            let written = slots_of(offset.into(), bytes);
            if written & slots == 0 {
                return unneeded;
            }
            // Slots that only the function itself uses, written as a whole.
            if bytes >= 4 && offset % 4 == 0 {
                slots &= !(written & !others);
            }
        }
        return (true, (registers | register | bit(destination), slots));
    }
    if instruction.is_arithmetic() {
        if registers & bit(destination) == 0 {
            return unneeded;
        }
        let mut read = registers;
        if instruction.operation() == MOV {
            read &= !bit(destination);
        }
        if instruction.is_by_register() && !matches!(instruction.operation(), END | NEG) {
            read |= bit(source);
        }
        return (true, (read, slots));
    }
    if instruction.is_conditional() {
        let second = if instruction.is_by_register() {
            bit(source)
        } else {
            0
        };
        return (true, (registers | bit(destination) | second, slots));
    }
    // An unconditional jump, or a load that version 3 does not have.
    let read = if instruction.class() == JUMP {
        registers
    } else {
        u16::MAX
    };
    (true, (read, slots))
}
