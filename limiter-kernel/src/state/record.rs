//! The input that a generation of the program was made from, pinned beside it for later commands. It is JSON in the
//! entries of an array map, because bpffs holds only BPF objects.

use std::{collections::BTreeSet, io, path::PathBuf, time::Duration};

use aya::maps::{Array, Map, MapData};
use ipnet::IpNet;
use limiter_common::{
    abi::{Constants, NEXT_FALLBACK, NEXT_FOREIGN},
    arithmetic::rescale::Rescale,
    table::{WAYS, key::SLOTS},
};
use limiter_config::{
    Invalid, Key, Limit, LimitQuota, Overlay, Settings, Slot, TierBits, compile::FIRST_SLOT,
    invalid, limit_quota, on_one_line,
};
use serde::{Deserialize, Serialize};

use crate::{
    Error, Failed, Result,
    error::cause,
    state::validate,
    sys::{Dir, Interface, Routes, clock},
};

/// The name of the record's pin.
pub(crate) const NAME: &str = "record";

/// Bytes of one entry of the array map that holds the JSON.
const CHUNK: usize = 4_096;

/// All facts about an attachment that later commands need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the limiter that wrote it.
    pub version: String,
    /// Time of the attach, RFC 3339.
    pub attached_at: String,
    /// Cookie of the network namespace.
    pub namespace: u64,
    /// The settings in force, without the lists, which are in maps.
    pub settings: Settings,
    /// The configuration file that the settings came from.
    pub file: Option<PathBuf>,
    /// The reason why the settings are the last ones that were in force, and not those of the file.
    #[serde(default)]
    pub instead: Option<String>,
    /// The longest frame that can arrive, in bytes.
    pub frame_max: u64,
    /// The interface's hardware address.
    #[serde(default)]
    pub mac: [u8; 6],
    /// The host's addresses when the command began, if a limit has a proof.
    #[serde(default)]
    pub addresses: Vec<IpNet>,
    /// Its addresses and routes for the program. Not written.
    #[serde(skip)]
    pub routes: Routes,
    /// True if frames in several buffers are taken.
    pub frags: bool,
    /// True if the program runs in the network stack, not at the driver.
    #[serde(default)]
    pub tc: bool,
    /// True if packets begin with the IP header.
    #[serde(default)]
    pub no_ethernet: bool,
    /// True if the packets that come in are those of a virtual machine or a process.
    #[serde(default)]
    pub guest: bool,
    /// The reason why the mode is not native, if mode was `auto`.
    pub fallback: Option<String>,
    /// True if packets that pass go on to another program.
    pub chained: bool,
    /// The slot of each limit of [`Settings::all_limits`], in their order.
    pub limits: Vec<Slot>,
    /// Bits of the tiers.
    pub tiers: TierBits,
    /// Prefixes on each list, by its name.
    pub list_sizes: Vec<(String, u64)>,
    /// The prefixes that the fleet adds to the lists.
    pub overlay: Overlay,
    /// The end of the trial, if this generation is one.
    pub trial: Option<Trial>,
    /// True if the program counts each limit's entries in the table although it has only one limit. This is needed if
    /// the other generation of a trial has several limits.
    pub counts_shares: bool,
    /// The level up to which the program logs ([`limiter_common::abi::log`]); 0: it does not.
    #[serde(default)]
    pub log: u32,
    /// True if the program shows packets that pass to who watches them.
    #[serde(default)]
    pub passed: bool,
}

/// The end of a generation on trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The trial's end, in nanoseconds of the kernel's clock.
    pub deadline: u64,
    /// Index in the program array of the generation that is in force after the trial. With [`NEXT_FOREIGN`], nothing is
    /// limited then.
    pub next: u32,
}

impl Trial {
    /// A trial that begins now.
    pub fn lasting(duration: Duration, next: u32) -> Result<Self> {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self {
            deadline: clock::now()?.saturating_add(nanoseconds),
            next,
        })
    }

    /// Returns true if another generation is in force after the trial.
    pub fn falls_back(&self) -> bool {
        self.next != NEXT_FOREIGN
    }

    /// The same trial with another fallback.
    pub fn with_other_fallback(self) -> Self {
        let mut indices = NEXT_FALLBACK.into_iter();
        let next = indices.find(|index| *index != self.next);
        Self {
            next: next.unwrap_or(self.next),
            ..self
        }
    }

    /// The trial's end in wall-clock time, RFC 3339.
    pub fn end(&self) -> Result<String> {
        clock::wall(self.deadline).map(clock::shown)
    }
}

