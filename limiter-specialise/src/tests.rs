//! A specialised function does what the original one does.

use fastrand::Rng;

use crate::{
    function::{Function, Target},
    instruction::{
        ADD, ALU32, ALU64, AND, ARSH, BY_REGISTER, CALL, DIV, FRAME, Instruction, JEQ, JGE, JGT,
        JLE, JLT, JNE, JSET, JSGE, JSGT, JSLE, JSLT, JUMP, JUMP32, LOAD, LOAD_WORD, LSH, MOD, MOV,
        MUL, NEG, OR, RSH, STORE, STORE_NUMBER, SUB, XOR,
    },
    jumps::compact,
    number::{computed, is_taken},
    room::with_room,
};

/// Addresses of the memory that the functions use. The lower half of one is no address.
const STACK: u64 = 0x7000_1000_0000;
const CONSTANTS: u64 = 0x2000_0000;
const MEMORY: u64 = 0x3000_0000;
const WIDE: u8 = 0x18;
const BYTES: [(u8, usize); 4] = [(0x10, 1), (0x08, 2), (0x00, 4), (WIDE, 8)];
/// Bytes of the stack that the functions use.
const USED: i16 = 32;

/// A function under test.
#[derive(Clone, Default)]
struct Case {
    code: Vec<Instruction>,
    targets: Vec<Option<Target>>,
    constants: Vec<u8>,
}

impl Case {
    fn put(&mut self, code: u8, destination: u8, source: u8, offset: i16, immediate: i32) {
        self.code.push(Instruction {
            code,
            destination,
            source,
            offset,
            immediate,
        });
        self.targets.push(None);
    }

    fn put_word(&mut self, destination: u8, target: Target) {
        self.put(LOAD_WORD, destination, 0, 0, 0);
        self.put(0, 0, 0, 0, 0);
        let index = self.targets.len() - 2;
        self.targets[index] = Some(target);
    }

    fn specialised(&self) -> Self {
        let (code, places) = with_room(&self.code).expect("jumps are short");
        let mut case = Self {
            targets: vec![None; code.len()],
            code,
            constants: self.constants.clone(),
        };
        for (place, target) in places.iter().zip(&self.targets) {
            case.targets[*place] = *target;
        }
        let targets = case.targets.clone();
        let mut function = Function {
            code: &mut case.code,
            targets: &targets,
            constants: &self.constants,
        };
        let left = function.specialise().expect("jumps stay within");
        let targets = case
            .targets
            .into_iter()
            .zip(&left)
            .filter(|(_, left)| **left);
        case.targets = targets.map(|(target, _)| target).collect();
        compact(&mut case.code, &left).expect("jumps are short");
        case
    }

    fn codes(&self) -> Vec<u8> {
        self.code
            .iter()
            .map(|instruction| instruction.code)
            .collect()
    }
}

/// The effects of a function: its result, the memory behind it, and the arguments of its calls.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    result: u64,
    memory: Vec<u8>,
    calls: Vec<[u64; 5]>,
}

struct Machine<'a> {
    case: &'a Case,
    registers: [u64; 11],
    stack: Vec<u8>,
    memory: Vec<u8>,
    calls: Vec<[u64; 5]>,
}

