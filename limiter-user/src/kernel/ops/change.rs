//! A change from one generation to the next: prepared without the attachment's lock, put in force with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::AsFd,
    path::PathBuf,
    time::Duration,
};

use limiter_common::abi::{Config, NEXT_FALLBACK};

use crate::{
    config::{Lists, Overlay, Settings},
    kernel::{
        Attachment, Error, Result,
        program::{ListMaps, ListTables, Maps, Program, maps, object},
        state::{Generation, Record, Trial, current, generation, pins, record::Taken, unpin},
        sys::{Dir, Lock, bpf::Place, clock, lock, requirements},
    },
};

/// A change that is in force. With [`Lasts::DryRun`]: one that would be.
#[derive(Debug)]
pub struct Swapped {
    /// This host's own settings before.
    pub old: Settings,
    /// This host's own settings now.
    pub new: Settings,
    /// The prefixes that the fleet adds to the lists.
    pub overlay: Overlay,
    /// The configuration file that the settings came from, apart from later changes.
    pub file: Option<PathBuf>,
    /// The longest frame, in bytes. The burst of a bit rate depends on it.
    pub frame_max: u64,
    /// The end of the trial, RFC 3339; `None` without a trial.
    pub try_until: Option<String>,
}

/// The duration of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lasts {
    /// Until the next change.
    #[default]
    ForGood,
    /// For this long, unless it is kept before.
    Trial(Duration),
    /// Not at all: the change is only prepared.
    DryRun,
}

/// The wanted state of an attachment.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// All settings.
    pub settings: Settings,
    /// The file that the settings come from.
    pub file: Option<PathBuf>,
    /// `attach`: run in front of the program that is on the interface. Without it, the interface must have none.
    pub chain: bool,
    /// `attach` in the network stack: the place among its programs; `None`: in front of all.
    pub place: Option<Place>,
    /// `attach`: after this time nothing is limited, unless the trial is kept before.
    pub trial: Option<Duration>,
}

impl Wanted {
    /// The state of `record` with the host's own settings.
    pub fn own(record: &Record, own: &Settings) -> Self {
        Self {
            settings: own.clone(),
            file: record.file.clone(),
            ..Self::default()
        }
    }
}

/// A pinned generation that packets may go to. Its record's settings include the lists.
struct View {
    record: Record,
    folder: Dir,
}

impl View {
    fn of(generation: &Generation, mut record: Record, lists: &ListTables) -> Result<Self> {
        record.settings.lists = Lists::from_compiled(&record.tiers, &lists.entries()?);
        let folder = generation.dir.clone();
        Ok(Self { record, folder })
    }

    /// The generation in force, and the fallback of a running trial.
    fn both(attachment: &Attachment) -> Result<(Self, Option<Self>)> {
        let current = &attachment.current;
        let now = attachment.record.clone();
        let now = Self::of(&current.in_force, now, &attachment.lists)?;
        let after = current.fallback.as_ref().map(|fallback| {
            let record = Record::open(&fallback.dir, &attachment.interface.name)?;
            Self::of(fallback, record, &ListTables::open(&fallback.dir)?)
        });
        Ok((now, after.transpose()?))
    }
}

/// The host's own settings in a record with lists: without the fleet's overlay.
fn own(record: &Record) -> Settings {
    Settings {
        lists: record.overlay.without(record.settings.lists.clone()),
        ..record.settings.clone()
    }
}

/// A change that is loaded, and not in force yet. Nothing has changed so far.
pub struct Change {
    attachment: Attachment,
    plan: Plan,
    next: Program,
    /// The generation that its trial falls back to.
    fallback: Option<Program>,
    /// The limits begin to share the table: the program that runs does not count its entries.
    begins_to_share: bool,
}

impl From<Change> for Swapped {
    fn from(change: Change) -> Self {
        let Plan {
            old, new, record, ..
        } = change.plan;
        let until = record.trial.map(|trial| clock::wall(trial.deadline));
        Self {
            old,
            new,
            overlay: record.overlay,
            file: record.file,
            frame_max: record.frame_max,
            try_until: until.and_then(Result::ok).map(current::shown),
        }
    }
}