/// Slots and bits to clear in the maps before a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Slots of new limits.
    pub slots: Vec<u32>,
    /// Bits of new lists.
    pub bits: Vec<u32>,
}

/// The earlier limit of the same name and key. A limit with another key is a new one: it has other buckets.
fn same<'a>(old: &'a [(Limit, Slot)], name: &str, key: Key) -> Option<&'a (Limit, Slot)> {
    old.iter()
        .find(|(limit, _)| limit.name == name && limit.key == key)
}

impl Record {
    /// Assigns slots to the limits of `settings` and bits to its tiers, for a new attachment.
    pub fn take_slots(&mut self) {
        let limits = self.settings.all_limits();
        self.limits = (FIRST_SLOT..)
            .zip(&limits)
            .map(|(number, limit)| Slot::new(limit, number))
            .collect();
        self.tiers = TierBits::default().for_settings(&self.settings).0;
        self.measure_lists();
    }

    fn measure_lists(&mut self) {
        let sizes = self.settings.lists.all();
        self.list_sizes = sizes
            .map(|(name, prefixes)| (name.to_owned(), prefixes.len() as u64))
            .collect();
    }

    /// Reads what an answer depends on: the interface's hardware address, the host's addresses and routes.
    pub fn read_routes(&mut self, interface: &Interface) -> Result<()> {
        self.mac = interface.mac;
        if self.settings.has_proof() {
            self.routes = Routes::read(interface)?;
            self.addresses.clone_from(&self.routes.addresses);
        }
        Ok(())
    }

