//! What a generation of the program was made from, pinned beside it for the commands that come later.
//! JSON in the entries of an array map, because bpffs holds nothing but BPF objects.

use std::{collections::BTreeSet, io, path::PathBuf, time::Duration};

use aya::maps::{Array, Map, MapData};
use limiter_common::{
    abi::{Config, NEXT_FALLBACK, NEXT_FOREIGN},
    arithmetic::{
        rescale::{PAST_QUOTAS, Rescale, Shape},
        window::Window,
    },
    table::{WAYS, key::SLOTS},
};
use serde::{Deserialize, Serialize};

use crate::{
    config::{
        Invalid, Key, Limit, Settings,
        compile::{FIRST_SLOT, Place, TierBits},
        on_one_line,
        origin::Origins,
        overlay::Overlay,
        quota,
    },
    kernel::{
        error::{Error, Result, cause},
        state::sound,
        sys::{clock, folder::Dir},
    },
};

/// The name of its pin.
pub(in crate::kernel) const NAME: &str = "record";

/// Bytes of one entry of the array map that holds the JSON.
const CHUNK: usize = 4_096;

/// Everything that a later command needs to know of an attachment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the limiter that wrote it.
    pub version: String,
    /// When it was attached, RFC 3339.
    pub attached_at: String,
    /// Cookie of the network namespace.
    pub namespace: u64,
    /// What is in force, but for the lists: those are in the maps.
    pub settings: Settings,
    /// The configuration file that they came from.
    pub file: Option<PathBuf>,
    /// The longest frame that can arrive, in bytes.
    pub frame_max: u64,
    /// Whether frames in several buffers are taken.
    pub frags: bool,
    /// Why it is not native, where it was to be if possible.
    pub fallback: Option<String>,
    /// Whether the program that runs logs each packet.
    pub logging: bool,
    /// Whether packets that pass go on to another program.
    pub chained: bool,
    /// Where each limit of [`Settings::all_limits`] is, in their order.
    pub limits: Vec<Seat>,
    /// Bits of the tiers.
    pub tiers: TierBits,
    /// Prefixes on each list, by its name.
    pub list_sizes: Vec<(String, u64)>,
    /// What the fleet has put on the lists.
    #[serde(default, alias = "spread")]
    pub overlay: Overlay,
    /// Where the prefixes on the host's own lists come from.
    #[serde(default)]
    pub origins: Origins,
    /// The trial that this generation is, if it is one.
    #[serde(default)]
    pub trial: Option<Trial>,
    /// Whether the program counts what each limit holds of the table even if it has one limit alone: the other one of
    /// a trial and its fallback has several.
    #[serde(default)]
    pub counts_shares: bool,
}

/// What a generation on trial knows of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// When it ends, in nanoseconds of the kernel's clock.
    pub deadline: u64,
    /// Whether another generation is in force after it. Otherwise nothing is limited then.
    pub falls_back: bool,
}

impl Trial {
    /// One that begins now.
    pub fn lasting(duration: Duration, falls_back: bool) -> Result<Self> {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self {
            deadline: clock::now()?.saturating_add(nanoseconds),
            falls_back,
        })
    }
}

/// A limit's place, in the form in which it is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seat {
    /// Name of the limit.
    pub name: String,
    /// Which buckets and figures are its own.
    pub slot: u32,
    /// Nanoseconds by which its windows are shifted.
    pub phase: u64,
    /// How often its terms were changed.
    pub epoch: u32,
    /// The last changes, newest first; the words of [`Rescale`] in their order.
    pub past: Vec<[u64; 13]>,
}

/// What is to be put in order in the maps before and after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Slots of limits that come.
    pub slots_taken: Vec<u32>,
    /// Slots of limits that go.
    pub slots_left: Vec<u32>,
    /// Slots of limits that begin to drop what is over them, or no longer do.
    pub slots_turned: Vec<u32>,
    /// Bits of lists that come.
    pub bits_taken: Vec<u32>,
}

impl Seat {
    fn new(limit: &Limit, slot: u32) -> Self {
        Self {
            name: limit.name.clone(),
            slot,
            phase: phase(limit),
            epoch: 0,
            past: Vec::new(),
        }
    }

