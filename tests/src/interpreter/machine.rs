//! Executes instructions.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::{
    Counts,
    instruction::{
        ALU, CALL, DIV, END, EXIT, FRAME, Instruction, JA, JMP, JMP32, LD, LDX, MOD, MOV, MUL, OWN,
        ST, STX,
    },
    memory::{CONTEXT, Memory, end_of_stack},
    program::Program,
};

/// The most instructions of a packet.
const MOST: u64 = 1_000_000;
/// Registers that a call keeps.
const KEPT: std::ops::Range<usize> = 6..10;

/// A program that runs.
pub struct Machine<'a, 'p> {
    program: &'p Program,
    memory: &'a mut Memory<'p>,
    now: u64,
    registers: [u64; 11],
    callers: Vec<Caller>,
    /// First instruction of the function that runs.
    function: usize,
    counts: Counts,
}

/// A function that waits for the one that it has called.
struct Caller {
    next: usize,
    kept: [u64; 4],
    function: usize,
}

impl<'a, 'p> Machine<'a, 'p> {
    /// A machine at the program's first instruction.
    pub fn new(program: &'p Program, memory: &'a mut Memory<'p>, now: u64) -> Self {
        let mut registers = [0; 11];
        registers[1] = CONTEXT;
        registers[10] = end_of_stack(0);
        Self {
            program,
            memory,
            now,
            registers,
            callers: Vec::new(),
            function: 0,
            counts: Counts::default(),
        }
    }

    /// Runs the program to its end.
    pub fn run(mut self) -> Result<Counts> {
        self.native(FRAME);
        let mut next = Some(0);
        while let Some(number) = next {
            if self.counts.bpf == MOST {
                bail!("more than {MOST} instructions");
            }
            let Some(&instruction) = self.program.code.get(number) else {
                bail!("there is no instruction {number}");
            };
            self.counts.bpf += 1;
            self.counts.path.push(number);
            self.native(instruction.native());
            next = self.step(number, instruction)?;
        }
        self.counts.verdict = self.registers[0];
        self.counts.code_lines = self.code_lines();
        Ok(self.counts)
    }

    fn native(&mut self, instructions: u64) {
        self.counts.native += instructions;
        *self.counts.by_function.entry(self.function).or_default() += instructions;
    }

