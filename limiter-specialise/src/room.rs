//! Room for constants of 64 bits: an instruction with such a number takes two slots, and a load from memory one.

use crate::{
    instruction::{Instruction, LOAD_WORD},
    jumps::{places, redirect},
};

/// A section's code with an empty slot behind each load of eight bytes from memory. Also returns the new place of each
/// instruction, and of the end. `None` if a jump would be too long.
pub fn with_room(code: &[Instruction]) -> Option<(Vec<Instruction>, Vec<usize>)> {
    let mut is_second_half = false;
    let takes_room: Vec<bool> = code
        .iter()
        .map(|instruction| {
            let takes_room = !is_second_half && instruction.loads_word();
            is_second_half = !is_second_half && instruction.code == LOAD_WORD;
            takes_room
        })
        .collect();
    let places = places(
        takes_room
            .iter()
            .map(|takes_room| 1 + usize::from(*takes_room)),
    );
    let mut code = code.to_vec();
    redirect(&mut code, &places)?;
    let mut roomy = Vec::with_capacity(*places.last()?);
    for (instruction, takes_room) in code.into_iter().zip(takes_room) {
        roomy.push(instruction);
        if takes_room {
            roomy.push(Instruction::NOTHING);
        }
    }
    Some((roomy, places))
}
