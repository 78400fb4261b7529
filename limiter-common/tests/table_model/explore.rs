//! Explores every order in which CPUs access shared memory.
//!
//! The next step of a CPU depends only on the values that it has read. Two orders that end in equal memory, with equal
//! values read by each CPU, therefore continue in the same way: each such state is explored once.

use std::{cell::RefCell, collections::HashSet, fmt::Debug, rc::Rc};

use crate::memory::{Access, Machine, Memory};

/// The work of a CPU, and its result.
pub type Body<'a, O> = Box<dyn Fn(&dyn Bus) -> O + 'a>;

type AtRest<'a, O> = &'a dyn Fn(&[u64], &[O]) -> Result<(), String>;

/// The rules that must hold.
pub struct Rules<'a, O> {
    /// The rule that holds at every moment.
    pub always: &'a dyn Fn(&[u64]) -> Result<(), String>,
    /// The rule that holds after all CPUs have ended.
    pub at_rest: AtRest<'a, O>,
    /// The number of the source that owns the word at a place.
    pub owner: &'a dyn Fn(&[u64], usize) -> u64,
}

/// The result of an exploration.
#[derive(Debug)]
pub struct Explored<O> {
    pub states: usize,
    /// The different outcomes of all CPUs.
    pub ends: Vec<Vec<O>>,
}

/// Explores all orders of the CPUs' accesses.
///
/// Reads of words that no CPU writes are not branched on. The exploration restarts whenever a CPU writes a word that
/// was not known as written.
///
/// # Panics
/// If a rule does not hold.
pub fn explore<O: Clone + Debug + PartialEq>(
    machine: Machine,
    words: &[u64],
    rules: &Rules<'_, O>,
    cpus: &[Body<'_, O>],
) -> Explored<O> {
    let mut written = HashSet::new();
    loop {
        let memory = Memory::new(machine, cpus.len(), words.to_vec());
        let before = written.len();
        let search = Search::new(rules, written).through(memory, cpus);
        if search.written.len() == before {
            return Explored {
                states: search.seen.len(),
                ends: search.ends,
            };
        }
        written = search.written;
    }
}

/// Runs a CPU to its end. Queues the steps that other CPUs may take in between.
fn run<O: Clone + Debug + PartialEq>(
    search: &RefCell<Search<'_, O>>,
    state: State<O>,
    number: usize,
    choice: usize,
    body: &Body<'_, O>,
) {
    let found = state.found_by(number);
    let cpu = Cpu {
        number,
        run: RefCell::new(Run {
            search,
            state,
            found,
            next: 0,
            choice,
            is_new: true,
        }),
    };
    let result = body(&cpu);
    let Run {
        mut state, is_new, ..
    } = cpu.run.into_inner();
    if is_new {
        state.results[number] = Some(result);
        search.borrow_mut().visit(&state, Some(number));
    }
}

struct Search<'a, O> {
    rules: &'a Rules<'a, O>,
    /// Places of writes, including failed ones.
    written: HashSet<usize>,
    /// True if a place was written that was not known at the beginning.
    is_void: bool,
    seen: HashSet<[u64; 2]>,
    tasks: Vec<Task<O>>,
    ends: Vec<Vec<O>>,
}

struct Task<O> {
    state: State<O>,
    next: Next,
}

enum Next {
    /// A write becomes visible.
    Publish(usize),
    /// A CPU continues, and reads the word with this number.
    Run { cpu: usize, choice: usize },
}