impl Change {
    /// Loads the next generation, and the fallback of its trial. `wanted` changes one generation, given its record
    /// and its settings without the fleet's overlay. It returns the record to begin with, and what is wanted.
    pub fn prepare(
        attachment: Attachment,
        lasts: Lasts,
        wanted: &impl Fn(&Record, &Settings) -> Result<(Record, Wanted)>,
    ) -> Result<Self> {
        requirements::privileges()?;
        if let (Lasts::Trial(_), Some(until)) = (lasts, attachment.try_until()) {
            let name = &attachment.interface.name;
            return Err(Error::Refused(format!(
                "a trial on '{name}' runs until {until}, and there is one at a time: `limiter keep {name}` keeps what it tries, `limiter keep {name} --revert` ends it"
            )));
        }
        let at = clock::now()?;
        let (now, after) = View::both(&attachment)?;
        let others = after.as_ref().map(|after| &after.record);
        let (old, trial) = (own(&now.record), now.record.trial);
        let (record, change) = wanted(&now.record, &old)?;
        let (mut record, taken) = next(&record.kept(others)?, others, &change, at)?;
        let fallback = match (lasts, &after) {
            (Lasts::Trial(duration), _) if change.settings != old => {
                record.trial = Some(Trial::lasting(duration, true)?);
                Some(now.record.clone())
            }
            // The change is for good: it holds after the trial too. If both generations become equal, the trial is
            // over.
            (_, Some(after)) => {
                let old = own(&after.record);
                let (before, change) = wanted(&after.record, &old)?;
                let changed = next(&before, None, &change, at)?.0;
                let differs = changed.settings != record.settings;
                record.trial = trial.filter(|_| differs);
                differs.then_some(changed)
            }
            (_, None) => {
                record.trial = trial;
                None
            }
        };
        let new = change.settings;
        let plan = Plan {
            old,
            new,
            record,
            fallback,
            taken,
            left: Vec::new(),
        };
        plan.load(attachment, now, after)
    }

    /// Loads the generation that ends the trial of `attachment`: the tried one for good, or its fallback if `revert`.
    pub fn end_trial(attachment: Attachment, revert: bool) -> Result<Self> {
        let (now, after) = View::both(&attachment)?;
        let others = after.as_ref().map(|after| &after.record);
        let old = own(&now.record);
        let kept = now.record.kept(others)?;
        let mut plan = Plan {
            new: old.clone(),
            old,
            record: kept,
            fallback: None,
            taken: Taken::default(),
            left: Vec::new(),
        };
        if let Some(others) = others.filter(|_| revert) {
            plan.new = own(others);
            let at = clock::now()?;
            let (back, _) = plan.record.changed(plan.new.clone(), Some(others), at)?;
            plan.record = Record {
                limits: back.limits,
                counts_shares: false,
                ..others.clone()
            };
        }
        plan.load(attachment, now, after)
    }

    /// Takes the lock of the attachment, and waits for it.
    pub fn lock(&self) -> Result<Lock> {
        lock::lock(&self.attachment.dir)
    }

    /// Whether the generation that this change was prepared from is still in force.
    pub fn is_up_to_date(&self) -> Result<bool> {
        self.attachment.is_current()
    }

    /// Puts the change in force. The caller holds the lock of the attachment.
    pub fn put_in_force(mut self) -> Result<Swapped> {
        let (attachment, plan) = (&mut self.attachment, &self.plan);
        if attachment.is_on_trial() {
            // A command that was killed may have changed it after this change was prepared.
            attachment.current.fallback = Generation::fallback(&attachment.dir)?;
        }
        // The generations that packets may go to now.
        let stay = [&attachment.current.linked].into_iter();
        let stay = stay.chain(&attachment.current.fallback);
        let stay: Vec<u64> = stay.map(|generation| generation.number).collect();
        clear_others(attachment, &stay, attachment.is_on_trial());
        let of_fallback = plan.fallback.iter().flat_map(|record| &record.limits);
        let slots = plan.record.limits.iter().chain(of_fallback);
        let epochs = slots.map(|slot| (slot.number, slot.epoch));
        let Taken { slots, bits } = &plan.taken;
        attachment.tables.prepare(slots, bits, epochs)?;
        if self.begins_to_share {
            let held = attachment.tables.sets.held();
            self.next.share_out(&held)?;
        }
        let first = stay.iter().max().map_or(0, |number| number + 1);
        let swapped = swap(attachment, plan, &self.next, self.fallback.as_mut(), first);
        if let Err(error) = swapped {
            clear_others(attachment, &stay, attachment.is_on_trial());
            return Err(error);
        }
        // Leftovers do no harm. The next change clears them.
        clear_others(attachment, &[first, first + 1], self.fallback.is_some());
        let (_, turned) = attachment.record.left_and_turned(&plan.record);
        attachment.tables.clean_up(&plan.left, &turned);
        Ok(self.into())
    }
}

