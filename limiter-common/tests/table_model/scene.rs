//! A table, and what some CPUs do to it at the same time.

use std::cell::Cell;

use limiter_common::{
    arithmetic::bucket::{is_time, ticks},
    table::key::Tag,
};

use crate::{
    cpu::Said,
    explore::{Body, Bus, Explored, Rules, explore},
    memory::Machine,
    world::{BURST, COST, START, Table, World},
};

/// The work of a CPU.
type Work<'a> = Box<dyn Fn(&Table<'_>) -> Vec<Said> + 'a>;

/// A rule that must hold in the end.
type Rule<'a> = Box<dyn Fn(&[u64], &Ends) -> Result<(), String> + 'a>;

/// The results of each CPU.
pub type Ends = [Vec<Said>];

pub struct Scene<'a> {
    pub world: World,
    pub words: Vec<u64>,
    works: Vec<(u32, Work<'a>)>,
    rules: Vec<Rule<'a>>,
}

impl<'a> Scene<'a> {
    pub fn of(world: World) -> Self {
        Self {
            world,
            words: world.words(),
            works: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// As [`World::put`].
    pub fn put(&mut self, set: u32, way: u32, tag: &Tag, word: u64, packets: u64) {
        self.world
            .put(&mut self.words, set, way, tag, word, packets);
    }

    /// As [`World::fill`].
    pub fn fill(&mut self) {
        self.world.fill(&mut self.words);
    }

    /// As [`World::hide`].
    pub fn hide(&mut self, set: u32, sources: u64) {
        self.world.hide(&mut self.words, set, sources);
    }

    /// One more CPU.
    pub fn cpu(&mut self, work: impl Fn(&Table<'_>) -> Vec<Said> + 'a) {
        self.cpu_in(0, work);
    }

    /// One more CPU, whose program has come with a change of quota.
    pub fn cpu_in(&mut self, epoch: u32, work: impl Fn(&Table<'_>) -> Vec<Said> + 'a) {
        self.works.push((epoch, Box::new(work)));
    }

    /// One more rule for the end.
    pub fn rule(&mut self, rule: impl Fn(&[u64], &Ends) -> Result<(), String> + 'a) {
        self.rules.push(Box::new(rule));
    }

    /// The packets of a source that these CPUs admitted, all at the start, are in its bucket, which had been
    /// charged with `before` packets then: no fewer, and at most `beyond` ticks more.
    pub fn all_are_charged(&mut self, tag: &'a Tag, cpus: &'a [usize], before: u64, beyond: u64) {
        let world = self.world;
        self.rule(move |words, ends| {
            let said = |wanted: fn(Said) -> bool| {
                let of_cpu = |&cpu: &usize| ends[cpu].iter().filter(|&&said| wanted(said)).count();
                cpus.iter().map(of_cpu).sum::<usize>() as u64
            };
            let refunded = said(|said| said == Said::Refunded);
            let packets = before + said(Said::is_admitted) - refunded;
            let due = ticks(START + COST * packets);
            let buckets = world.buckets(words, tag);
            let is_right = match buckets[..] {
                // The bucket may have been taken once it was full again.
                [] => {
                    packets == 0 || said(|said| matches!(said, Said::Refunded | Said::Nothing)) > 0
                }
                [word] if packets == 0 => is_time(word) && word <= due + beyond,
                [word] => is_time(word) && (due..=due + beyond).contains(&word),
                _ => false,
            };
            if is_right && packets <= BURST {
                return Ok(());
            }
            Err(format!(
                "{packets} packets of {tag:x?}: buckets {buckets:x?}, and due is {due:x}"
            ))
        });
    }

    /// Goes through everything that may happen, on both machines. Returns how it may have ended.
    pub fn explore(&self) -> Vec<Vec<Vec<Said>>> {
        let mut ends = self.on(Machine::X86);
        for end in self.on(Machine::Arm) {
            if !ends.contains(&end) {
                ends.push(end);
            }
        }
        ends
    }

    /// Explores one machine, if both would take too long.
    pub fn on(&self, machine: Machine) -> Vec<Vec<Vec<Said>>> {
        let began = std::time::Instant::now();
        let world = self.world;
        let sources = world.sources(&self.words) as i64;
        let at_rest = |words: &[u64], ends: &[Vec<Said>]| {
            world.at_rest(words)?;
            if ends
                .iter()
                .flatten()
                .any(|&said| said == Said::ChargedToAnother)
            {
                return Err("admitted without a charge to its own bucket".into());
            }
            let came: i64 = ends.iter().flatten().map(|said| said.came()).sum();
            if world.sources(words) as i64 != sources + came {
                return Err(format!(
                    "{sources} sources and {came} more are not what is there"
                ));
            }
            self.rules.iter().try_for_each(|rule| rule(words, ends))
        };
        let rules = Rules {
            always: &|words| world.always(words),
            at_rest: &at_rest,
            owner: &|words, place| world.owner(words, place),
        };
        let bodies: Vec<Body<'_, Vec<Said>>> = self
            .works
            .iter()
            .map(|(epoch, work)| {
                let body = move |bus: &dyn Bus| {
                    let [changed, seconds, cleared] = [const { Cell::new(0) }; 3];
                    work(&Table {
                        bus,
                        world,
                        epoch: *epoch,
                        changed: &changed,
                        seconds: &seconds,
                        cleared: &cleared,
                    })
                };
                Box::new(body) as Body<'_, _>
            })
            .collect();
        let Explored { states, ends } = explore(machine, &self.words, &rules, &bodies);
        println!(
            "{machine:?}: {states} states, {} ends, {:?}",
            ends.len(),
            began.elapsed()
        );
        ends
    }
}

/// Whether one of them is this.
pub fn is_among(ends: &[Vec<Vec<Said>>], said: &[&[Said]]) -> bool {
    ends.iter()
        .any(|end| end.iter().map(Vec::as_slice).eq(said.iter().copied()))
}
