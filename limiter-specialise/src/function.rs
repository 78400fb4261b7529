//! One function: the values that the constants decide, and the instructions that they replace.

use crate::{
    instruction::{
        ADD, ALU32, ALU64, AND, ARSH, BY_REGISTER, DIV, END, Instruction, JA, JUMP32, LOAD,
        LOAD_WORD, LSH, MOD, MOV, MUL, NEG, OR, RSH, STORE, STORE_NUMBER, SUB, XOR, lower, small,
    },
    number::{computed, is_taken},
    values::{State, Value},
};

/// A thing that the relocation of an instruction refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The constants, from this byte on.
    Constants(i64),
    /// A function that the verifier checks by itself.
    GlobalFunction,
    /// Anything else.
    Other,
}

/// The instructions of one function, with what it takes to specialise them.
pub struct Function<'a> {
    /// The instructions. Jumps stay within them.
    pub code: &'a mut [Instruction],
    /// For each instruction, the target of its relocation.
    pub targets: &'a [Option<Target>],
    /// The bytes of the constants.
    pub constants: &'a [u8],
}

impl Function<'_> {
    /// Replaces what the constants decide, and leaves out what nothing uses any more. Returns which instructions are
    /// left. `None` if a jump leaves the function.
    pub fn specialise(&mut self) -> Option<Vec<bool>> {
        let states = self.states()?;
        // The lowest place of the stack whose address is taken: what lies from there on may be read by others.
        let mut taken = 0;
        self.rewrite(&states, &mut taken)?;
        loop {
            let reached = self.reached()?;
            self.remove_unused(&reached, taken)?;
            let next_left = self.next_left(&reached)?;
            if !self.shorten_jumps(&reached, &next_left)? {
                return Some(
                    (0..self.code.len())
                        .map(|index| next_left[index] == index)
                        .collect(),
                );
            }
        }
    }

    /// The state in front of each instruction that a jump leads to, and of the first; `None` where none leads to.
    ///
    /// Boxed: a state has two kilobytes, and few instructions have one.
    fn states(&self) -> Option<Vec<Option<Box<State>>>> {
        let mut states = vec![None; self.code.len()];
        let leads_to = self.led_to()?;
        *states.first_mut()? = Some(Box::new(State::at_entry()));
        let mut waiting = vec![0];
        while let Some(first) = waiting.pop() {
            let mut state = State::clone(states[first].as_ref()?);
            let mut index = first;
            loop {
                let (next, jumped) = self.step(index, &mut state)?;
                for following in [jumped, next.filter(|next| leads_to[*next])] {
                    let Some(following) = following else { continue };
                    if join(states.get_mut(following)?, &state) {
                        waiting.push(following);
                    }
                }
                match next {
                    Some(next) if !leads_to[next] => index = next,
                    _ => break,
                }
            }
        }
        Some(states)
    }

    /// For each instruction, whether a jump leads to it.
    fn led_to(&self) -> Option<Vec<bool>> {
        let mut found = vec![false; self.code.len()];
        for (index, instruction) in self.code.iter().enumerate() {
            if instruction.is_jump() && !self.is_second_half(index) {
                *found.get_mut(self.jump_target(index)?)? = true;
            }
        }
        Some(found)
    }

    /// True for the second half of a [`LOAD_WORD`].
    pub fn is_second_half(&self, index: usize) -> bool {
        index > 0 && self.code[index - 1].code == LOAD_WORD
    }

    /// The place that a jump leads to. `None` if that is in front of the function.
    pub fn jump_target(&self, index: usize) -> Option<usize> {
        (index + 1).checked_add_signed(self.code[index].offset.into())
    }

    /// Applies an instruction to the state in front of it. Returns the instruction behind it and the one that it jumps
    /// to, as far as they can be next.
    fn step(&self, index: usize, state: &mut State) -> Option<(Option<usize>, Option<usize>)> {
        let instruction = self.code[index];
        let next = index + if instruction.code == LOAD_WORD { 2 } else { 1 };
        if instruction.is_exit() {
            return Some((None, None));
        }
        let is_taken = if instruction.is_jump() {
            outcome(instruction, state)
        } else {
            self.apply(index, state);
            Some(false)
        };
        let next = (is_taken != Some(true)).then_some(next);
        if next.is_some_and(|next| next >= self.code.len()) {
            return None;
        }
        let jumped = match is_taken {
            Some(false) => None,
            _ => Some(self.jump_target(index)?),
        };
        Some((next, jumped))
    }

    /// Applies an instruction that does not jump.
    fn apply(&self, index: usize, state: &mut State) {
        let instruction = self.code[index];
        let Instruction {
            destination,
            source,
            offset,
            ..
        } = instruction;
        if instruction.code == LOAD_WORD {
            let value = self.word(index);
            state.set(destination, value);
        } else if instruction.is_call() {
            let is_checked = !instruction.is_call_of_object()
                || self.targets[index] == Some(Target::GlobalFunction);
            state.call(is_checked);
        } else if instruction.is_atomic() {
            state.store(state.of(destination), offset.into(), 8, Value::Unknown);
            if let Some(register) = instruction.fetched() {
                state.set(register, Value::Unknown);
            }
        } else if instruction.is_arithmetic() {
            let value = arithmetic(instruction, state);
            state.set(destination, value);
        } else if let Some(bytes) = instruction.moved() {
            match instruction.class() {
                LOAD => {
                    let value = self.loaded(state, state.of(source), offset.into(), bytes);
                    state.set(destination, value);
                }
                class => {
                    let value = match class {
                        STORE => state.of(source),
                        _ => Value::number_of(instruction.immediate),
                    };
                    state.store(state.of(destination), offset.into(), bytes, value);
                }
            }
        } else if instruction.class() == LOAD {
            state.set(destination, Value::Unknown);
        }
    }

    /// The value of a [`LOAD_WORD`].
    fn word(&self, index: usize) -> Value {
        let upper = self.code.get(index + 1).map_or(0, |half| half.immediate);
        let (lower, upper) = (self.code[index].immediate, upper);
        match self.targets[index] {
            Some(Target::Constants(offset)) => Value::Constants(offset),
            Some(_) => Value::Unknown,
            None if self.code[index].source != 0 => Value::Unknown,
            None => Value::Number(
                u64::from(upper.cast_unsigned()) << u32::BITS | u64::from(lower.cast_unsigned()),
            ),
        }
    }

    /// The value of so many bytes at an address.
    fn loaded(&self, state: &State, address: Value, offset: i64, bytes: usize) -> Value {
        match address {
            Value::Constants(first) => {
                let first = usize::try_from(first + offset).ok();
                let found = first.and_then(|first| self.constants.get(first..first + bytes));
                found.map_or(Value::Unknown, |found| Value::Number(number(found)))
            }
            Value::Frame(first) => state.load(first + offset, bytes),
            Value::AnyFrame if bytes == 8 => Value::AnyFrame,
            _ => Value::Unknown,
        }
    }

    /// Replaces instructions by what the values decide. Lowers `taken` to the lowest place of the stack whose address
    /// is in another register than [`FRAME`](crate::instruction::FRAME).
    fn rewrite(&mut self, states: &[Option<Box<State>>], taken: &mut i64) -> Option<()> {
        for (first, state) in states.iter().enumerate() {
            let Some(state) = state else {
                continue;
            };
            let mut state = State::clone(state);
            let mut index = first;
            loop {
                let before = state.clone();
                let (next, _) = self.step(index, &mut state)?;
                *taken = state.lowest_address().min(*taken);
                let has_room = states.get(index + 1).is_some_and(Option::is_none)
                    && self.code[index + 1] == Instruction::NOTHING;
                self.replace(index, &before, &state, has_room);
                match next {
                    Some(next) if states[next].is_none() => index = next,
                    _ => break,
                }
            }
        }
        Some(())
    }

    /// Replaces one instruction, between these states. `has_room`: the slot behind it is free.
    fn replace(&mut self, index: usize, before: &State, after: &State, has_room: bool) {
        let instruction = self.code[index];
        let Instruction {
            destination,
            source,
            ..
        } = instruction;
        if instruction.is_conditional()
            && let Some(is_taken) = outcome(instruction, before)
        {
            self.code[index] = Instruction {
                offset: if is_taken { instruction.offset } else { 0 },
                ..Instruction::NOTHING
            };
            return;
        }
        let computes = instruction.is_arithmetic()
            || instruction.class() == LOAD && instruction.moved().is_some();
        if computes && let Value::Number(number) = after.of(destination) {
            if let Some(constant) = Instruction::constant(destination, number) {
                self.code[index] = constant;
                return;
            }
            if has_room {
                self.code[index..index + 2]
                    .copy_from_slice(&Instruction::word(destination, number));
                return;
            }
        }
        // The second operand as a number leaves a register less.
        let takes_operand = instruction.is_arithmetic()
            && !matches!(instruction.operation(), END | NEG)
            || instruction.is_conditional();
        if takes_operand
            && instruction.is_by_register()
            && let Value::Number(number) = before.of(source)
            && let Some(immediate) = operand(instruction, number)
        {
            self.code[index] = Instruction {
                code: instruction.code & !BY_REGISTER,
                source: 0,
                immediate,
                ..instruction
            };
        }
        if is_without_effect(self.code[index]) {
            self.code[index] = Instruction::NOTHING;
            return;
        }
        // On the stack, the verifier of Linux 6.1 knows only what was stored from a register.
        if instruction.class() == STORE
            && let Some(bytes) = instruction.moved()
            && !matches!(before.of(destination), Value::Frame(_) | Value::AnyFrame)
            && let Value::Number(number) = before.of(source)
            && let Some(immediate) = stored(number, bytes)
        {
            self.code[index] = Instruction {
                code: instruction.code & !7 | STORE_NUMBER,
                source: 0,
                immediate,
                ..instruction
            };
        }
    }
}

