//! Knowledge of registers and stack.

use crate::instruction::FRAME;

/// Slots of four bytes on the stack.
pub const SLOTS: usize = 128;
/// Bytes of a slot.
const SLOT: i64 = 4;
/// Bytes of the stack.
const BYTES: i64 = 512;
const REGISTERS: usize = 11;

/// A value of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Any value but an address on the stack.
    Unknown,
    /// This number.
    Number(u64),
    /// The address of this byte of the constants.
    Constants(i64),
    /// The address at this distance from the end of the stack.
    Frame(i64),
    /// Any value. It may be an address on the stack.
    AnyFrame,
    /// In a slot: the upper half, in memory, of the value in the slot in front of it.
    Rest,
}

impl Value {
    /// The value of an immediate operand.
    pub fn number_of(immediate: i32) -> Self {
        Self::Number(i64::from(immediate).cast_unsigned())
    }

    /// The number, if it is one.
    pub const fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    const fn may_be_address(self) -> bool {
        matches!(self, Self::Frame(_) | Self::AnyFrame)
    }

    /// The knowledge of a value that is one of two.
    fn or(self, other: Self) -> Self {
        if self == other {
            self
        } else if self.may_be_address() || other.may_be_address() {
            Self::AnyFrame
        } else {
            Self::Unknown
        }
    }
}

/// Values in front of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    registers: [Value; REGISTERS],
    slots: [Value; SLOTS],
}

impl State {
    /// At the beginning of a function. Its arguments are no addresses on its own stack.
    pub const fn at_entry() -> Self {
        let mut registers = [Value::Unknown; REGISTERS];
        registers[FRAME as usize] = Value::Frame(0);
        Self {
            registers,
            slots: [Value::Unknown; SLOTS],
        }
    }

    /// The value of a register.
    pub fn of(&self, register: u8) -> Value {
        let found = self.registers.get(usize::from(register));
        found.copied().unwrap_or(Value::AnyFrame)
    }

    /// Sets a register.
    pub fn set(&mut self, register: u8, value: Value) {
        if let Some(place) = self.registers.get_mut(usize::from(register)) {
            *place = value;
        }
    }

    /// The value of bytes on the stack.
    pub fn load(&self, offset: i64, bytes: usize) -> Value {
        // A part of an address is none.
        let Some(slot) = slot(offset).filter(|_| offset % SLOT == 0) else {
            return Value::Unknown;
        };
        let second = self.slots.get(slot + 1).copied();
        match (bytes, self.slots[slot], second) {
            (8, first, Some(Value::Rest)) => first,
            (8, first, Some(second)) if first.may_be_address() || second.may_be_address() => {
                Value::AnyFrame
            }
            (4, Value::Number(number), second) if second != Some(Value::Rest) => {
                Value::Number(number)
            }
            _ => Value::Unknown,
        }
    }

    /// Stores a value at an address.
    pub fn store(&mut self, address: Value, offset: i64, bytes: usize, value: Value) {
        match address {
            Value::Frame(first) => {
                let first = first + offset;
                let slots = slots_of(first, bytes);
                self.write(slots, value.may_be_address());
                let Some(slot) = slot(first).filter(|_| first % SLOT == 0) else {
                    return;
                };
                match (bytes, value) {
                    (8, value) if slot + 1 < SLOTS => {
                        self.slots[slot] = value;
                        self.slots[slot + 1] = Value::Rest;
                    }
                    (4, Value::Number(number)) => {
                        self.slots[slot] = Value::Number(number & u64::from(u32::MAX));
                    }
                    _ => {}
                }
            }
            Value::AnyFrame => self.write(u128::MAX, true),
            _ => {}
        }
    }

    /// Something unknown is written to these slots. `addresses`: maybe addresses on the stack.
    fn write(&mut self, slots: u128, addresses: bool) {
        for index in 0..SLOTS {
            if slots >> index & 1 == 0 {
                continue;
            }
            // The halves of a value go together.
            let is_rest = self.slots[index] == Value::Rest && index > 0;
            let is_first = self.slots.get(index + 1) == Some(&Value::Rest);
            let halves = [
                is_rest.then(|| index - 1),
                Some(index),
                is_first.then_some(index + 1),
            ];
            let touched = halves.into_iter().flatten();
            let may_be = |slot: usize| self.slots[slot].may_be_address();
            let addresses = addresses || touched.clone().any(may_be);
            for slot in touched {
                self.slots[slot] = if addresses {
                    Value::AnyFrame
                } else {
                    Value::Unknown
                };
            }
        }
    }

    /// Calls a helper or a function. `is_checked`: the verifier lets it reach only the memory that its arguments point
    /// to, from there on, and it stores no addresses. Otherwise, it may write to the whole stack.
    pub fn call(&mut self, is_checked: bool) {
        if is_checked {
            for register in 1..=5 {
                match self.of(register) {
                    Value::Frame(first) => self.write(slots_from(first), false),
                    Value::AnyFrame => self.write(u128::MAX, false),
                    _ => {}
                }
            }
        } else {
            self.write(u128::MAX, true);
        }
        for register in 0..=5 {
            self.set(register, Value::Unknown);
        }
        if !is_checked {
            self.set(0, Value::AnyFrame);
        }
    }

    /// Adds another way to this place. Returns true if less is known now.
    pub fn join(&mut self, other: &Self) -> bool {
        let mut changed = false;
        let mut put = |value: &mut Value, joined: Value| {
            changed |= joined != *value;
            *value = joined;
        };
        for (value, other) in self.registers.iter_mut().zip(other.registers) {
            put(value, value.or(other));
        }
        for slot in 0..SLOTS {
            let [mine, other] = [&self.slots, &other.slots].map(|slots| {
                let is_first = slots.get(slot + 1) == Some(&Value::Rest);
                (slots[slot], is_first)
            });
            // A value of eight bytes and one of four are not the same, whatever they are.
            let joined = match mine.0.or(other.0) {
                Value::Number(_) if mine.1 != other.1 => Value::Unknown,
                joined => joined,
            };
            put(&mut self.slots[slot], joined);
        }
        changed
    }

    /// The lowest place of the stack whose address is in a register or on the stack; 0 if none is.
    pub fn lowest_address(&self) -> i64 {
        let values = self.registers.iter().chain(&self.slots);
        let addresses = values.map(|value| match value {
            Value::Frame(offset) => *offset,
            Value::AnyFrame => -BYTES,
            _ => 0,
        });
        addresses.min().unwrap_or(0)
    }
}

/// The slot that begins at this distance from the end of the stack.
fn slot(offset: i64) -> Option<usize> {
    if !(-BYTES..0).contains(&offset) {
        return None;
    }
    usize::try_from((offset + BYTES) / SLOT).ok()
}

/// Bits of the slots from this distance from the end of the stack on.
pub fn slots_from(offset: i64) -> u128 {
    slots_of(offset.max(-BYTES), 512)
}

/// Bits of the slots that so many bytes lie in, from this distance from the end of the stack on.
pub fn slots_of(offset: i64, bytes: usize) -> u128 {
    let bytes = i64::try_from(bytes).unwrap_or(BYTES);
    let first = (offset + BYTES).clamp(0, BYTES) / SLOT;
    let end = (offset.saturating_add(bytes) + BYTES).clamp(0, BYTES);
    let end = (end + SLOT - 1) / SLOT;
    let below = |slot: i64| match slot {
        128 => u128::MAX,
        slot => (1 << slot) - 1,
    };
    below(end.max(first)) & !below(first)
}
