//! A change from one generation to the next: prepared without the attachment's lock, put in force with it.

use std::{collections::BTreeSet, os::fd::AsFd, path::PathBuf, time::Duration};

use limiter_common::abi::{Constants, NEXT_FALLBACK};
use limiter_config::{Lists, Settings};

use crate::{
    Attachment, Error, Result,
    ops::bans::Kept,
    program::{ListMaps, ListTables, Maps, Program, log, maps, object},
    state::{Current, Generation, Record, Trial, generation, pins, record::Taken, unpin, watchers},
    sys::{Dir, Lock, bpf::Place, clock, lock, requirements},
};

/// A change that is in force. With [`Lasts::DryRun`]: one that would be.
#[derive(Debug)]
pub struct Swapped {
    /// This host's own settings before.
    pub old: Settings,
    /// This host's own settings now.
    pub new: Settings,
    /// The record of the generation now.
    pub record: Record,
    /// The longest frame of the generation before, in bytes.
    pub frame_max_before: u64,
    /// Its program.
    pub(crate) program: Program,
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
    /// The reason why the settings are the last ones that were in force, and not those of the file.
    pub instead: Option<String>,
    /// `attach`: run in front of the program that is on the interface. Without it, the interface must have none.
    pub chain: bool,
    /// `attach` in the network stack: the place among its programs; `None`: in front of all.
    pub place: Option<Place>,
    /// `attach`: bans that are in force from the first packet on.
    pub bans: Vec<Kept>,
    /// `attach`: after this time nothing is limited, unless the trial is kept before.
    pub trial: Option<Duration>,
}