/// A planned change.
struct Plan {
    old: Settings,
    new: Settings,
    record: Record,
    /// The fallback of its trial.
    fallback: Option<Record>,
    taken: Taken,
    /// Slots of removed limits.
    left: Vec<u32>,
}

impl Plan {
    fn load(mut self, attachment: Attachment, now: View, after: Option<View>) -> Result<Change> {
        let counted = now.record.config()?.room != 0;
        let record = &mut self.record;
        if let (Some(trial), Some(fallback)) = (record.trial, &mut self.fallback) {
            *fallback = fallback.after(record, trial.deadline)?;
            // At the end of the trial no process is there to count the table's entries.
            let counts = counted || record.config()?.room != 0 || fallback.config()?.room != 0;
            (record.counts_shares, fallback.counts_shares) = (counts, counts);
        }
        let config = self.record.trial_config(self.fallback.as_ref())?;
        let views: Vec<View> = [Some(now), after].into_iter().flatten().collect();
        let gone = slots(views.iter().map(|view| &view.record));
        let kept = slots([&self.record].into_iter().chain(&self.fallback));
        self.left = gone.difference(&kept).copied().collect();
        let load = |record: &Record, config: &Config| load(&attachment.dir, &views, record, config);
        let next = load(&self.record, &config)?;
        let fallback = self.fallback.as_ref();
        let fallback = fallback.map(|record| {
            let config = record.config()?;
            load(record, &config)
        });
        Ok(Change {
            begins_to_share: config.room != 0 && !counted,
            fallback: fallback.transpose()?,
            next,
            attachment,
            plan: self,
        })
    }
}

/// The record changed as wanted, from the moment `at` (nanoseconds) on. Limits that only `fallback` has keep their
/// buckets.
fn next(
    record: &Record,
    fallback: Option<&Record>,
    wanted: &Wanted,
    at: u64,
) -> Result<(Record, Taken)> {
    let (mut next, taken) = record.changed(wanted.settings.clone(), fallback, at)?;
    next.file.clone_from(&wanted.file);
    Ok((next, taken))
}

fn slots<'a>(records: impl IntoIterator<Item = &'a Record>) -> BTreeSet<u32> {
    let slots = records.into_iter().flat_map(|record| &record.limits);
    slots.map(|slot| slot.number).collect()
}

/// Loads the program of `record` over the maps of an attachment. If one of its generations has equal lists, their
/// maps are shared.
fn load(dir: &Dir, views: &[View], record: &Record, config: &Config) -> Result<Program> {
    let lists = &record.settings.lists;
    let same =
        |view: &&View| view.record.settings.lists == *lists && view.record.tiers == record.tiers;
    let pinned = views.iter().find(same);
    let prefixes = pinned.is_none().then(|| lists.compile(&record.tiers));
    let none = BTreeMap::new();
    let lists = match pinned {
        Some(view) => ListMaps::Pinned(&view.folder),
        None => ListMaps::New(prefixes.as_ref().unwrap_or(&none)),
    };
    object::load(config, Maps::Pinned(dir), lists, record.frags)
}

/// Pins the next generations, the fallback second, and swaps the first one into the link.
fn swap(
    attachment: &Attachment,
    plan: &Plan,
    next: &Program,
    fallback: Option<&mut Program>,
    first: u64,
) -> Result<()> {
    let dir = &attachment.dir;
    if let (Some(record), Some(program)) = (&plan.fallback, fallback) {
        generation::pin(program, record, dir, first + 1)?;
        program.stand_by()?;
    }
    generation::pin(next, &plan.record, dir, first)?;
    let running = attachment.current.linked.program()?;
    attachment.link.replace(Some(running.as_fd()), next.fd()?)
}

/// Removes all generations but those in `stay`. The next change tries again where that fails.
pub fn clear_others(attachment: &Attachment, stay: &[u64], falls_back: bool) {
    let others = pins::generations(&attachment.dir).unwrap_or_default();
    let others = others.into_iter().filter(|number| !stay.contains(number));
    for (index, number) in others.enumerate() {
        if index == 0 && !falls_back {
            let _ = maps::clear_next(&attachment.dir, NEXT_FALLBACK);
        }
        let _ = unpin::generation(&attachment.dir, number);
    }
}
