//! Jumps of a function: the instructions that they reach, shorter ways, and the code without what is left out.

use crate::{
    function::Function,
    instruction::{Instruction, JUMP, LOAD_WORD},
};

impl Function<'_> {
    /// For each instruction, the first one from it on that is left. Jumps that lead there in any case are not.
    pub fn next_left(&self, reached: &[bool]) -> Option<Vec<usize>> {
        let length = self.code.len();
        let mut next = vec![length; length + 1];
        for index in (0..length).rev() {
            let instruction = self.code[index];
            let is_ahead = instruction.code == JUMP && instruction.offset >= 0;
            let leads_on = is_ahead
                && !self.is_second_half(index)
                && *next.get(self.jump_target(index)?)? == next[index + 1];
            next[index] = if reached[index] && !leads_on {
                index
            } else {
                next[index + 1]
            };
        }
        Some(next)
    }

    /// For each instruction, whether some way leads to it.
    pub fn reached(&self) -> Option<Vec<bool>> {
        let mut reached = vec![false; self.code.len()];
        let mut waiting = vec![0];
        while let Some(index) = waiting.pop() {
            if std::mem::replace(reached.get_mut(index)?, true) {
                continue;
            }
            let instruction = self.code[index];
            let mut next = index + 1;
            if instruction.code == LOAD_WORD {
                *reached.get_mut(next)? = true;
                next += 1;
            }
            if instruction.is_jump() {
                waiting.push(self.jump_target(index)?);
            }
            if instruction.is_conditional() || !instruction.is_jump() && !instruction.is_exit() {
                waiting.push(next);
            }
        }
        Some(reached)
    }

    /// Lets jumps to jumps lead further at once, and makes those unconditional that lead to the same instruction in any
    /// case. Returns true if it has changed any.
    pub fn shorten_jumps(&mut self, reached: &[bool], next_left: &[usize]) -> Option<bool> {
        let mut changed = false;
        for index in 0..self.code.len() {
            let instruction = self.code[index];
            if !reached[index] || self.is_second_half(index) || !instruction.is_jump() {
                continue;
            }
            let end = |index: usize| self.end_of_jumps(*next_left.get(index)?, next_left);
            let target = end(self.jump_target(index)?)?;
            let code = match instruction.is_conditional() && end(index + 1)? == target {
                true => JUMP,
                false => instruction.code,
            };
            let shorter = Instruction {
                code,
                offset: distance(index, target)?,
                ..if code == instruction.code {
                    instruction
                } else {
                    Instruction::NOTHING
                }
            };
            // A jump that leads on is left out.
            if next_left[index] == index && shorter != instruction {
                self.code[index] = shorter;
                changed = true;
            }
        }
        Some(changed)
    }

    /// The first instruction from this one on that is no unconditional jump ahead.
    fn end_of_jumps(&self, mut index: usize, next_left: &[usize]) -> Option<usize> {
        while self.code.get(index)?.code == JUMP && self.code[index].offset >= 0 {
            index = *next_left.get(self.jump_target(index)?)?;
        }
        Some(index)
    }
}

/// The offset of a jump from one instruction to another.
fn distance(from: usize, target: usize) -> Option<i16> {
    let [from, target] = [from + 1, target].map(|index| i32::try_from(index).ok());
    i16::try_from(target? - from?).ok()
}

/// Lets the jumps of a section lead to the same instructions once each of these is at its new place. `places`: the new
/// place of each instruction, and of the end. `None` if a jump would be too long.
pub fn redirect(code: &mut [Instruction], places: &[usize]) -> Option<()> {
    let mut is_second_half = false;
    for (index, instruction) in code.iter_mut().enumerate() {
        if instruction.is_jump() && !is_second_half {
            let target = (index + 1).checked_add_signed(instruction.offset.into())?;
            instruction.offset = distance(*places.get(index)?, *places.get(target)?)?;
        }
        is_second_half = !is_second_half && instruction.code == LOAD_WORD;
    }
    Some(())
}

/// Leaves out instructions of a section: returns the new place of each, and of the end. Jumps lead to the same
/// instructions as before.
pub fn compact(code: &mut Vec<Instruction>, is_left: &[bool]) -> Option<Vec<usize>> {
    let places = places(is_left.iter().map(|is_left| usize::from(*is_left)));
    redirect(code, &places)?;
    let left = code.iter().zip(is_left).filter(|(_, is_left)| **is_left);
    *code = left.map(|(instruction, _)| *instruction).collect();
    Some(places)
}

/// The place of each instruction, and of the end, where each takes this many slots.
pub fn places(slots: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut end = 0;
    let mut places = vec![end];
    for slots in slots {
        end += slots;
        places.push(end);
    }
    places
}