    /// The constants of the program. The settings must have their lists.
    pub fn config(&self) -> Result<Box<Constants>, Invalid> {
        let mut config = self
            .settings
            .compile(&self.limits, &self.tiers, self.frame_max)?;
        config.chained = self.chained.into();
        config.bounds.namespace = self.namespace;
        config.log = self.log;
        config.passed = self.passed.into();
        config.tc = self.tc.into();
        config.no_ethernet = self.no_ethernet.into();
        config.guest = (self.guest && config.egress == 0).into();
        let [a, b, c, d, e, f] = self.mac;
        config.mac = u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]);
        config.way_back = self.routes.way_back.into();
        for (place, route) in config.routes.iter_mut().zip(&self.routes.entries) {
            *place = *route;
        }
        if let Some(trial) = self.trial {
            config.deadline = trial.deadline;
            config.after_deadline = trial.next;
        }
        if self.counts_shares && config.room == 0 {
            config.room = config.sets * WAYS;
            config.fast_path = 0;
        }
        Ok(config)
    }

    /// The constants of a trial. Buckets of limits that only its `fallback` has are kept until they are full.
    pub fn trial_config(&self, fallback: Option<&Self>) -> Result<Box<Constants>, Invalid> {
        let mut config = self.config()?;
        let Some(fallback) = fallback.map(Self::config).transpose()? else {
            return Ok(config);
        };
        let own = |number: u32| self.limits.iter().any(|slot| slot.number == number);
        let others = fallback.limits.iter().take(fallback.limits_length as usize);
        let others = others.filter(|limit| !own(limit.slot));
        for (index, limit) in (config.limits_length..).zip(others) {
            let place = config.limits.get_mut(index as usize).ok_or_else(|| {
                invalid!(
                    "too many limits: those before the trial and those on trial count together: change fewer, or leave --try out",
                )
            })?;
            *place = *limit;
            config.indices[limit.slot as usize] = index;
        }
        Ok(config)
    }

    /// The limits with their slots.
    pub fn with_slots(&self) -> Vec<(Limit, Slot)> {
        let limits = self.settings.all_limits();
        limits
            .into_iter()
            .zip(self.limits.iter().cloned())
            .collect()
    }

    /// The limits with their slots and with the bursts in force written out, so that no quota depends on the frames.
    fn in_force(&self) -> Result<Vec<(Limit, Slot)>, Invalid> {
        let written = |(limit, slot): (Limit, Slot)| {
            let burst = Some(limit.burst(self.frame_max)?);
            Ok((Limit { burst, ..limit }, slot))
        };
        self.with_slots().into_iter().map(written).collect()
    }

    /// The longest frame for a record with these limits: `frame_max`, which can arrive now. An error if a limit that is new
    /// or changed never admits it. A limit that stays is no obstacle to other changes: the longest frame is then that of
    /// before, and `status` says which limit never admits the longer one.
    fn longest_frame(&self, limits: &[Limit], frame_max: u64) -> Result<u64, Invalid> {
        let old = self.settings.all_limits();
        let mut longest = frame_max;
        for limit in limits {
            match limit.quota(frame_max) {
                Err(_) if old.contains(limit) => longest = self.frame_max,
                quota => drop(quota?),
            }
        }
        Ok(longest)
    }

    /// The settings `own` with the fleet's prefixes added, and the overlay. The fleet's prefixes stay on the lists as
    /// long as the same fleet shares them.
    pub fn with_fleet(&self, own: Settings) -> (Settings, Overlay) {
        if own.fleet != self.settings.fleet {
            return (own, Overlay::default());
        }
        let overlay = Overlay::new(&own, &self.overlay.of_fleet());
        (overlay.with(own), overlay)
    }

    /// The record with other own settings of the host, from the moment `now` (in nanoseconds) on, for frames of up to
    /// `frame_max` bytes. Limits that only `fallback` has keep their buckets.
    pub fn changed(
        &self,
        own: Settings,
        fallback: Option<&Self>,
        frame_max: u64,
        now: u64,
    ) -> Result<(Self, Taken), Invalid> {
        let (settings, overlay) = self.with_fleet(own);
        let mut old = self.in_force()?;
        if let Some(fallback) = fallback {
            old.extend(fallback.in_force()?);
        }
        let limits = settings.all_limits();
        let frame_max = self.longest_frame(&limits, frame_max)?;
        let (mut slots, mut taken) = (Vec::new(), Vec::new());
        for limit in &limits {
            let quota = limit.quota(frame_max)?;
            let slot = match same(&old, &limit.name, limit.key) {
                Some((before, slot)) => stay(before, quota, slot, now)?,
                None => {
                    let number = free_slot(&old, &slots)?;
                    taken.push(number);
                    let slot = Slot::new(limit, number);
                    let quota = quota.at_phase(slot.phase);
                    slot.changed(Rescale::anew(&quota.in_kernel, now))
                }
            };
            slots.push(slot);
        }
        let (tiers, bits) = self.tiers.for_settings(&settings);
        let mut record = Self {
            settings,
            frame_max,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            limits: slots,
            tiers,
            overlay,
            trial: None,
            counts_shares: false,
            ..self.clone()
        };
        record.measure_lists();
        Ok((record, Taken { slots: taken, bits }))
    }

    /// Slots of limits that `next` does not have, and of limits that enter or leave shadow mode with it.
    pub fn left_and_turned(&self, next: &Self) -> (Vec<u32>, Vec<u32>) {
        let others = next.with_slots();
        let (mut left, mut turned) = (Vec::new(), Vec::new());
        for (limit, slot) in self.with_slots() {
            match others.iter().find(|(_, other)| other.number == slot.number) {
                None => left.push(slot.number),
                Some((other, _)) => {
                    let before = self.settings.shadow || limit.shadow;
                    if before != (next.settings.shadow || other.shadow) {
                        turned.push(slot.number);
                    }
                }
            }
        }
        (left, turned)
    }

    /// The record in force after `trial`, which ends at `deadline`: these settings again, with slots that know the
    /// trial's quotas.
    pub fn after(&self, trial: &Self, deadline: u64) -> Result<Self, Invalid> {
        let tried = trial.in_force()?;
        let slot = |(limit, slot): (Limit, Slot)| match same(&tried, &limit.name, limit.key) {
            Some((before, slot)) => stay(before, limit.quota(self.frame_max)?, slot, deadline),
            None => Ok(slot),
        };
        let limits = self.with_slots().into_iter().map(slot);
        Ok(Self {
            limits: limits.collect::<Result<_, _>>()?,
            ..self.clone()
        })
    }

    /// The record of this trial when it is kept. If the command is delayed past the deadline, packets have gone to
    /// `fallback`: its buckets are carried over, and those of the trial continue as they are.
    pub fn kept(&self, fallback: Option<&Self>) -> Result<Self, Invalid> {
        let mut kept = Self {
            trial: None,
            counts_shares: false,
            ..self.clone()
        };
        if let (Some(trial), Some(fallback)) = (self.trial, fallback) {
            let others = fallback.in_force()?;
            for (slot, limit) in kept.limits.iter_mut().zip(self.settings.all_limits()) {
                let other = same(&others, &limit.name, limit.key);
                let Some((before, _)) = other.filter(|(_, other)| other.epoch != slot.epoch) else {
                    continue;
                };
                let quota = limit.quota(self.frame_max)?;
                let skip = Rescale::skip(&quota.at_phase(slot.phase).in_kernel, trial.deadline);
                *slot = stay(before, quota, &slot.changed(skip), trial.deadline)?;
            }
        }
        Ok(kept)
    }

    /// Pins the record in the folder of a generation.
    pub fn pin(&self, folder: &Dir) -> Result<()> {
        let json = serde_json::to_vec(self).failed("writing the record")?;
        // A record that cannot be read back would make an attachment that no command understands.
        let read = Self::read(&json).map_err(io::Error::other);
        let read = read.failed("reading the record back")?;
        if read.limits != self.limits {
            let broken = io::Error::other("it reads back differently");
            return Err(Error::system("writing the record", broken));
        }
        let path = folder.path().join(NAME);
        let failed = |error: aya::maps::MapError| Error::path("pinning", &path, cause(error));
        let chunks: Vec<_> = json.chunks(CHUNK).collect();
        let count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        let mut map = Array::<MapData, [u8; CHUNK]>::create(count, 0).map_err(failed)?;
        for (index, chunk) in (0..).zip(chunks) {
            let mut bytes = [0_u8; CHUNK];
            bytes[..chunk.len()].copy_from_slice(chunk);
            map.set(index, bytes, 0).map_err(failed)?;
        }
        map.pin(folder.at(NAME))
            .map_err(cause)
            .failed_at("pinning", &path)
    }

    /// Reads the record that is pinned in the folder of a generation.
    pub fn open(folder: &Dir, interface: &str) -> Result<Self> {
        let read = || -> anyhow::Result<Self> {
            let map = Map::Array(MapData::from_pin(folder.pin(NAME)?.path())?);
            let map = Array::<MapData, [u8; CHUNK]>::try_from(map)?;
            let json = map.iter().collect::<Result<Vec<_>, _>>()?;
            Self::read(json.as_flattened()).map_err(anyhow::Error::msg)
        };
        read().map_err(|error| Error::unreadable(interface, error))
    }

    /// Reads the JSON that [`Self::pin`] has written, followed by zeros. On failure, returns the reason.
    pub fn read(bytes: &[u8]) -> std::result::Result<Self, String> {
        let json = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let record: Self =
            serde_json::from_slice(json).map_err(|error| on_one_line(&error.to_string()))?;
        validate::fault(&record).map_err(|fault| fault.to_string())?;
        Ok(record)
    }
}

/// The slot of a limit that existed before, as [`Record::in_force`] has it, and has another quota now.
fn stay(old: &Limit, new: LimitQuota, slot: &Slot, now: u64) -> Result<Slot, Invalid> {
    // The burst is written out, so that any length of a frame does.
    let old = old.quota(1)?.at_phase(slot.phase);
    let new = new.at_phase(slot.phase);
    if old == new {
        return Ok(slot.clone());
    }
    Ok(slot.changed(limit_quota::rescale(&old, &new, now)))
}

/// A slot that no limit has, or had before this change. [`FIRST_SLOT`] belongs to the limit of the fast path, which
/// has no counters of its own.
fn free_slot(old: &[(Limit, Slot)], new: &[Slot]) -> Result<u32, Invalid> {
    let slots = old.iter().map(|(_, slot)| slot).chain(new);
    let taken: BTreeSet<u32> = slots.map(|slot| slot.number).collect();
    let mut free = (FIRST_SLOT + 1..SLOTS).filter(|number| !taken.contains(number));
    free.next().ok_or_else(|| {
        invalid!("too many limits change at once: change some of them first, and then the others",)
    })
}
