//! The program's decisions in user space: needs no privileges, and no system call per packet. Runs the program's policy
//! ([`limiter_common::policy`]) on memory of this process, as a single CPU.

mod new_sources;
mod table;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use ipnet::IpNet;
use limiter_common::{
    abi::{
        Constants, Listed,
        counters::{Count, LimitCounters},
        rules::{CONTROL_BANNED, FIRST, row},
    },
    policy::{
        Direct, Environment, Evaluation, apply_shadow, fast, full, of_lists, parse,
        verdict::{Reason, Verdict},
    },
    table::{
        Added, New, SharedTable as _, WAYS, add,
        entry::Shared as _,
        find,
        key::{Address, SLOTS, SourceKey},
        make_room,
    },
};

use limiter_config::key::ip;
use new_sources::NewSources;
use table::{Memory, ModelEntry};

/// The model of the program.
#[derive(Debug)]
pub struct Model {
    config: Box<Constants>,
    memory: Memory,
    prefixes: BTreeMap<IpNet, Listed>,
    new_sources: NewSources,
    /// The limits' counters, by slot.
    counters: Vec<Cell<LimitCounters>>,
    /// The limits' scales, by slot.
    scales: [u64; SLOTS as usize],
    /// Arrival time of the packet, in nanoseconds.
    now: Cell<u64>,
    /// True: all packets with ports belong to connections of the host's sockets.
    connected: bool,
    /// State of the full path.
    evaluation: RefCell<Box<Evaluation>>,
    /// The limit's reason for the last packet, on the fast path.
    why: Cell<Reason>,
}

impl Model {
    /// Creates a model with these constants and prefixes. Time starts at `begin` (nanoseconds). No packet belongs to a
    /// connection of the host's sockets.
    pub fn new(config: Box<Constants>, prefixes: &BTreeMap<IpNet, Listed>, begin: u64) -> Self {
        Self {
            memory: Memory::new(config.sets),
            prefixes: prefixes.clone(),
            new_sources: NewSources::new(&config, begin),
            counters: vec![Cell::default(); SLOTS as usize],
            scales: [0; SLOTS as usize],
            config,
            now: Cell::new(begin),
            connected: false,
            evaluation: RefCell::new(Box::new(Evaluation::NONE)),
            why: Cell::new(Reason::Admitted),
        }
    }

    /// The model in which all packets with ports belong to connections of the host's sockets.
    pub fn connected(self) -> Self {
        Self {
            connected: true,
            ..self
        }
    }

    /// Decides about a frame of `length` bytes at the time `now` (nanoseconds, not 0).
    pub fn offer(&mut self, frame: &[u8], length: u64, now: u64) -> Reason {
        self.now.set(now);
        let (model, mut frame) = (&&*self, frame);
        if self.config.fast_path != 0 {
            return match fast::source(model, parse(&mut frame)) {
                Ok(source) => {
                    let is_connected = || self.connected;
                    let (reason, why) =
                        fast::evaluate(model, &source, length, is_connected, || FIRST, fast::Pair);
                    self.why.set(why);
                    reason
                }
                Err(reason) => reason,
            };
        }
        let evaluation = &mut *self.evaluation.borrow_mut();
        evaluation.begin(model, length);
        match full::read(model, &mut frame, evaluation, || ()) {
            Ok(()) => full::evaluate(
                model,
                evaluation,
                |packet| self.connected && packet.info.has_ports(),
                |_| false,
                |_| FIRST,
            ),
            Err(reason) => apply_shadow(model, reason),
        }
    }

    /// The reason without shadow, and the slot of the limit that has decided. `reason`: that of the packet offered last.
    pub fn details(&self, reason: Reason) -> (Reason, Option<u32>) {
        let evaluation = self.evaluation.borrow();
        let is_fast = self.config.fast_path != 0;
        let refused = || Reason::from_number(evaluation.refused).unwrap_or(reason);
        let why = match reason {
            Reason::MalformedWouldDrop => Reason::Malformed,
            Reason::WouldDrop if is_fast => self.why.get(),
            Reason::WouldDrop => of_lists(evaluation.lists).unwrap_or_else(refused),
            reason => reason,
        };
        if why.verdict() != Verdict::Refuse {
            return (why, None);
        }
        let index = if is_fast { 0 } else { evaluation.refused_by };
        (why, self.config.limit(index).map(|limit| limit.slot))
    }