    fn code_lines(&self) -> usize {
        let (bytes, all) = (self.program.native_bytes, self.program.code.len());
        let line = |number: &usize| number * bytes / all / 64;
        self.counts
            .path
            .iter()
            .map(line)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Executes an instruction. Returns the number of the next one; none at the end.
    fn step(&mut self, number: usize, instruction: Instruction) -> Result<Option<usize>> {
        let mut next = number + 1;
        match instruction.class() {
            LD => {
                self.load_immediate(number, instruction)?;
                next += 1;
            }
            LDX => self.load(instruction)?,
            ST | STX => self.store(instruction)?,
            JMP | JMP32 => match instruction.operation() {
                EXIT => return Ok(self.leave()),
                CALL if instruction.source == OWN => {
                    return self.enter(number, instruction).map(Some);
                }
                CALL => self.call(instruction)?,
                JA if instruction.class() == JMP32 => next = jump(next, instruction.immediate),
                _ if self.is_taken(instruction)? => next = jump(next, instruction.offset.into()),
                _ => {}
            },
            _ => self.compute(instruction)?,
        }
        Ok(Some(next))
    }

    /// A load of 64 bits: a number, a map, or a place in a map's only value.
    fn load_immediate(&mut self, number: usize, instruction: Instruction) -> Result<()> {
        let low = instruction.immediate.cast_unsigned();
        let high = self
            .program
            .code
            .get(number + 1)
            .map_or(0, |next| next.immediate.cast_unsigned());
        self.registers[instruction.destination] = match instruction.source {
            0 => u64::from(high) << 32 | u64::from(low),
            1 => self.memory.map(low)?,
            2 => self.memory.first_value(low)? + u64::from(high),
            other => bail!("a load of kind {other}"),
        };
        Ok(())
    }

    fn load(&mut self, instruction: Instruction) -> Result<()> {
        let address = self.address(instruction.source, instruction.offset);
        let size = instruction.size();
        let value = self.memory.load(address, size)?;
        let with_sign = instruction.mode() == 4;
        self.registers[instruction.destination] = if with_sign {
            extend(value, size * 8)
        } else {
            value
        };
        Ok(())
    }

    fn address(&self, register: usize, offset: i16) -> u64 {
        self.registers[register].wrapping_add_signed(offset.into())
    }

    fn store(&mut self, instruction: Instruction) -> Result<()> {
        let address = self.address(instruction.destination, instruction.offset);
        let (size, source) = (instruction.size(), self.registers[instruction.source]);
        if instruction.class() == ST {
            return self
                .memory
                .store(address, size, sign(instruction.immediate));
        }
        if instruction.mode() != 6 {
            return self.memory.store(address, size, source);
        }
        let old = self.memory.load(address, size)?;
        let mask = u64::MAX >> (64 - size * 8);
        match instruction.immediate {
            // Compare and swap.
            0xf1 => {
                if self.registers[0] & mask == old {
                    self.memory.store(address, size, source)?;
                }
                self.registers[0] = old;
            }
            0xe1 => {
                self.memory.store(address, size, source)?;
                self.registers[instruction.source] = old;
            }
            0 | 1 => {
                self.memory.store(address, size, old.wrapping_add(source))?;
                if instruction.immediate == 1 {
                    self.registers[instruction.source] = old;
                }
            }
            other => bail!("atomic operation {other:#x}"),
        }
        Ok(())
    }

    fn operand(&self, instruction: Instruction) -> u64 {
        if instruction.has_source() {
            self.registers[instruction.source]
        } else {
            sign(instruction.immediate)
        }
    }

    fn compute(&mut self, instruction: Instruction) -> Result<()> {
        let wide = instruction.is_wide();
        let mask = if wide { u64::MAX } else { u32::MAX.into() };
        let left = self.registers[instruction.destination] & mask;
        let right = self.operand(instruction) & mask;
        let bits = if wide { 64 } else { 32 };
        // The lower bits of a count of shifts: 5 or 6.
        #[expect(clippy::cast_possible_truncation, reason = "at most 63")]
        let count = (right & (bits - 1)) as u32;
        if matches!(instruction.operation(), DIV | MOD) && instruction.offset != 0 {
            bail!("a division of signed numbers");
        }
        let result = match instruction.operation() {
            0 => left.wrapping_add(right),
            1 => left.wrapping_sub(right),
            MUL => left.wrapping_mul(right),
            DIV => left.checked_div(right).unwrap_or(0),
            4 => left | right,
            5 => left & right,
            6 => left << count,
            7 => left >> count,
            8 => left.wrapping_neg(),
            MOD => left.checked_rem(right).unwrap_or(left),
            10 => left ^ right,
            MOV => match instruction.offset {
                width @ (8 | 16 | 32) => extend(right, width.unsigned_abs().into()),
                _ => right,
            },
            12 if wide => (left.cast_signed() >> count).cast_unsigned(),
            12 => extend(left, 32)
                .cast_signed()
                .wrapping_shr(count)
                .cast_unsigned(),
            END => {
                let value = self.registers[instruction.destination];
                self.registers[instruction.destination] = swapped(value, instruction);
                return Ok(());
            }
            other => bail!("arithmetic operation {other}"),
        };
        self.registers[instruction.destination] = result & mask;
        Ok(())
    }

    /// True if a jump is taken.
    fn is_taken(&self, instruction: Instruction) -> Result<bool> {
        let (left, right) = (
            self.registers[instruction.destination],
            self.operand(instruction),
        );
        let (left, right) = if instruction.is_wide() {
            (left, right)
        } else {
            (left & u64::from(u32::MAX), right & u64::from(u32::MAX))
        };
        let bits = if instruction.is_wide() { 64 } else { 32 };
        let [signed_left, signed_right] =
            [left, right].map(|word| extend(word, bits).cast_signed());
        Ok(match instruction.operation() {
            JA => true,
            1 => left == right,
            2 => left > right,
            3 => left >= right,
            4 => left & right != 0,
            5 => left != right,
            6 => signed_left > signed_right,
            7 => signed_left >= signed_right,
            10 => left < right,
            11 => left <= right,
            12 => signed_left < signed_right,
            13 => signed_left <= signed_right,
            other => bail!("jump {other}"),
        })
    }

    /// Calls a function of the kernel.
    fn call(&mut self, instruction: Instruction) -> Result<()> {
        let name = self.program.helpers.get(&instruction.immediate);
        let name = name.map_or("?", String::as_str);
        self.registers[0] = if name.contains("ktime_get_ns") {
            self.now
        } else if name.contains("xdp_get_buff_len") {
            self.memory.length
        } else if name.contains("lookup") {
            // No map of prefixes or of bans has this packet's source, and the host has no socket for it.
            0
        } else {
            bail!("the program calls {name} ({})", instruction.immediate);
        };
        *self.counts.calls.entry(name.to_owned()).or_default() += 1;
        Ok(())
    }

    /// Calls a function of the program. Returns its first instruction.
    fn enter(&mut self, number: usize, instruction: Instruction) -> Result<usize> {
        let mut kept = [0; 4];
        kept.copy_from_slice(&self.registers[KEPT]);
        self.callers.push(Caller {
            next: number + 1,
            kept,
            function: self.function,
        });
        self.function = jump(number + 1, instruction.offset.into());
        self.registers[10] = end_of_stack(self.callers.len());
        self.native(FRAME);
        Ok(self.function)
    }

    /// Returns from a function. None at the end of the program.
    fn leave(&mut self) -> Option<usize> {
        self.native(FRAME);
        let caller = self.callers.pop()?;
        self.registers[KEPT].copy_from_slice(&caller.kept);
        self.registers[10] = end_of_stack(self.callers.len());
        self.function = caller.function;
        Some(caller.next)
    }
}

fn jump(next: usize, distance: i32) -> usize {
    next.wrapping_add_signed(distance as isize)
}

fn sign(immediate: i32) -> u64 {
    i64::from(immediate).cast_unsigned()
}

/// The lower `bits` of a word, with their sign.
const fn extend(word: u64, bits: usize) -> u64 {
    ((word << (64 - bits)).cast_signed() >> (64 - bits)).cast_unsigned()
}

/// The lower bytes in the other order, or cut.
fn swapped(value: u64, instruction: Instruction) -> u64 {
    let bits = instruction.immediate.unsigned_abs();
    let cut = value & (u64::MAX >> (64 - bits));
    if instruction.class() == ALU && !instruction.has_source() {
        return cut;
    }
    cut.swap_bytes() >> (64 - bits)
}
