//! The program's decisions in user space, where it may not be loaded, or must be faster than a system call
//! for each packet: its parser, its arithmetic, its table and its constants, with everything around them written
//! anew.
//! One CPU, which no other one disturbs.

mod bucket;
mod lists;
mod newcomers;
mod table;

use std::collections::BTreeMap;

use ipnet::IpNet;
use limiter_common::{
    counters::{Count, LimitCounters},
    key::SLOTS,
    layout::{Config, Listed},
    policy::{PacketInfo, Parsed, parse},
    rules::{Match, ON_ALLOW, ON_DENY, Ports, flags_may_be, may_be},
    verdict::Reason,
};

use bucket::{Demand, Said};
use lists::Lists;
use newcomers::Newcomers;
use table::Memory;

/// The limiter.
#[derive(Debug)]
pub struct Model {
    config: Box<Config>,
    memory: Memory,
    lists: Lists,
    newcomers: Newcomers,
    figures: Vec<LimitCounters>,
}

/// A packet past several limits.
struct Asked {
    info: PacketInfo,
    now: u64,
    length: u64,
    /// Indices of the limits that match it, in their order.
    matching: Vec<usize>,
}

/// A limit that refused a packet, by its index, and what it said.
type Refusal = (usize, Reason);

impl Model {
    /// With these constants and prefixes, from the moment `begin` (nanoseconds) on. Sockets are not asked.
    #[must_use]
    pub fn new(config: &Config, prefixes: &BTreeMap<IpNet, Listed>, begin: u64) -> Self {
        Self {
            memory: Memory::new(config),
            lists: Lists::new(prefixes),
            newcomers: Newcomers::new(config.newcomers, begin),
            figures: vec![LimitCounters::default(); SLOTS as usize],
            config: Box::new(*config),
        }
    }

    /// What becomes of a frame that had `length` bytes, at the moment `now` (nanoseconds, not 0).
    pub fn offer(&mut self, frame: &[u8], length: u64, now: u64) -> Reason {
        if self.config.plain != 0 {
            self.past_one(frame, length, now)
        } else {
            self.past_several(frame, length, now)
        }
    }

    /// What was counted for the limit in `slot`, on the way past several limits.
    #[must_use]
    pub fn limit(&self, slot: u32) -> LimitCounters {
        let figures = self.figures.get(slot as usize);
        figures.copied().unwrap_or_default()
    }

    /// What is counted: in shadow, what would be dropped is not.
    fn in_force(&self, reason: Reason) -> Reason {
        let shadow = self.config.shadow != 0;
        match reason {
            Reason::Malformed if shadow => Reason::MalformedWouldDrop,
            reason if shadow && !reason.passes() => Reason::WouldDrop,
            reason => reason,
        }
    }

    fn past_one(&mut self, frame: &[u8], length: u64, now: u64) -> Reason {
        let source = match parse(&mut { frame }) {
            Parsed::Ipv4(source) | Parsed::Ipv6(source) => source,
            Parsed::NotIp | Parsed::Arp(_) => return Reason::NotIp,
            unreadable => return self.in_force(self.unreadable(unreadable)),
        };
        let limit = &self.config.limits[0];
        let demand = Demand {
            memory: &self.memory,
            limit,
            tag: limit.mask.key(limit.slot, &source, 0).tag(),
            now,
            length,
        };
        let (said, entry) = match demand.ask(true) {
            Said::Admitted(entry) => (Reason::Admitted, Some(entry)),
            Said::Refused(entry) => (Reason::Limit, Some(entry)),
            Said::New => (demand.add(&mut self.newcomers, true), None),
        };
        let reason = self.in_force(said);
        if let Some(entry) = entry {
            entry.count(reason);
        }
        reason
    }

    fn past_several(&mut self, frame: &[u8], length: u64, now: u64) -> Reason {
        let info = match self.gather(frame) {
            Ok(info) => info,
            Err(reason) => return self.in_force(reason),
        };
        let mut lists = 0;
        if info.control == 0 {
            lists = self.lists.of(&info.source);
            if lists & ON_DENY != 0 {
                return self.in_force(Reason::Deny);
            }
            if lists & ON_ALLOW != 0 {
                return Reason::Allowed;
            }
        }
        let limits = &self.config.limits[..self.config.limits_length as usize];
        let matching = (0..limits.len())
            .filter(|index| holds(&limits[*index].matches, &info, lists))
            .collect();
        let asked = Asked {
            info,
            now,
            length,
            matching,
        };
        match self.decide(&asked) {
            Ok(reason) => self.in_force(reason),
            Err((refused_by, said)) => {
                let reason = self.in_force(said);
                let over = if reason.passes() {
                    Reason::WouldDrop
                } else {
                    Reason::Limit
                };
                self.count_over(&asked, refused_by, over);
                reason
            }
        }
    }

    /// What is to be known of a packet, or why no limit holds it.
    fn gather(&self, mut frame: &[u8]) -> Result<PacketInfo, Reason> {
        let parsed = parse(&mut frame).with_arp(self.config.control != 0);
        let Some(mut info) = parsed.info(&mut frame, self.config.transport != 0) else {
            return Err(self.unreadable(parsed));
        };
        info.control &= self.config.control;
        Ok(info)
    }

    /// The reason for a packet without a source that can be read. One with too many tags never passes.
    fn unreadable(&self, parsed: Parsed) -> Reason {
        match parsed {
            Parsed::NotIp => Reason::NotIp,
            Parsed::Malformed if self.config.malformed_passes != 0 => Reason::MalformedPassed,
            _ => Reason::Malformed,
        }
    }