impl Machine<'_> {
    fn run(case: &Case, memory: &[u8]) -> Done {
        let mut registers = [0xdead; 11];
        registers[usize::from(FRAME)] = STACK + 512;
        let mut machine = Machine {
            case,
            registers,
            stack: vec![0xaa; 512],
            memory: memory.to_vec(),
            calls: Vec::new(),
        };
        let mut index = 0;
        while let Some(next) = machine.step(index) {
            index = next;
        }
        Done {
            result: machine.registers[0],
            memory: machine.memory,
            calls: machine.calls,
        }
    }

    fn bytes(&mut self, address: u64, bytes: usize) -> &mut [u8] {
        let (area, start) = match address {
            STACK.. => (&mut self.stack, STACK),
            _ => (&mut self.memory, MEMORY),
        };
        let first = usize::try_from(address - start).unwrap();
        &mut area[first..first + bytes]
    }

    fn load(&mut self, address: u64, bytes: usize) -> u64 {
        let mut word = [0; 8];
        let found = if (CONSTANTS..MEMORY).contains(&address) {
            let first = usize::try_from(address - CONSTANTS).unwrap();
            &self.case.constants[first..first + bytes]
        } else {
            self.bytes(address, bytes)
        };
        word[..bytes].copy_from_slice(found);
        u64::from_le_bytes(word)
    }

    fn step(&mut self, index: usize) -> Option<usize> {
        let instruction = self.case.code[index];
        let register = |number: u8| usize::from(number);
        let (destination, source) = (
            register(instruction.destination),
            register(instruction.source),
        );
        let immediate = i64::from(instruction.immediate).cast_unsigned();
        let second = if instruction.is_by_register() {
            self.registers[source]
        } else {
            immediate
        };
        let first = self.registers[destination];
        let offset = i64::from(instruction.offset);
        if instruction.is_exit() {
            return None;
        }
        if instruction.is_call() {
            let arguments: [u64; 5] = self.registers[1..6].try_into().unwrap();
            self.calls.push(arguments);
            let number = self.calls.len() as u64 * 0x0101_0101;
            for address in arguments {
                if (STACK..STACK + 512).contains(&address) {
                    let bytes = usize::try_from(STACK + 512 - address).unwrap().min(8);
                    self.bytes(address, bytes)
                        .copy_from_slice(&number.to_le_bytes()[..bytes]);
                }
            }
            self.registers[0] = number;
            return Some(index + 1);
        }
        if instruction.is_jump() {
            let is_taken =
                !instruction.is_conditional() || is_taken(instruction, first, second).unwrap();
            let next = index + 1;
            return Some(if is_taken {
                next.checked_add_signed(instruction.offset.into()).unwrap()
            } else {
                next
            });
        }
        if instruction.code == LOAD_WORD {
            self.registers[destination] = match self.case.targets[index] {
                Some(Target::Constants(place)) => CONSTANTS.wrapping_add_signed(place),
                Some(_) => MEMORY,
                None => {
                    let [lower, upper] = [index, index + 1]
                        .map(|index| u64::from(self.case.code[index].immediate.cast_unsigned()));
                    upper << u32::BITS | lower
                }
            };
            return Some(index + 2);
        }
        if let Some(bytes) = instruction.moved() {
            match instruction.class() {
                LOAD => {
                    let address = second_address(self.registers[source], offset);
                    self.registers[destination] = self.load(address, bytes);
                }
                class => {
                    let value = if class == STORE {
                        self.registers[source]
                    } else {
                        immediate
                    };
                    let place = self.bytes(second_address(first, offset), bytes);
                    place.copy_from_slice(&value.to_le_bytes()[..bytes]);
                }
            }
            return Some(index + 1);
        }
        self.registers[destination] = if instruction.operation() == MOV {
            if instruction.class() == ALU64 {
                second
            } else {
                second & 0xffff_ffff
            }
        } else {
            computed(instruction, first, second).unwrap()
        };
        Some(index + 1)
    }
}

fn second_address(address: u64, offset: i64) -> u64 {
    address.wrapping_add_signed(offset)
}

/// A random function. Each line of it is one or several instructions; jumps lead to the beginning of a line.
fn random(rng: &mut Rng) -> Case {
    let mut case = Case {
        constants: (0..64)
            .map(|_| *rng.choice(&[0, 0, 1, 3, 0xff]).unwrap())
            .collect(),
        ..Case::default()
    };
    // Every register and all of the stack have a value that is not known.
    for register in 0..10 {
        case.put_word(register, Target::Other);
        case.put(
            LOAD | 0x60 | WIDE,
            register,
            register,
            i16::from(register) * 8,
            0,
        );
    }
    for place in (-USED..0).step_by(8) {
        case.put(STORE | 0x60 | WIDE, FRAME, rng.u8(0..10), place, 0);
    }
    let mut lines = Vec::new();
    let mut jumps = Vec::new();
    for _ in 0..rng.usize(5..60) {
        lines.push(case.code.len());
        line(&mut case, rng, &mut jumps);
    }
    lines.push(case.code.len());
    // Some of the registers are seen.
    case.put_word(9, Target::Other);
    for register in 0..9 {
        if rng.bool() {
            case.put(STORE | 0x60 | WIDE, 9, register, i16::from(register) * 8, 0);
        }
    }
    case.put(JUMP | 0x90, 0, 0, 0, 0);
    for jump in jumps {
        let behind: Vec<_> = lines.iter().copied().filter(|line| *line > jump).collect();
        let target = behind[rng.usize(0..behind.len().min(4))];
        case.code[jump].offset = i16::try_from(target - jump - 1).unwrap();
    }
    case
}