impl Wanted {
    /// The state of `record` with the host's own settings.
    pub fn own(record: &Record, own: &Settings) -> Self {
        Self {
            settings: own.clone(),
            file: record.file.clone(),
            instead: record.instead.clone(),
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
    /// The generation in force, and the fallback of a running trial.
    fn both(attachment: &Attachment) -> Result<(Self, Option<Self>)> {
        let view = |generation: &Generation| -> Result<_> {
            let folder = generation.dir.clone();
            let mut record = Record::open(&folder, &attachment.interface.name)?;
            let lists = ListTables::open(&folder)?.prefixes()?;
            record.settings.lists = Lists::from_compiled(&record.tiers, &lists);
            Ok(Self { record, folder })
        };
        let Current {
            in_force, fallback, ..
        } = &attachment.current;
        let fallback = fallback.as_ref().map(view).transpose()?;
        Ok((view(in_force)?, fallback))
    }
}

/// The host's own settings in a record with lists: without the fleet's overlay.
fn own(record: &Record) -> Settings {
    record.overlay.without(record.settings.clone())
}

/// The program of a generation that is not in force yet.
struct Loaded {
    /// Its record, whose settings include the lists.
    record: Record,
    program: Program,
}

/// A change that is loaded, and not in force yet. Nothing has changed so far.
pub struct Change {
    attachment: Attachment,
    /// The host's own settings before and after.
    own: [Settings; 2],
    next: Loaded,
    /// The generation that its trial falls back to.
    fallback: Option<Loaded>,
    taken: Taken,
    /// Slots of removed limits.
    left: Vec<u32>,
    /// The limits begin to share the table: the program that runs does not count its entries.
    begins_to_share: bool,
}

impl From<Change> for Swapped {
    fn from(change: Change) -> Self {
        let [old, new] = change.own;
        let Loaded { record, program } = change.next;
        Self {
            old,
            new,
            record,
            frame_max_before: change.attachment.record.frame_max,
            program,
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
        if let Lasts::Trial(_) = lasts {
            nothing_on_trial(&attachment)?;
        }
        let since = clock::now()?;
        let frame_max = attachment.frame_max();
        let next = |record: &Record, fallback: Option<&Record>, wanted: &Wanted| {
            let settings = wanted.settings.clone();
            let (mut next, taken) = record.changed(settings, fallback, frame_max, since)?;
            next.file.clone_from(&wanted.file);
            next.instead.clone_from(&wanted.instead);
            Ok::<_, Error>((next, taken))
        };
        let (now, after) = View::both(&attachment)?;
        let others = after.as_ref().map(|after| &after.record);
        let (old, trial) = (own(&now.record), now.record.trial);
        let (record, change) = wanted(&now.record, &old)?;
        let (mut record, taken) = next(&record.kept(others)?, others, &change)?;
        let fallback = match (lasts, &after) {
            (Lasts::Trial(duration), _) if change.settings != old => {
                record.trial = Some(Trial::lasting(duration, NEXT_FALLBACK[0])?);
                Some(now.record.clone())
            }
            // The change is for good: it holds after the trial too. If both generations become equal, the trial is
            // over.
            (_, Some(after)) => {
                let old = own(&after.record);
                let (before, change) = wanted(&after.record, &old)?;
                let changed = next(&before, None, &change)?.0;
                let differs = changed.settings != record.settings || changed.log != record.log;
                let trial = trial.filter(|_| differs);
                record.trial = trial.map(Trial::with_other_fallback);
                differs.then_some(changed)
            }
            (_, None) => {
                record.trial = trial;
                None
            }
        };
        let own = [old, change.settings];
        Self::load(attachment, (now, after), own, (record, fallback), taken)
    }

    /// Loads the generation that ends the trial of `attachment`: the tried one for good, or its fallback if `revert`.
    pub fn end_trial(attachment: Attachment, revert: bool) -> Result<Self> {
        let (now, after) = View::both(&attachment)?;
        let others = after.as_ref().map(|after| &after.record);
        let (old, mut record) = (own(&now.record), now.record.kept(others)?);
        let mut new = old.clone();
        if let Some(others) = others.filter(|_| revert) {
            new = own(others);
            let since = clock::now()?;
            let frame_max = others.frame_max;
            let (back, _) = record.changed(new.clone(), Some(others), frame_max, since)?;
            record = Record {
                limits: back.limits,
                counts_shares: false,
                ..others.clone()
            };
        }
        let (own, taken) = ([old, new], Taken::default());
        Self::load(attachment, (now, after), own, (record, None), taken)
    }

    /// Loads the generation in force with messages up to `level`, on trial: after `duration` it is as it was.
    pub fn log(attachment: Attachment, level: u32, duration: Duration) -> Result<Self> {
        requirements::privileges()?;
        nothing_on_trial(&attachment)?;
        let (now, _) = View::both(&attachment)?;
        let (own, before) = (own(&now.record), now.record.clone());
        let record = Record {
            log: level,
            trial: Some(Trial::lasting(duration, NEXT_FALLBACK[0])?),
            ..before.clone()
        };
        let own = [own.clone(), own];
        let records = (record, Some(before));
        Self::load(attachment, (now, None), own, records, Taken::default())
    }

    /// Takes the lock of the attachment, and waits for it; `None` if limiter was detached meanwhile.
    pub fn lock(&self) -> Result<Option<Lock>> {
        lock::lock(&self.attachment.dir)
    }

    /// Returns true if the generation that this change was prepared from is still in force.
    pub fn is_up_to_date(&self) -> Result<bool> {
        let Attachment { current, link, .. } = &self.attachment;
        current.holds(&link.info()?)
    }

    /// Puts the change in force. The caller holds the lock of the attachment.
    pub fn put_in_force(mut self) -> Result<Swapped> {
        let attachment = &mut self.attachment;
        let trial = attachment.current.trial;
        // The generations that packets may go to now.
        let stay = [&attachment.current.linked].into_iter();
        let stay = stay.chain(&attachment.current.fallback);
        let stay: Vec<u64> = stay.map(|generation| generation.number).collect();
        clear_others(attachment, &stay, trial);
        let both = [&self.next].into_iter().chain(&self.fallback);
        let slots = both.flat_map(|loaded| &loaded.record.limits);
        let epochs = slots.map(|slot| (slot.number, slot.epoch));
        let Taken { slots, bits } = &self.taken;
        attachment.tables.prepare(slots, bits, epochs)?;
        if self.begins_to_share {
            let held = attachment.tables.sets.held();
            self.next.program.share_out(&held)?;
        }
        let first = stay.iter().max().map_or(0, |number| number + 1);
        let logs = self.next.record.log != 0;
        let swapped = log::pin(&self.next.program, &attachment.dir, logs)
            .and_then(|()| swap(attachment, &self.next, self.fallback.as_mut(), first));
        if let Err(error) = swapped {
            clear_others(attachment, &stay, trial);
            log::clear(&attachment.dir, attachment.record.log != 0);
            return Err(error);
        }
        log::clear(&attachment.dir, logs);
        // Leftovers do no harm. The next change clears them.
        clear_others(attachment, &[first, first + 1], self.next.record.trial);
        let (_, turned) = attachment.record.left_and_turned(&self.next.record);
        attachment.tables.clean_up(&self.left, &turned);
        Ok(self.into())
    }

    /// Loads a generation, and the fallback of its trial, from their records.
    fn load(
        attachment: Attachment,
        (now, after): (View, Option<View>),
        own: [Settings; 2],
        (mut record, mut fallback): (Record, Option<Record>),
        taken: Taken,
    ) -> Result<Self> {
        let interface = &attachment.interface;
        let passed = watchers::wants_passed(&attachment.dir)?;
        record.read_routes(interface)?;
        record.passed = passed;
        if let Some(fallback) = &mut fallback {
            fallback.read_routes(interface)?;
            fallback.passed = passed;
        }
        let counted = now.record.config()?.room != 0;
        if let (Some(trial), Some(fallback)) = (record.trial, &mut fallback) {
            *fallback = fallback.after(&record, trial.deadline)?;
            // At the end of the trial no process is there to count the table's entries.
            let counts = counted || record.config()?.room != 0 || fallback.config()?.room != 0;
            (record.counts_shares, fallback.counts_shares) = (counts, counts);
        }
        let config = record.trial_config(fallback.as_ref())?;
        let views: Vec<View> = [now].into_iter().chain(after).collect();
        let gone = slots(views.iter().map(|view| &view.record));
        let kept = slots([&record].into_iter().chain(&fallback));
        let load = |record, config: &Constants| load(&attachment.dir, &views, record, config);
        let next = load(record, &config)?;
        let fallback = fallback.map(|record| {
            let config = record.config()?;
            load(record, &config)
        });
        Ok(Self {
            begins_to_share: config.room != 0 && !counted,
            fallback: fallback.transpose()?,
            left: gone.difference(&kept).copied().collect(),
            own,
            next,
            taken,
            attachment,
        })
    }
}

/// An error if a trial or a log runs.
fn nothing_on_trial(attachment: &Attachment) -> Result<()> {
    let name = &attachment.interface.name;
    if let Some(until) = attachment.try_until() {
        return Err(Error::Refused(format!(
            "a trial on '{name}' runs until {until}, and there is one at a time: `limiter keep {name}` keeps what it tries, `limiter keep {name} --revert` ends it"
        )));
    }
    if let Some(until) = attachment.log_until() {
        return Err(Error::Refused(format!(
            "a log on '{name}' runs until {until}, and there is one at a time, also beside a trial: `limiter keep {name} --revert` ends it"
        )));
    }
    Ok(())
}

fn slots<'a>(records: impl IntoIterator<Item = &'a Record>) -> BTreeSet<u32> {
    let slots = records.into_iter().flat_map(|record| &record.limits);
    slots.map(|slot| slot.number).collect()
}

/// Loads the program of `record` over the maps of an attachment. If one of its generations has equal lists, their
/// maps are shared.
fn load(dir: &Dir, views: &[View], record: Record, config: &Constants) -> Result<Loaded> {
    let lists = &record.settings.lists;
    let same =
        |view: &&View| view.record.settings.lists == *lists && view.record.tiers == record.tiers;
    let pinned = views.iter().find(same);
    let prefixes = lists.compile(&record.tiers);
    let lists = match pinned {
        Some(view) => ListMaps::Pinned(&view.folder),
        None => ListMaps::New(&prefixes),
    };
    let program = object::load(config, Maps::Pinned(dir), lists, record.frags)?;
    Ok(Loaded { record, program })
}

/// Pins the next generations, the fallback second, and swaps the first one into the link.
fn swap(
    attachment: &Attachment,
    next: &Loaded,
    fallback: Option<&mut Loaded>,
    first: u64,
) -> Result<()> {
    let dir = &attachment.dir;
    if let Some(Loaded { record, program }) = fallback {
        generation::pin(program, record, dir, first + 1)?;
        let trial = next.record.trial;
        program.stand_by(trial.map_or(NEXT_FALLBACK[0], |trial| trial.next))?;
    }
    generation::pin(&next.program, &next.record, dir, first)?;
    let running = attachment.current.linked.program()?;
    attachment
        .link
        .replace(Some(running.as_fd()), next.program.fd()?)
}

/// Removes all generations but those in `stay`, and all fallbacks but that of `trial`. The next change tries again where
/// that fails.
pub fn clear_others(attachment: &Attachment, stay: &[u64], trial: Option<Trial>) {
    let others = pins::generations(&attachment.dir).unwrap_or_default();
    let others = others.into_iter().filter(|number| !stay.contains(number));
    for (index, number) in others.enumerate() {
        if index == 0 {
            let unused = |index: &u32| trial.is_none_or(|trial| trial.next != *index);
            for unused in NEXT_FALLBACK.into_iter().filter(unused) {
                let _ = maps::clear_next(&attachment.dir, unused);
            }
        }
        let _ = unpin::remove_folder(&attachment.dir, &pins::generation(number), true);
    }
}