    /// Sets the [`limiter_common::arithmetic::scale`] of the limit in `slot`.
    pub fn set_scale(&mut self, slot: u32, word: u64) {
        if let Some(scale) = self.scales.get_mut(slot as usize) {
            *scale = word;
        }
    }

    /// Puts a bucket into the table, with the TAT that it has after `epoch` changes of its quota.
    pub fn put(&mut self, key: &SourceKey, tat: u64, epoch: u32, now: u64) {
        self.now.set(now);
        let _ = (&&*self).insert(key, tat, epoch, now, false);
    }

    /// The limits that match the packet offered last, one bit each, on the full path.
    pub fn matching(&self) -> u64 {
        self.evaluation.borrow().matching
    }

    /// The counters of the limit in `slot`, on the full path.
    pub fn limit(&self, slot: u32) -> LimitCounters {
        let counters = self.counters.get(slot as usize);
        counters.map(Cell::get).unwrap_or_default()
    }

    /// The bits of the lists that decide about an address: those of the longest prefix around it.
    fn look_up(&self, address: &Address) -> u32 {
        if self.prefixes.is_empty() {
            return 0;
        }
        let mut net = IpNet::from(ip(address.family, address.words));
        while let Some((before, listed)) = self.prefixes.range(..=net).next_back() {
            if before.contains(&net) {
                return listed.lists;
            }
            // A prefix around the address that comes before this one is around both.
            while !net.contains(before) {
                let Some(wider) = net.supernet() else {
                    return 0;
                };
                net = wider;
            }
        }
        0
    }

    fn count(&self, slot: u32, reason: Reason, change: Count) {
        let Some(cell) = self.counters.get(slot as usize) else {
            return;
        };
        let mut counters = cell.get();
        let count = if reason.would_drop() {
            &mut counters.would_drop
        } else if reason.passes() {
            &mut counters.admitted
        } else {
            &mut counters.dropped
        };
        *count = *count + change;
        cell.set(counters);
    }
}

impl Direct for &Model {}

impl<'a> Environment for &'a Model {
    type Entry = ModelEntry<'a>;
    type Found = Option<ModelEntry<'a>>;

    fn constants(&self) -> &Constants {
        &self.config
    }

    fn now(&self) -> u64 {
        self.now.get()
    }

    fn lists(&self, evaluation: &Evaluation) -> u32 {
        if evaluation.info.control & CONTROL_BANNED != 0 {
            return 0;
        }
        self.look_up(evaluation.info.peer(self.config.egress))
    }

    fn lists_of(&self, address: &Address) -> u32 {
        self.look_up(address)
    }

    fn entry_number(&self, key: &SourceKey) -> u32 {
        let found = find(self, key, &self.home(key));
        found.map_or(0, |index| index + 1)
    }

    fn entry(&self, number: u32) -> Option<ModelEntry<'a>> {
        let index = number.checked_sub(1)?;
        Some(self.set(index / WAYS)?.at(index % WAYS))
    }

    fn admits(&self, key: &SourceKey, now: u64, budget: u32, take: bool) -> bool {
        let new_sources = &self.new_sources;
        let row = row(key.slot(), budget);
        if !new_sources.reserve(row, now) {
            return false;
        }
        let has_room = budget != FIRST || make_room(self, key, now);
        if take || !has_room {
            new_sources.take(row);
        }
        has_room
    }

    fn was_refused(&self, key: &SourceKey) -> bool {
        let config = &self.config;
        self.new_sources.was_refused(config, key, self.now())
    }

    fn insert(&self, key: &SourceKey, tat: u64, epoch: u32, now: u64, replaces: bool) -> Added {
        let new = New {
            key,
            tat,
            epoch,
            now,
            replaces,
        };
        add(self, &new)
    }

    fn scale(&self, slot: u32) -> u64 {
        self.scales.get(slot as usize).copied().unwrap_or(0)
    }

    fn count_limit(&self, slot: u32, reason: Reason, length: u64) {
        let packet_count = Count {
            packets: 1,
            bytes: length,
        };
        self.count(slot, reason, packet_count);
    }

    fn uncount_limit(&self, slot: u32, length: u64) {
        let negated_count = Count {
            packets: u64::MAX,
            bytes: length.wrapping_neg(),
        };
        self.count(slot, Reason::Admitted, negated_count);
    }
}
