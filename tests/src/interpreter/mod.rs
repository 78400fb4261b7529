//! Interprets a loaded XDP program on one packet, and counts instructions and cache lines. The numbers are the same on
//! every run, and take a fraction of a second: the emulated machine that counts takes a minute, and confirms them.
//!
//! The program is what the kernel has made of it (`bpftool prog dump xlated`), and the data are those of its maps. Machine
//! instructions are those that the JIT of x86-64 emits for each BPF instruction. Work of the kernel's functions that the
//! program calls is not counted.

mod instruction;
mod machine;
mod memory;
mod program;

use std::collections::BTreeMap;

use anyhow::Result;
use limiter_kernel::sys::clock;

pub use self::{
    instruction::Instruction,
    program::{Function, Program},
};
use self::{machine::Machine, memory::Memory};

/// Packets before the counted one, so that it finds a fresh reading of the clock.
const BEFORE: u64 = 2;
/// Nanoseconds between packets.
const GAP: u64 = 100;

/// The counts of one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The program's return value.
    pub verdict: u64,
    /// Executed BPF instructions.
    pub bpf: u64,
    /// Executed machine instructions, without those of the kernel's functions.
    pub native: u64,
    /// Lines of 64 bytes of map values that the packet needs.
    pub data_lines: usize,
    /// Lines of 64 bytes of the program's machine code that the packet needs, if all BPF instructions have equal lengths.
    pub code_lines: usize,
    /// Machine instructions in each function, by its first instruction.
    pub by_function: BTreeMap<usize, u64>,
    /// Calls of each of the kernel's functions.
    pub calls: BTreeMap<String, u64>,
    /// The executed BPF instructions, by their numbers.
    pub path: Vec<usize>,
}

/// Counts the packet `frame`, after some like it. The maps in the kernel do not change.
pub fn count(program: &Program, frame: &[u8]) -> Result<Counts> {
    let now = clock::now()?;
    let mut memory = Memory::new(program, frame)?;
    for number in 0..BEFORE {
        Machine::new(program, &mut memory, now + number * GAP).run()?;
    }
    memory.forget_lines();
    let mut counts = Machine::new(program, &mut memory, now + BEFORE * GAP).run()?;
    counts.data_lines = memory.lines();
    Ok(counts)
}
