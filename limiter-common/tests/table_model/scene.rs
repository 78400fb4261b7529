//! A table, and the work of some CPUs on it at the same time.

use std::{cell::Cell, ops::Deref};

use limiter_common::{
    arithmetic::bucket::{is_time, ticks},
    table::key::SourceKey,
};

use crate::{
    cpu::{
        Outcome::{self, ChargedToAnother, Nothing, Refunded},
        Packet, forget,
    },
    explore::{Body, Bus, Explored, Rules, explore},
    memory::Machine,
    table::Table,
    world::{BURST, COST, START, World},
};

/// The work of a CPU.
type Work = Box<dyn Fn(&Table<'_>) -> Vec<Outcome>>;

/// A rule that must hold in the end.
type Rule = Box<dyn Fn(&[u64], &[Vec<Outcome>]) -> bool>;

/// All possible ends of an exploration, each with the outcomes of each CPU.
#[derive(Debug, PartialEq)]
pub struct Ends(Vec<Vec<Vec<Outcome>>>);

impl Ends {
    /// Panics unless `end` is among the ends.
    pub fn contain(&self, end: &[&[Outcome]]) {
        let is_it =
            |other: &Vec<Vec<Outcome>>| other.iter().map(Vec::as_slice).eq(end.iter().copied());
        assert!(self.iter().any(is_it), "{end:?} is not among {self:?}");
    }

    /// Panics unless `end` is the only end.
    pub fn are(&self, end: &[&[Outcome]]) {
        self.contain(end);
        assert_eq!(self.len(), 1, "{self:?}");
    }

    /// Panics if all packets are admitted in one of the ends.
    pub fn never_admit_all(&self) {
        let all =
            |end: &Vec<Vec<Outcome>>| end.iter().flatten().all(|outcome| outcome.is_admitted());
        assert!(!self.iter().any(all), "{self:?}");
    }
}

impl Deref for Ends {
    type Target = [Vec<Vec<Outcome>>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

pub struct Scene {
    pub world: World,
    pub words: Vec<u64>,
    works: Vec<(u32, Work)>,
    rules: Vec<(&'static str, Rule)>,
}

impl Scene {
    pub fn of(world: World) -> Self {
        Self {
            world,
            words: world.words(),
            works: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// A full table with these sources, each with one packet: set, entry, key, TAT.
    pub fn with<const N: usize>(world: World, sources: [(u32, u32, SourceKey, u64); N]) -> Self {
        let mut scene = Self::of(world);
        for (set, way, tag, word) in sources {
            scene.put(set, way, tag, word, 1);
        }
        scene.fill();
        scene
    }

    pub fn put(&mut self, set: u32, way: u32, tag: SourceKey, word: u64, packets: u64) {
        self.world
            .put(&mut self.words, set, way, &tag, word, packets);
    }

    pub fn fill(&mut self) {
        self.world.fill(&mut self.words);
    }

    pub fn hide(&mut self, set: u32, sources: u64) {
        self.world.hide(&mut self.words, set, sources);
    }

    /// Adds a CPU.
    pub fn cpu(&mut self, work: impl Fn(&Table<'_>) -> Vec<Outcome> + 'static) {
        self.cpu_in(0, work);
    }

    /// Adds a CPU with a program of this epoch.
    pub fn cpu_in(&mut self, epoch: u32, work: impl Fn(&Table<'_>) -> Vec<Outcome> + 'static) {
        self.works.push((epoch, Box::new(work)));
    }

    /// Adds a CPU with a packet of each source in turn.
    pub fn sends<const N: usize>(&mut self, tags: [SourceKey; N]) {
        self.sends_in(0, tags);
    }

    /// Adds a CPU with a packet of each source, and a program of this epoch.
    pub fn sends_in<const N: usize>(&mut self, epoch: u32, tags: [SourceKey; N]) {
        self.cpu_in(epoch, move |table| {
            tags.map(|tag| Packet { tag, now: START }.pass(table))
                .into()
        });
    }

    /// Adds a CPU with packets at these moments.
    pub fn sends_at<const N: usize>(&mut self, packets: [(SourceKey, u64); N]) {
        self.cpu(move |table| {
            packets
                .map(|(tag, now)| Packet { tag, now }.pass(table))
                .into()
        });
    }

    /// Adds a CPU that only adds each source in turn.
    pub fn brings_in<const N: usize>(&mut self, tags: [SourceKey; N]) {
        self.cpu(move |table| {
            tags.map(|tag| Packet { tag, now: START }.charge_new_outcome(table))
                .into()
        });
    }

    /// Adds a CPU that resets a source.
    pub fn forgets(&mut self, tag: SourceKey) {
        self.cpu(move |table| vec![forget(table, &tag)]);
    }

    /// Adds a CPU with a packet for each source. Each bucket is full at first and is charged with its packet.
    pub fn race<const N: usize>(&mut self, tags: [SourceKey; N]) {
        for tag in tags {
            self.sends([tag]);
            self.all_are_charged(tag, &[self.works.len() - 1], 0, 0);
        }
    }

    /// Adds a rule for the end.
    pub fn rule(
        &mut self,
        name: &'static str,
        rule: impl Fn(&[u64], &[Vec<Outcome>]) -> bool + 'static,
    ) {
        self.rules.push((name, Box::new(rule)));
    }

    /// Adds the rule that memory is unchanged in the end.
    pub fn changes_nothing(&mut self) {
        let before = self.words.clone();
        self.rule("nothing changes", move |words, _| words == before);
    }

    /// Adds the rule that the bucket of a source is charged with all packets that these CPUs admitted, and with at most
    /// `beyond` ticks more. At the start it was charged with `before` packets.
    pub fn all_are_charged(&mut self, tag: SourceKey, cpus: &[usize], before: u64, beyond: u64) {
        let (world, cpus) = (self.world, cpus.to_vec());
        self.rule(
            "all admitted packets of a source are charged",
            move |words, ends| {
                let outcomes = |wanted: fn(Outcome) -> bool| {
                    let of_cpu =
                        |&cpu: &usize| ends[cpu].iter().filter(|&&outcome| wanted(outcome)).count();
                    cpus.iter().map(of_cpu).sum::<usize>() as u64
                };
                let refunded = outcomes(|outcome| outcome == Refunded);
                let packets = before + outcomes(Outcome::is_admitted) - refunded;
                let due = ticks(START + COST * packets);
                let is_right = match world.buckets(words, &tag)[..] {
                    // The bucket may have been taken once it was full again.
                    [] => {
                        packets == 0
                            || outcomes(|outcome| matches!(outcome, Refunded | Nothing)) > 0
                    }
                    [word] if packets == 0 => is_time(word) && word <= due + beyond,
                    [word] => is_time(word) && (due..=due + beyond).contains(&word),
                    _ => false,
                };
                is_right && packets <= BURST
            },
        );
    }

    /// Explores all orders on both machines. Returns all ends.
    pub fn explore(&self) -> Ends {
        let mut ends = self.on(Machine::X86).0;
        for end in self.on(Machine::Arm).0 {
            if !ends.contains(&end) {
                ends.push(end);
            }
        }
        Ends(ends)
    }

    /// Explores one machine. Both take too long for some scenes.
    pub fn on(&self, machine: Machine) -> Ends {
        let began = std::time::Instant::now();
        let world = self.world;
        let sources = world.sources(&self.words) as i64;
        let at_rest = |words: &[u64], ends: &[Vec<Outcome>]| {
            world.at_rest(words)?;
            if ends
                .iter()
                .flatten()
                .any(|&outcome| outcome == ChargedToAnother)
            {
                return Err("admitted without a charge to its own bucket".into());
            }
            let came: i64 = ends.iter().flatten().map(|outcome| outcome.came()).sum();
            if world.sources(words) as i64 != sources + came {
                return Err(format!(
                    "{sources} sources and {came} more are not what is there"
                ));
            }
            match self.rules.iter().find(|(_, rule)| !rule(words, ends)) {
                Some((name, _)) => Err(format!("not so: {name}")),
                None => Ok(()),
            }
        };
        let rules = Rules {
            always: &|words| world.always(words),
            at_rest: &at_rest,
            owner: &|words, place| world.owner(words, place),
        };
        let bodies: Vec<Body<'_, Vec<Outcome>>> = self
            .works
            .iter()
            .map(|(epoch, work)| {
                let body = move |bus: &dyn Bus| {
                    let [changed, removed] = [const { Cell::new(0) }; 2];
                    work(&Table {
                        bus,
                        world,
                        epoch: *epoch,
                        changed: &changed,
                        removed: &removed,
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
        Ends(ends)
    }
}
