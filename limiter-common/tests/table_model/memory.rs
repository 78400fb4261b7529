//! Memory that several CPUs share, with the ordering rules of x86-64 or arm64.
//!
//! | access | x86-64 | arm64 |
//! |---|---|---|
//! | successful compare-and-swap | ordered | ordered |
//! | plain write | visible late, in order | visible late, in any order |
//! | addition without a result | ordered | visible late, in any order |
//! | read | the latest visible word | any word since the reader's last compare-and-swap that is no older than a known
//! one |

/// A machine with its memory ordering rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    X86,
    Arm,
}

/// The access of a CPU to a word.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    Load,
    Swap { expected: u64, new: u64 },
    Store(u64),
    Add(u64),
}

/// A write that is not yet visible to other CPUs.
#[derive(Clone, Copy)]
struct Pending {
    cpu: usize,
    place: usize,
    write: Access,
}

/// A word that a CPU may still read after it was overwritten.
#[derive(Clone, Copy)]
struct Old {
    cpu: usize,
    place: usize,
    word: u64,
}

#[derive(Clone)]
pub struct Memory {
    machine: Machine,
    cpus: usize,
    pub words: Vec<u64>,
    pending: Vec<Pending>,
    /// Overwritten words of each place, earliest first.
    old: Vec<Old>,
}

impl Memory {
    pub fn new(machine: Machine, cpus: usize, words: Vec<u64>) -> Self {
        Self {
            machine,
            cpus,
            words,
            pending: Vec::new(),
            old: Vec::new(),
        }
    }

    /// Passes on all words that distinguish states.
    pub fn fingerprint(&self, mut word: impl FnMut(u64)) {
        self.words.iter().for_each(|&value| word(value));
        for &Pending { cpu, place, write } in &self.pending {
            let (kind, value) = match write {
                Access::Add(amount) => (1, amount),
                Access::Store(value) => (2, value),
                Access::Load | Access::Swap { .. } => (3, 0),
            };
            word(((cpu << 32) | (place << 8) | kind) as u64);
            word(value);
        }
        // The order of places does not matter.
        let mut sum = 0_u64;
        for (index, old) in self.old.iter().enumerate() {
            let is_here = |other: &&Old| other.cpu == old.cpu && other.place == old.place;
            let rank = self.old[..index].iter().filter(is_here).count();
            let place = ((rank << 32) | (old.place << 8) | (old.cpu + 1)) as u64;
            let mixed = (old.word ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .wrapping_mul(0xd6e8_feb8_6659_fd93);
            sum = sum.wrapping_add(mixed ^ (mixed >> 31));
        }
        word(sum);
    }

    /// Number of words that the access may read.
    pub fn choices(&self, cpu: usize, place: usize, access: Access) -> usize {
        match access {
            Access::Load if self.forwarded(cpu, place).is_none() => {
                1 + self
                    .old
                    .iter()
                    .filter(|old| old.cpu == cpu && old.place == place)
                    .count()
            }
            _ => 1,
        }
    }

    /// Makes the access; `choice` 0 reads the latest word. Returns the loaded word, or 1 for a successful swap.
    pub fn access(&mut self, cpu: usize, place: usize, access: Access, choice: usize) -> u64 {
        match access {
            Access::Load => self.load(cpu, place, choice),
            Access::Swap { expected, new } => {
                if self.machine == Machine::X86 {
                    self.publish_all(cpu);
                }
                // This CPU's pending writes to this place become visible first.
                self.publish_here(cpu, place);
                if self.words[place] != expected {
                    self.old.retain(|old| old.cpu != cpu || old.place != place);
                    return 0;
                }
                self.publish_all(cpu);
                self.old.retain(|old| old.cpu != cpu);
                self.write(cpu, place, new);
                1
            }
            Access::Add(_) if self.machine == Machine::X86 => {
                self.publish_all(cpu);
                self.apply(Pending {
                    cpu,
                    place,
                    write: access,
                });
                0
            }
            Access::Store(_) | Access::Add(_) => {
                self.pending.push(Pending {
                    cpu,
                    place,
                    write: access,
                });
                0
            }
        }
    }

    fn load(&mut self, cpu: usize, place: usize, choice: usize) -> u64 {
        if let Some(word) = self.forwarded(cpu, place) {
            return word;
        }
        let is_its = |old: &Old| old.cpu == cpu && old.place == place;
        let known = self.old.iter().filter(|old| is_its(old)).count();
        if choice == 0 {
            self.old.retain(|old| !is_its(old));
            return self.words[place];
        }
        // Earlier words cannot be read any more.
        let mut later = known + 1 - choice;
        let mut found = None;
        self.old.retain(|old| {
            if !is_its(old) {
                return true;
            }
            later -= usize::from(later > 0);
            if later == 0 && found.is_none() {
                found = Some(old.word);
            }
            later == 0
        });
        found.unwrap_or(self.words[place])
    }

    /// The last word that this CPU has written there and that is not yet visible to other CPUs.
    fn forwarded(&self, cpu: usize, place: usize) -> Option<u64> {
        let its = |pending: &&Pending| pending.cpu == cpu && pending.place == place;
        let mut word = self.words[place];
        self.pending.iter().find(its)?;
        for pending in self.pending.iter().filter(its) {
            word = written(word, pending.write);
        }
        Some(word)
    }

    /// The writes that may become visible next.
    pub fn publishable(&self) -> Vec<usize> {
        let is_first = |&index: &usize| {
            let this = self.pending[index];
            self.pending[..index].iter().all(|earlier| {
                earlier.cpu != this.cpu
                    || (self.machine == Machine::Arm && earlier.place != this.place)
            })
        };
        (0..self.pending.len()).filter(is_first).collect()
    }

    /// Makes one of these writes visible.
    pub fn publish(&mut self, index: usize) {
        let pending = self.pending.remove(index);
        self.apply(pending);
    }

    pub fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    fn publish_all(&mut self, cpu: usize) {
        while let Some(index) = self.pending.iter().position(|pending| pending.cpu == cpu) {
            self.publish(index);
        }
    }

    fn publish_here(&mut self, cpu: usize, place: usize) {
        let is_its = |pending: &Pending| pending.cpu == cpu && pending.place == place;
        while let Some(index) = self.pending.iter().position(is_its) {
            self.publish(index);
        }
    }

    fn apply(&mut self, pending: Pending) {
        let word = written(self.words[pending.place], pending.write);
        self.write(pending.cpu, pending.place, word);
    }

    fn write(&mut self, writer: usize, place: usize, new: u64) {
        let word = std::mem::replace(&mut self.words[place], new);
        if self.machine == Machine::X86 || word == new {
            return;
        }
        self.old
            .retain(|old| old.cpu != writer || old.place != place);
        for cpu in (0..self.cpus).filter(|&cpu| cpu != writer) {
            self.old.push(Old { cpu, place, word });
        }
    }
}

fn written(word: u64, write: Access) -> u64 {
    match write {
        Access::Store(value) => value,
        Access::Add(amount) => word.wrapping_add(amount),
        Access::Load | Access::Swap { .. } => word,
    }
}