    fn place(&self) -> Place {
        Place {
            name: self.name.clone(),
            slot: self.slot,
            phase: self.phase,
            epoch: self.epoch,
            past: self.changes(),
        }
    }

    /// The last changes of terms, newest first.
    #[must_use]
    pub fn changes(&self) -> Vec<Rescale> {
        self.past.iter().map(from_words).collect()
    }

    /// The same seat after a change of terms.
    fn changed(&self, change: Rescale) -> Self {
        let mut seat = self.clone();
        seat.epoch = self.epoch.wrapping_add(1);
        seat.past.insert(0, words(&change));
        seat.past.truncate(PAST_QUOTAS as usize);
        seat
    }
}

/// Windows of different limits and hosts do not all begin at once: by how much is left to chance.
fn phase(limit: &Limit) -> u64 {
    fastrand::u64(0..limit.rate.period_ns)
}

/// A limit is the same as long as it has its name and its key: other keys are other buckets.
fn same<'a>(old: &'a [(Limit, Seat)], name: &str, key: Key) -> Option<&'a (Limit, Seat)> {
    old.iter()
        .find(|(limit, _)| limit.name == name && limit.key == key)
}

impl Record {
    /// Seats for the limits of `settings` and bits for its tiers, where nothing was before.
    pub fn seat(&mut self) {
        let limits = self.settings.all_limits();
        self.limits = (FIRST_SLOT..)
            .zip(&limits)
            .map(|(slot, limit)| Seat::new(limit, slot))
            .collect();
        self.tiers = TierBits::default().for_lists(&self.settings.lists).0;
        self.measure_lists();
    }

    fn measure_lists(&mut self) {
        let sizes = self.settings.lists.all();
        self.list_sizes = sizes
            .map(|(name, prefixes)| (name.to_owned(), prefixes.len() as u64))
            .collect();
    }

    /// The constants of the program. The settings must have their lists.
    pub fn config(&self) -> Result<Config, Invalid> {
        let places: Vec<_> = self.limits.iter().map(Seat::place).collect();
        let mut config = self
            .settings
            .compile(&places, &self.tiers, self.frame_max)?;
        config.chained = self.chained.into();
        if let Some(trial) = self.trial {
            config.deadline = trial.deadline;
            config.after_deadline = if trial.falls_back {
                NEXT_FALLBACK
            } else {
                NEXT_FOREIGN
            };
        }
        if self.counts_shares && config.room == 0 {
            config.room = config.sets * WAYS;
            config.plain = 0;
        }
        Ok(config)
    }

    /// The constants of a trial. Buckets of limits that only its `fallback` has are kept until they are full.
    pub fn trial_config(&self, fallback: Option<&Self>) -> Result<Config, Invalid> {
        let mut config = self.config()?;
        let Some(fallback) = fallback.map(Self::config).transpose()? else {
            return Ok(config);
        };
        let own = |slot: u32| self.limits.iter().any(|seat| seat.slot == slot);
        let others = fallback.limits.iter().take(fallback.limits_length as usize);
        let others = others.filter(|limit| !own(limit.slot));
        for (index, limit) in (config.limits_length..).zip(others) {
            let place = config.limits.get_mut(index as usize).ok_or_else(|| {
                Invalid::new(
                    "the limits before and on trial are too many together: change fewer, or leave --try out",
                )
            })?;
            *place = *limit;
            config.indices[limit.slot as usize] = index;
        }
        Ok(config)
    }

    /// The limits with their seats.
    #[must_use]
    pub fn seated(&self) -> Vec<(Limit, Seat)> {
        let limits = self.settings.all_limits();
        limits
            .into_iter()
            .zip(self.limits.iter().cloned())
            .collect()
    }

    /// The settings in force where the host's own are `own`: what the fleet has put on the lists stays there, as
    /// long as they are shared by the same fleet. And where that is.
    #[must_use]
    pub fn in_force(&self, own: Settings) -> (Settings, Overlay) {
        if own.fleet != self.settings.fleet {
            return (own, Overlay::default());
        }
        let overlay = Overlay::new(&own, &self.overlay.of_fleet());
        let lists = overlay.with(own.lists.clone());
        (Settings { lists, ..own }, overlay)
    }