fn line(case: &mut Case, rng: &mut Rng, jumps: &mut Vec<usize>) {
    let (register, other) = (rng.u8(0..10), rng.u8(0..10));
    let (size, bytes) = *rng.choice(&BYTES).unwrap();
    let width = i16::try_from(bytes).unwrap();
    let place = -USED + width * rng.i16(0..USED / width);
    let immediate = *rng.choice(&[0, 1, -1, 7, 255, i32::MIN, i32::MAX]).unwrap();
    match rng.u8(0..12) {
        0 | 1 => {
            case.put_word(register, Target::Constants(rng.i64(0..16)));
            case.put(ALU64 | ADD, register, 0, 0, rng.i32(0..16));
            case.put(LOAD | 0x60 | size, other, register, rng.i16(0..16), 0);
        }
        2 | 3 => {
            let operations = [
                ADD, SUB, MUL, DIV, OR, AND, LSH, RSH, NEG, MOD, XOR, MOV, ARSH,
            ];
            let operation = *rng.choice(&operations).unwrap();
            let class = *rng.choice(&[ALU32, ALU64]).unwrap();
            if matches!(operation, LSH | RSH | ARSH) {
                case.put(class | operation, register, 0, 0, rng.i32(0..32));
            } else if matches!(operation, DIV | MOD) {
                case.put(class | operation, register, 0, 0, 7);
            } else if rng.bool() {
                case.put(class | operation | BY_REGISTER, register, other, 0, 0);
            } else {
                case.put(class | operation, register, 0, 0, immediate);
            }
        }
        4 => case.put(STORE | 0x60 | size, FRAME, register, place, 0),
        5 => case.put(LOAD | 0x60 | size, register, FRAME, place, 0),
        6 => {
            case.put(ALU64 | MOV | BY_REGISTER, register, FRAME, 0, 0);
            case.put(ALU64 | ADD, register, 0, 0, place.into());
            if register != other && rng.bool() {
                case.put(STORE | 0x60 | size, register, other, 0, 0);
            } else {
                case.put(LOAD | 0x60 | size, other, register, 0, 0);
            }
        }
        7 if register != other => {
            // An address that is not known, on the stack.
            case.put(ALU64 | AND, other, 0, 0, 0x18);
            case.put(ALU64 | MOV | BY_REGISTER, register, FRAME, 0, 0);
            case.put(ALU64 | ADD, register, 0, 0, i32::from(-USED));
            case.put(ALU64 | ADD | BY_REGISTER, register, other, 0, 0);
            case.put(STORE | 0x60 | size, register, other, 0, 0);
        }
        8 => {
            for argument in 1..=5 {
                case.put(ALU64 | MOV, argument, 0, 0, immediate);
            }
            if rng.bool() {
                case.put(ALU64 | MOV | BY_REGISTER, 1, FRAME, 0, 0);
                case.put(ALU64 | ADD, 1, 0, 0, place.into());
            }
            case.put(JUMP | CALL, 0, 0, 0, 6);
            for argument in 1..=5 {
                case.put(ALU64 | MOV, argument, 0, 0, immediate);
            }
        }
        9 if register != other => {
            case.put_word(register, Target::Other);
            case.put(STORE | 0x60 | size, register, other, rng.i16(0..72), 0);
        }
        _ => {
            let operations = [JEQ, JGT, JGE, JSET, JNE, JSGT, JSGE, JLT, JLE, JSLT, JSLE];
            let class = *rng.choice(&[JUMP, JUMP32]).unwrap();
            jumps.push(case.code.len());
            let operation = class | *rng.choice(&operations).unwrap();
            if rng.bool() {
                case.put(operation | BY_REGISTER, register, other, 0, 0);
            } else {
                case.put(operation, register, 0, 0, immediate);
            }
        }
    }
}

#[test]
fn specialised_function_does_the_same() {
    let (mut shorter, mut all) = (0, 0);
    for seed in 0..20_000 {
        let mut rng = Rng::with_seed(seed);
        let case = random(&mut rng);
        let memory: Vec<u8> = (0..80).map(|_| rng.u8(..)).collect();
        let specialised = case.specialised();
        let [before, after] = [&case, &specialised].map(|case| Machine::run(case, &memory));
        assert_eq!(before, after, "seed {seed}");
        refuses_nothing(&specialised, seed);
        all += case.code.len();
        shorter += specialised.code.len();
    }
    println!("{all} instructions, {shorter} left");
    assert!(shorter * 10 < all * 9, "{shorter} of {all}");
}

