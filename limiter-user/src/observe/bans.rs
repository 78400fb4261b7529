//! The bans of an attachment, and the sources that its limits hold.

use std::{cmp::Reverse, collections::BTreeMap};

use clap::ValueEnum;
use ipnet::IpNet;
use limiter_common::abi;
use limiter_config::lists::show;
use limiter_kernel::{Attachment, Result, ops::bans::BY_JAIL, program::bans::text, sys::clock};
use serde::{Deserialize, Serialize};

use super::readers;

/// One ban.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ban {
    /// The banned address or prefix.
    pub prefix: String,
    /// Seconds until the ban ends; null: it has no end.
    pub left_seconds: Option<f64>,
    /// The origin: `hand` for `limiter ban`, or `fleet` if a fleet shares it.
    pub origin: String,
    /// The reason, as given; may be empty.
    pub reason: String,
    /// Seconds since the ban was made or last renewed.
    pub age_seconds: f64,
    /// Packets that the bans of this prefix dropped, by all origins together. Exact up to 1,024 packets, an estimate above.
    pub dropped_packets: u64,
    /// True if the ban drops nothing, and puts its sources on the list `throttled`.
    pub throttles: bool,
}

impl Ban {
    /// The ban of `prefix` at `now`, in nanoseconds of the kernel's clock. The bans of the prefix dropped `dropped` packets.
    pub fn new(prefix: &IpNet, ban: &abi::Ban, dropped: u64, now: u64) -> Self {
        let until = ban.ends.until;
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        Self {
            prefix: show(prefix),
            left_seconds: (until != 0).then_some(seconds(until.saturating_sub(now))),
            origin: text(&ban.origin),
            reason: text(&ban.reason),
            age_seconds: seconds(now.saturating_sub(ban.made)),
            dropped_packets: dropped,
            throttles: ban.is_throttle != 0,
        }
    }
}

/// Begins the address of a mark, in packaging/fail2ban/limiter.conf.
const MARK: &str = "2001:db8:fa:ba::";

impl Ban {
    fn is_mark(&self) -> bool {
        self.origin.starts_with(BY_JAIL) && self.prefix.starts_with(MARK)
    }
}

/// A source that a limit holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeldSource {
    /// The bucket's key, as in `top`.
    pub source: String,
    /// Name of the limit.
    pub limit: String,
    /// Seconds for which the limit still holds the source.
    pub left_seconds: f64,
}

/// The order of the bans in `bans`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum BanOrder {
    /// By prefix.
    #[default]
    Prefix,
    /// Those with the most dropped packets first.
    Drops,
    /// Those that end first.
    End,
}

/// The output of `bans --json` for one interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bans {
    /// Name of the interface.
    pub interface: String,
    /// The number of bans, also of those that `-n` leaves out.
    pub count: u64,
    /// Marks by which jails of fail2ban notice that limiter was attached anew: bans of addresses that no host has. Only
    /// `--origin` lists them.
    pub marks: u64,
    /// The bans, by default in the order of their prefixes. A prefix has one for each origin that bans it.
    pub bans: Vec<Ban>,
    /// The sources that limits with `hold` refuse until their hold ends.
    pub held: Vec<HeldSource>,
}

impl Bans {
    /// Reads the bans and the held sources of an attachment.
    pub fn new(attachment: &Attachment) -> Result<Self> {
        let now = clock::now()?;
        let mut bans = attachment.bans.at(now)?;
        bans.sort_unstable_by_key(|(prefix, ban)| (*prefix, ban.origin));
        let dropped = attachment.bans.dropped()?;
        let mut held = Vec::new();
        let nat64 = attachment.record.settings.translators();
        let mut readers = readers(attachment)?;
        readers.retain(|reader| reader.limit.hold.is_some());
        if !readers.is_empty() {
            attachment.tables.sets.scan(|_, key, source| {
                let reader = readers.iter().find(|reader| reader.slot == key.slot());
                held.extend(reader.and_then(|reader| {
                    Some(HeldSource {
                        source: reader.limit.key.show(key, &nat64),
                        limit: reader.limit.name.clone(),
                        left_seconds: reader.held(source)?,
                    })
                }));
            });
        }
        held.sort_by(|first, second| first.source.cmp(&second.source));
        let shown = bans.iter().map(|(prefix, ban)| {
            let dropped = dropped.get(prefix).copied().unwrap_or_default();
            Ban::new(prefix, ban, dropped, now)
        });
        Ok(Self {
            interface: attachment.interface.name.clone(),
            marks: 0,
            count: bans.len() as u64,
            bans: shown.collect(),
            held,
        })
    }

    /// Sorts the bans, which are in the order of their prefixes.
    pub fn sort(&mut self, order: BanOrder) {
        match order {
            BanOrder::Prefix => {}
            BanOrder::Drops => self.bans.sort_by_key(|ban| Reverse(ban.dropped_packets)),
            BanOrder::End => {
                let end = |ban: &Ban| ban.left_seconds.unwrap_or(f64::INFINITY);
                self.bans
                    .sort_by(|first, second| end(first).total_cmp(&end(second)));
            }
        }
    }

    /// Keeps the first bans.
    pub fn keep_first(&mut self, most: usize) {
        self.bans.truncate(most);
    }

    /// Counts the marks of fail2ban's jails instead of listing them.
    pub fn leave_marks_out(&mut self) {
        let all = self.bans.len();
        self.bans.retain(|ban| !ban.is_mark());
        self.marks = (all - self.bans.len()) as u64;
        self.count = self.bans.len() as u64;
    }

    /// Keeps the bans of one origin.
    pub fn keep_origin(&mut self, origin: &str) {
        self.bans.retain(|ban| ban.origin == origin);
        self.count = self.bans.len() as u64;
        self.held.clear();
    }
}

/// The number of bans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BanCounts {
    /// Bans that there is room for, one for each prefix and origin.
    pub capacity: u64,
    /// Bans by origin: `hand` for those of `limiter ban`, or `fleet` if a fleet shares them.
    pub by_origin: BTreeMap<String, u64>,
}

impl BanCounts {
    /// Counts the bans of an attachment.
    pub fn new(attachment: &Attachment) -> Result<Self> {
        let mut by_origin = BTreeMap::new();
        for (_, ban) in attachment.bans.at(clock::now()?)? {
            *by_origin.entry(text(&ban.origin)).or_default() += 1;
        }
        Ok(Self {
            capacity: attachment.record.settings.max_bans.into(),
            by_origin,
        })
    }
}