/// Joins a state to the one in front of an instruction. Returns true if that has changed.
fn join(place: &mut Option<Box<State>>, state: &State) -> bool {
    match place {
        Some(place) => place.join(state),
        None => {
            *place = Some(Box::new(state.clone()));
            true
        }
    }
}

/// True if a jump is taken; `None` if that is not known.
fn outcome(instruction: Instruction, state: &State) -> Option<bool> {
    if instruction.operation() == JA {
        return Some(true);
    }
    let first = state.of(instruction.destination).number()?;
    let second = second(instruction, state).number()?;
    is_taken(instruction, first, second)
}

/// The second operand.
fn second(instruction: Instruction, state: &State) -> Value {
    if instruction.is_by_register() {
        state.of(instruction.source)
    } else {
        Value::number_of(instruction.immediate)
    }
}

/// The result of arithmetic.
fn arithmetic(instruction: Instruction, state: &State) -> Value {
    let operation = instruction.operation();
    let first = state.of(instruction.destination);
    let second = second(instruction, state);
    let is_wide = instruction.class() == ALU64;
    if matches!(operation, END) {
        return Value::Unknown;
    }
    if operation == MOV {
        // Other moves extend the sign, which version 3 does not have.
        return match second {
            _ if instruction.offset != 0 => Value::Unknown,
            second if is_wide => second,
            Value::Number(number) => Value::Number(number & u64::from(u32::MAX)),
            _ => Value::Unknown,
        };
    }
    if let (Value::Number(first), Value::Number(second)) = (first, second) {
        return computed(instruction, first, second).map_or(Value::Unknown, Value::Number);
    }
    let moved = second.number().map(u64::cast_signed);
    match (first, operation) {
        (Value::Constants(offset), ADD) if is_wide && moved.is_some() => {
            Value::Constants(offset.wrapping_add(moved.unwrap_or(0)))
        }
        (Value::Frame(offset), ADD) if is_wide && moved.is_some() => {
            Value::Frame(offset.wrapping_add(moved.unwrap_or(0)))
        }
        (_, AND | MUL) if second == Value::Number(0) => Value::Number(0),
        (Value::Number(0), AND | MUL) => Value::Number(0),
        (Value::Frame(_) | Value::AnyFrame, _) if is_wide => Value::AnyFrame,
        _ if is_wide && matches!(second, Value::Frame(_) | Value::AnyFrame) => Value::AnyFrame,
        _ => Value::Unknown,
    }
}