impl<'a, O: Clone + Debug + PartialEq> Search<'a, O> {
    fn new(rules: &'a Rules<'a, O>, written: HashSet<usize>) -> Self {
        Self {
            rules,
            written,
            is_void: false,
            seen: HashSet::new(),
            tasks: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn through(self, memory: Memory, cpus: &[Body<'_, O>]) -> Self {
        let start = State {
            memory,
            results: vec![None; cpus.len()],
            found: vec![[0; 2]; cpus.len()],
            read: vec![None; cpus.len()],
        };
        let search = RefCell::new(self);
        search.borrow_mut().visit(&start, None);
        while !search.borrow().is_void {
            let Some(task) = search.borrow_mut().tasks.pop() else {
                break;
            };
            match task.next {
                Next::Publish(index) => {
                    let mut state = task.state;
                    state.memory.publish(index);
                    search.borrow_mut().visit(&state, None);
                }
                Next::Run { cpu, choice } => run(&search, task.state, cpu, choice, &cpus[cpu]),
            }
        }
        search.into_inner()
    }

    /// Returns true if the state is new. The caller continues with the CPU `running`.
    fn visit(&mut self, state: &State<O>, running: Option<usize>) -> bool {
        if !self.seen.insert(state.fingerprint()) {
            return false;
        }
        if let Err(error) = (self.rules.always)(&state.memory.words) {
            state.fail(&error);
        }
        for (cpu, result) in state.results.iter().enumerate() {
            if result.is_none() && running != Some(cpu) {
                self.later(state, Next::Run { cpu, choice: 0 });
            }
        }
        for index in state.memory.publishable() {
            self.later(state, Next::Publish(index));
        }
        let ends: Option<Vec<O>> = state.results.iter().cloned().collect();
        if let (Some(result), true) = (ends, state.memory.is_settled()) {
            if let Err(error) = (self.rules.at_rest)(&state.memory.words, &result) {
                state.fail(&error);
            }
            if !self.ends.contains(&result) {
                self.ends.push(result);
            }
        }
        true
    }

    fn later(&mut self, state: &State<O>, next: Next) {
        let state = state.clone();
        self.tasks.push(Task { state, next });
    }
}

/// The state of memory and of all CPUs.
#[derive(Clone)]
struct State<O> {
    memory: Memory,
    results: Vec<Option<O>>,
    /// A hash of the values that each CPU has read.
    found: Vec<[u64; 2]>,
    /// The values that each CPU has read, newest first.
    read: Vec<Option<Rc<Read>>>,
}

struct Read {
    found: u64,
    earlier: Option<Rc<Read>>,
}

impl<O: Debug> State<O> {
    fn remember(&mut self, cpu: usize, found: u64) {
        for (lane, key) in self.found[cpu].iter_mut().zip(LANES) {
            *lane = mixed(*lane, found, key);
        }
        let earlier = self.read[cpu].take();
        self.read[cpu] = Some(Rc::new(Read { found, earlier }));
    }

    fn found_by(&self, cpu: usize) -> Vec<u64> {
        let newest = self.read[cpu].as_deref();
        let all = std::iter::successors(newest, |read| read.earlier.as_deref());
        let mut found: Vec<_> = all.map(|read| read.found).collect();
        found.reverse();
        found
    }

    fn fingerprint(&self) -> [u64; 2] {
        let mut lanes = [0; 2];
        let mut add = |word| {
            for (lane, key) in lanes.iter_mut().zip(LANES) {
                *lane = mixed(*lane, word, key);
            }
        };
        self.memory.fingerprint(&mut add);
        for (found, result) in self.found.iter().zip(&self.results) {
            add(found[0]);
            add(found[1]);
            add(u64::from(result.is_some()));
        }
        lanes
    }

    fn fail(&self, error: &str) -> ! {
        panic!("{error}, with the results {:?}", self.results);
    }
}

const LANES: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];

fn mixed(lane: u64, word: u64, key: u64) -> u64 {
    let mixed = (lane.rotate_left(23) ^ word)
        .wrapping_add(key)
        .wrapping_mul(key);
    mixed ^ (mixed >> 29)
}

struct Cpu<'s, 'a, O> {
    number: usize,
    run: RefCell<Run<'s, 'a, O>>,
}

struct Run<'s, 'a, O> {
    search: &'s RefCell<Search<'a, O>>,
    state: State<O>,
    /// The values that the CPU has already read.
    found: Vec<u64>,
    next: usize,
    /// Number of the word that the next access reads.
    choice: usize,
    /// True if the state was not visited before.
    is_new: bool,
}

/// The memory, as a CPU accesses it.
pub trait Bus {
    /// Returns the loaded word. For a swap: 0 if it failed, otherwise the number of the word's owner plus one.
    fn access(&self, place: usize, access: Access) -> u64;
}

impl<O: Clone + Debug + PartialEq> Bus for Cpu<'_, '_, O> {
    fn access(&self, place: usize, access: Access) -> u64 {
        self.run.borrow_mut().access(self.number, place, access)
    }
}

impl<O: Clone + Debug + PartialEq> Run<'_, '_, O> {
    fn access(&mut self, cpu: usize, place: usize, access: Access) -> u64 {
        let mut search = self.search.borrow_mut();
        if !search.written.contains(&place) {
            if matches!(access, Access::Load) {
                return self.state.memory.words[place];
            }
            search.written.insert(place);
            search.is_void = true;
        }
        if search.is_void {
            // The rest is not checked. It runs to find the other written words.
            self.is_new = false;
        }
        if let Some(&found) = self.found.get(self.next) {
            self.next += 1;
            return found;
        }
        let choice = std::mem::take(&mut self.choice);
        if self.is_new && choice == 0 {
            for choice in 1..self.state.memory.choices(cpu, place, access) {
                search.later(&self.state, Next::Run { cpu, choice });
            }
        }
        let owner = (search.rules.owner)(&self.state.memory.words, place);
        let mut found = self.state.memory.access(cpu, place, access, choice);
        if matches!(access, Access::Swap { .. }) && found != 0 {
            found = owner + 1;
        }
        if self.is_new {
            self.state.remember(cpu, found);
            self.is_new = search.visit(&self.state, Some(cpu));
        }
        found
    }
}