/// The verifier refuses instructions to which nothing leads, and a function that runs past its end.
fn refuses_nothing(case: &Case, seed: u64) {
    let mut led_to = vec![false; case.code.len()];
    let mut waiting = vec![0];
    while let Some(index) = waiting.pop() {
        assert!(index < case.code.len(), "seed {seed}: past the end");
        if std::mem::replace(&mut led_to[index], true) {
            continue;
        }
        let instruction = case.code[index];
        if instruction.code == LOAD_WORD {
            led_to[index + 1] = true;
            waiting.push(index + 2);
            continue;
        }
        if instruction.is_jump() {
            let next = index + 1;
            waiting.push(next.checked_add_signed(instruction.offset.into()).unwrap());
        }
        if !instruction.is_exit() && (!instruction.is_jump() || instruction.is_conditional()) {
            waiting.push(index + 1);
        }
    }
    let missing = led_to.iter().position(|led_to| !led_to);
    assert_eq!(missing, None, "seed {seed}");
    let last = *case.code.last().unwrap();
    assert!(
        last.is_exit() || last.is_jump() && !last.is_conditional(),
        "seed {seed}"
    );
}

#[test]
fn what_is_switched_off_costs_nothing() {
    // if constants[4] & 2 != 0 { memory[0] = 1 }; return 3
    let mut case = Case {
        constants: vec![0, 0, 0, 0, 5, 0, 0, 0],
        ..Case::default()
    };
    case.put_word(1, Target::Constants(0));
    case.put(STORE | 0x60 | WIDE, FRAME, 1, -8, 0);
    case.put(LOAD | 0x60 | WIDE, 2, FRAME, -8, 0);
    case.put(LOAD | 0x60, 3, 2, 4, 0);
    case.put(ALU32 | AND, 3, 0, 0, 2);
    case.put(JUMP | JEQ, 3, 0, 3, 0);
    case.put_word(4, Target::Other);
    case.put(STORE_NUMBER | 0x60, 4, 0, 0, 1);
    case.put(ALU64 | MOV, 0, 0, 0, 3);
    case.put(JUMP | 0x90, 0, 0, 0, 0);
    assert_eq!(case.specialised().codes(), [ALU32 | MOV, JUMP | 0x90]);
    case.constants[4] = 2;
    let codes = [LOAD_WORD, 0, STORE_NUMBER | 0x60, ALU32 | MOV, JUMP | 0x90];
    assert_eq!(case.specialised().codes(), codes);
}

#[test]
fn constant_of_64_bits_is_in_the_instruction() {
    let mut case = Case {
        constants: vec![1, 2, 3, 4, 5, 6, 7, 0x88],
        ..Case::default()
    };
    case.put_word(1, Target::Constants(0));
    // A way around the load leads right behind it.
    case.put(LOAD | 0x60 | WIDE, 0, FRAME, -8, 0);
    case.put(JUMP | JEQ, 0, 0, 1, 0);
    case.put(LOAD | 0x60 | WIDE, 0, 1, 0, 0);
    case.put(JUMP | 0x90, 0, 0, 0, 0);
    let specialised = case.specialised();
    let codes = [LOAD | 0x60 | WIDE, JUMP | JEQ, LOAD_WORD, 0, JUMP | 0x90];
    assert_eq!(specialised.codes(), codes);
    assert_eq!(specialised.code[1].offset, 2);
    let halves = [2, 3].map(|index| specialised.code[index].immediate.cast_unsigned());
    assert_eq!(halves, [0x0403_0201, 0x8807_0605]);
}

#[test]
fn called_function_may_have_written_to_the_stack() {
    let mut case = Case::default();
    case.put(ALU64 | MOV, 6, 0, 0, 7);
    case.put(STORE | 0x60 | WIDE, FRAME, 6, -8, 0);
    case.put(STORE | 0x60 | WIDE, FRAME, 6, -24, 0);
    case.put(ALU64 | MOV | BY_REGISTER, 1, FRAME, 0, 0);
    case.put(ALU64 | ADD, 1, 0, 0, -16);
    case.put(JUMP | CALL, 0, 0, 0, 6);
    case.put(LOAD | 0x60 | WIDE, 0, FRAME, -8, 0);
    case.put(LOAD | 0x60 | WIDE, 6, FRAME, -24, 0);
    case.put(ALU64 | ADD | BY_REGISTER, 0, 6, 0, 0);
    case.put(JUMP | 0x90, 0, 0, 0, 0);
    // It cannot reach what lies below the address that it got.
    let end = [LOAD | 0x60 | WIDE, ALU64 | ADD, JUMP | 0x90];
    assert_eq!(case.specialised().codes()[5..], end);
}