/// The number as the immediate operand of an instruction that has it in a register.
fn operand(instruction: Instruction, number: u64) -> Option<i32> {
    let operation = instruction.operation();
    let is_narrow = matches!(instruction.class(), ALU32 | JUMP32);
    if instruction.is_arithmetic() {
        let bits = if is_narrow { 32 } else { 64 };
        match operation {
            DIV | MOD if number == 0 || instruction.offset != 0 => return None,
            LSH | RSH | ARSH if number >= bits => {
                return None;
            }
            _ => {}
        }
    }
    if is_narrow {
        Some(lower(number))
    } else {
        small(number)
    }
}

/// The number as the immediate operand of a store of so many bytes.
fn stored(number: u64, bytes: usize) -> Option<i32> {
    if bytes == 8 {
        small(number)
    } else {
        Some(lower(number))
    }
}

/// True if arithmetic leaves its register as it is.
fn is_without_effect(instruction: Instruction) -> bool {
    instruction.class() == ALU64
        && !instruction.is_by_register()
        && match instruction.operation() {
            AND => instruction.immediate == -1,
            MUL | DIV => instruction.immediate == 1 && instruction.offset == 0,
            ADD | SUB | OR | XOR => instruction.immediate == 0,
            LSH | RSH | ARSH => instruction.immediate == 0,
            _ => false,
        }
}

/// The number in bytes of this machine's order.
fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    if cfg!(target_endian = "little") {
        word[..bytes.len()].copy_from_slice(bytes);
    } else {
        word[8 - bytes.len()..].copy_from_slice(bytes);
    }
    u64::from_ne_bytes(word)
}