    /// The same attachment with other settings of the host's own, from the moment `now` (in nanoseconds) on. Limits that
    /// only `fallback` has keep their buckets.
    pub fn changed(
        &self,
        own: Settings,
        fallback: Option<&Self>,
        now: u64,
    ) -> Result<(Self, Moves), Invalid> {
        let (settings, overlay) = self.in_force(own);
        let mut old = self.seated();
        old.extend(fallback.iter().flat_map(|fallback| fallback.seated()));
        let limits = settings.all_limits();
        let mut moves = Moves::default();
        let mut seats = Vec::new();
        for limit in &limits {
            let seat = match same(&old, &limit.name, limit.key) {
                Some((before, seat)) => {
                    let shadow_before = self.settings.shadow || before.shadow;
                    if shadow_before != (settings.shadow || limit.shadow) {
                        moves.slots_turned.push(seat.slot);
                    }
                    self.stay(before, limit, seat, now)?
                }
                None => {
                    let slot = free_slot(&old, &seats)?;
                    moves.slots_taken.push(slot);
                    let terms = limit.terms(self.frame_max)?;
                    let seat = Seat::new(limit, slot);
                    let terms = terms.at_phase(seat.phase);
                    seat.changed(Rescale::anew(&terms.in_kernel, now))
                }
            };
            seats.push(seat);
        }
        let kept: BTreeSet<u32> = seats.iter().map(|seat| seat.slot).collect();
        moves.slots_left = old
            .iter()
            .map(|(_, seat)| seat.slot)
            .filter(|slot| !kept.contains(slot))
            .collect();
        let (tiers, bits_taken) = self.tiers.for_lists(&settings.lists);
        moves.bits_taken = bits_taken;
        let mut record = Self {
            settings,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            limits: seats,
            tiers,
            overlay,
            trial: None,
            counts_shares: false,
            ..self.clone()
        };
        record.measure_lists();
        Ok((record, moves))
    }

    /// What holds after `trial`, which ends at `deadline`: these settings again, and buckets that know the trial.
    pub fn after(&self, trial: &Self, deadline: u64) -> Result<Self, Invalid> {
        let tried = trial.seated();
        let seat = |(limit, seat): (Limit, Seat)| match same(&tried, &limit.name, limit.key) {
            Some((before, seat)) => self.stay(before, &limit, seat, deadline),
            None => Ok(seat),
        };
        let limits = self.seated().into_iter().map(seat);
        Ok(Self {
            limits: limits.collect::<Result<_, _>>()?,
            ..self.clone()
        })
    }

    /// This trial as a generation that stays. A command may be stopped until the deadline is over and packets have gone to
    /// `fallback`: its buckets are carried over, and those of the trial go on as they are.
    pub fn kept(&self, fallback: Option<&Self>) -> Result<Self, Invalid> {
        let mut kept = Self {
            trial: None,
            counts_shares: false,
            ..self.clone()
        };
        if let (Some(trial), Some(fallback)) = (self.trial, fallback) {
            let others = fallback.seated();
            for (seat, limit) in kept.limits.iter_mut().zip(self.settings.all_limits()) {
                let other = same(&others, &limit.name, limit.key);
                let Some((before, _)) = other.filter(|(_, other)| other.epoch != seat.epoch) else {
                    continue;
                };
                let terms = limit.terms(self.frame_max)?.at_phase(seat.phase);
                let skip = Rescale::skip(&terms.in_kernel, trial.deadline);
                *seat = self.stay(before, &limit, &seat.changed(skip), trial.deadline)?;
            }
        }
        Ok(kept)
    }

    /// The seat of a limit that was there before.
    fn stay(&self, old: &Limit, new: &Limit, seat: &Seat, now: u64) -> Result<Seat, Invalid> {
        let terms = |limit: &Limit| -> Result<_, Invalid> {
            Ok(limit.terms(self.frame_max)?.at_phase(seat.phase))
        };
        let (old, new) = (terms(old)?, terms(new)?);
        if old == new {
            return Ok(seat.clone());
        }
        Ok(seat.changed(quota::rescale(&old, &new, now)))
    }