    fn demand(&self, asked: &Asked, index: usize) -> Demand<'_> {
        let limit = &self.config.limits[index];
        let key = (limit.mask).key(limit.slot, &asked.info.source, asked.info.key_port());
        Demand {
            memory: &self.memory,
            limit,
            tag: key.tag(),
            now: asked.now,
            length: asked.length,
        }
    }

    /// What the limits that match say: the packet is charged to all of them or to none.
    fn decide(&mut self, asked: &Asked) -> Result<Reason, Refusal> {
        if asked.matching.is_empty() {
            return Ok(Reason::Unlimited);
        }
        let several = asked.matching.len() > 1;
        if several {
            self.weigh(asked)?;
        }
        let mut charged = Vec::new();
        let mut over = Vec::new();
        let mut paid = false;
        for index in &asked.matching {
            match self.charge(asked, *index, &mut paid) {
                Reason::Admitted => charged.push(*index),
                _ if self.config.limits[*index].shadow != 0 => over.push(*index),
                said => {
                    for index in charged {
                        self.refund(asked, index);
                    }
                    return Err((*index, said));
                }
            }
        }
        for index in &over {
            self.count_over(asked, *index, Reason::WouldDrop);
        }
        if over.is_empty() {
            Ok(Reason::Admitted)
        } else {
            Ok(Reason::WouldDrop)
        }
    }

    /// Asks each limit before any is charged, and whether all buckets may be made that are not there.
    fn weigh(&mut self, asked: &Asked) -> Result<(), Refusal> {
        let mut new = Vec::new();
        let mut refused_by = None;
        for index in &asked.matching {
            let drops = self.config.limits[*index].shadow == 0;
            match self.demand(asked, *index).ask(false) {
                Said::Refused(_) if drops => return Err((*index, Reason::Limit)),
                Said::Refused(_) | Said::Admitted(_) => {}
                Said::New => {
                    new.push(*index);
                    if drops && refused_by.is_none() {
                        refused_by = Some(*index);
                    }
                }
            }
        }
        let Some(first) = refused_by else {
            return Ok(());
        };
        match new.into_iter().find(|index| !self.may_make(asked, *index)) {
            // The first of those that drop answers for a limit in shadow.
            Some(index) if self.config.limits[index].shadow == 0 => Err((index, Reason::Newcomer)),
            Some(_) => Err((first, Reason::Newcomer)),
            None => Ok(()),
        }
    }

    /// Whether the limit has leave to make a bucket, and room for it.
    fn may_make(&mut self, asked: &Asked, index: usize) -> bool {
        let slot = self.config.limits[index].slot;
        if !self.newcomers.reserve(slot, asked.now) {
            return false;
        }
        let Demand { tag, now, .. } = self.demand(asked, index);
        if !self.memory.make_room(&tag, now) {
            self.newcomers.take(slot);
            return false;
        }
        true
    }

    /// Charges one limit. The first bucket that is made for the packet takes the token for a new source.
    fn charge(&mut self, asked: &Asked, index: usize, paid: &mut bool) -> Reason {
        let demand = self.demand(asked, index);
        let said = match demand.ask(true) {
            Said::Admitted(entry) => {
                entry.count(Reason::Admitted);
                Reason::Admitted
            }
            Said::Refused(_) => Reason::Limit,
            Said::New => {
                let mut newcomers = self.newcomers.clone();
                let said = demand.add(&mut newcomers, !*paid);
                self.newcomers = newcomers;
                *paid |= said == Reason::Admitted;
                said
            }
        };
        if said == Reason::Admitted {
            self.count(index, Reason::Admitted, asked.length, false);
        }
        said
    }

    fn refund(&mut self, asked: &Asked, index: usize) {
        self.demand(asked, index).refund();
        self.count(index, Reason::Admitted, asked.length, true);
    }

    /// Counts the packet for a limit that it is over.
    fn count_over(&mut self, asked: &Asked, index: usize, reason: Reason) {
        if let Some(entry) = self.demand(asked, index).find() {
            entry.count(reason);
        }
        self.count(index, reason, asked.length, false);
    }

    fn count(&mut self, index: usize, reason: Reason, length: u64, back: bool) {
        let slot = self.config.limits[index].slot;
        let Some(figures) = self.figures.get_mut(slot as usize) else {
            return;
        };
        let one = if back {
            Count {
                packets: u64::MAX,
                bytes: length.wrapping_neg(),
            }
        } else {
            Count {
                packets: 1,
                bytes: length,
            }
        };
        let figure = if reason.would_drop() {
            &mut figures.would_drop
        } else if reason.passes() {
            &mut figures.admitted
        } else {
            &mut figures.dropped
        };
        *figure = *figure + one;
    }
}

/// Whether a limit holds the packet, whose source is on `lists`.
fn holds(wanted: &Match, info: &PacketInfo, lists: u32) -> bool {
    info.control == wanted.control
        && (wanted.family == 0 || wanted.family == info.source.family)
        && may_be(wanted.protocol, info.protocol)
        && wanted.fragments & info.fragment != 0
        && (wanted.lists == 0 || wanted.lists & lists != 0)
        && wanted.unless & lists == 0
        && flags_may_be(wanted.flags_mask, wanted.flags, info.flags)
        && ports_hold(&wanted.destination, info.destination_port)
        && ports_hold(&wanted.source, info.source_port)
}

/// A limit without ports holds every packet, also one that has none.
fn ports_hold(ports: &Ports, port: u32) -> bool {
    let ranges = &ports.ranges[..ports.length as usize];
    ranges.is_empty() || ranges.iter().any(|range| range.holds(port))
}