    /// Pins it in the folder of a generation.
    pub fn pin(&self, folder: &Dir) -> Result<()> {
        let json = serde_json::to_vec(self)
            .map_err(|error| Error::system("writing the record", io::Error::other(error)))?;
        // What cannot be read back would be an attachment that no command understands.
        let read = Self::read(&json).ok();
        let written = self.without_lists();
        let same = read.is_some_and(|read| {
            read.limits == written.limits && read.config().ok() == written.config().ok()
        });
        if !same {
            let broken = io::Error::other("it does not read back");
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
            .map_err(|error| Error::path("pinning", &path, cause(error)))
    }

    fn without_lists(&self) -> Self {
        let mut record = self.clone();
        record.settings.lists = crate::config::Lists::default();
        record
    }

    /// Reads the one that is pinned in the folder of a generation.
    pub fn open(folder: &Dir, interface: &str) -> Result<Self> {
        let unreadable = |why: String| Error::Unreadable {
            interface: interface.to_owned(),
            why,
        };
        let pin = folder.pin(NAME);
        let pin = pin.map_err(|error| unreadable(error.to_string()))?;
        let map = MapData::from_pin(pin.path()).map_err(|error| unreadable(error.to_string()))?;
        let map = Array::<MapData, [u8; CHUNK]>::try_from(Map::Array(map))
            .map_err(|error| unreadable(error.to_string()))?;
        let mut json = Vec::new();
        for index in 0..map.len() {
            let chunk = map.get(&index, 0);
            json.extend(chunk.map_err(|error| unreadable(error.to_string()))?);
        }
        Self::read(&json).map_err(unreadable)
    }

    /// Reads what [`Self::pin`] has written, zeros behind it; or says why it cannot be read.
    pub fn read(bytes: &[u8]) -> std::result::Result<Self, String> {
        let json = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let record: Self =
            serde_json::from_slice(json).map_err(|error| on_one_line(&error.to_string()))?;
        sound::fault(&record)?;
        Ok(record)
    }
}

/// A slot that no limit has or had a moment ago. [`FIRST_SLOT`] is for the limit of the short way, whose
/// figures are not its own.
fn free_slot(old: &[(Limit, Seat)], new: &[Seat]) -> Result<u32, Invalid> {
    let taken = |slot: &u32| {
        old.iter()
            .map(|(_, seat)| seat)
            .chain(new)
            .any(|seat| seat.slot == *slot)
    };
    (FIRST_SLOT + 1..SLOTS)
        .find(|slot| !taken(slot))
        .ok_or_else(|| {
            Invalid::new(
                "too many limits change at once: change some of them first, and then the others",
            )
        })
}

fn shape_words(shape: &Shape) -> [u64; 4] {
    let Shape { tau, window } = *shape;
    [tau, window.period, window.phase, window.grant]
}

fn shape([tau, period, phase, grant]: [u64; 4]) -> Shape {
    Shape {
        tau,
        window: Window {
            period,
            phase,
            grant,
        },
    }
}

fn words(change: &Rescale) -> [u64; 13] {
    let [a, b, c, d] = shape_words(&change.from);
    let [e, f, g, h] = shape_words(&change.to);
    let Rescale {
        since,
        chunk_from,
        chunk_to,
        chunk_shift,
        chunks_most,
        ..
    } = *change;
    [
        since,
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        chunk_from,
        chunk_to,
        chunk_shift,
        chunks_most,
    ]
}

fn from_words(words: &[u64; 13]) -> Rescale {
    let [
        since,
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        chunk_from,
        chunk_to,
        chunk_shift,
        chunks_most,
    ] = *words;
    Rescale {
        since,
        from: shape([a, b, c, d]),
        to: shape([e, f, g, h]),
        chunk_from,
        chunk_to,
        chunk_shift,
        chunks_most,
    }
}
