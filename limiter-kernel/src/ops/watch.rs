//! Watching packets. The switch is on for a short lease, which this process renews. The program reports to each process
//! by a ring buffer of its own. For packets that pass it is loaded once more, and again without them at the end.

use std::{
    collections::BTreeMap, mem::offset_of, os::fd::AsFd, process, sync::atomic::Ordering,
    time::Duration,
};

use aya::maps::{ArrayOfMaps, Map, MapData, RingBuf};
use ipnet::IpNet;
use limiter_common::{
    abi::events::{ANY_SLOT, EVENTS_BYTES, EVERY, Event, SNAP_SHIFT, Switches, Watch},
    policy::verdict::Reason,
    table::key::{SLOTS, Words as AddressWords},
};
use limiter_config::{Direction, Invalid, key::address};

use crate::{
    Attachment, Error, Failed, Result,
    error::read_failed,
    ops::set,
    program::{
        Raw, Tables,
        maps::{SWITCHES, open_map},
    },
    state::{
        Current, Record,
        watchers::{self, Place},
    },
    sys::{Dir, Link, Lock, bpf, clock, words::Words},
};

/// The switch goes off this long after the last renewal ([`Watching::renew`]).
const LEASE: Duration = Duration::from_secs(3);

/// Index of a field's 64-bit word among those of a watch.
macro_rules! word {
    ($field:ident) => {
        offset_of!(Watch, $field) / size_of::<u64>()
    };
}

/// Index of the word that says which watches are on.
const ACTIVE: usize = offset_of!(Switches, watches.active) / size_of::<u64>();

/// Packets to report.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only packets of these sources; `None` for all.
    pub source: Option<IpNet>,
    /// Only packets that the limit of this name decided; `None` for all.
    pub limit: Option<String>,
    /// Only packets with these reasons; empty for all drops.
    pub reasons: Vec<Reason>,
    /// Without reasons: packets that pass, too.
    pub passed: bool,
    /// Bytes to copy of each packet.
    pub snap: u32,
}

impl Filter {
    /// The wanted reasons. A packet that passes because of shadow has the reason of its drop.
    fn wanted(&self) -> Vec<Reason> {
        let all = Reason::ALL
            .into_iter()
            .filter(|reason| !reason.would_drop());
        match &self.reasons[..] {
            [] if self.passed => all.collect(),
            [] => Reason::drops().collect(),
            reasons => reasons.to_vec(),
        }
    }

    /// True if packets that pass are wanted.
    pub fn wants_passed(&self) -> bool {
        self.wanted().iter().any(|reason| reason.passes())
    }
}

/// An attachment that is being watched.
pub struct Watching {
    /// Name of the interface.
    pub interface: String,
    /// True if the program runs in the network stack, not at the driver.
    pub in_stack: bool,
    /// True if packets begin with the IP header.
    pub no_ethernet: bool,
    /// Direction of the packets.
    pub direction: Direction,
    /// True if the interface was in shadow when the watch began.
    pub in_shadow: bool,
    dir: Dir,
    filter: Filter,
    /// Names of limits, by slot. Limits that were removed may still have events.
    names: BTreeMap<u32, String>,
    /// `names` are in force for as long as this holds.
    current: Current,
    /// The one record of the map `WATCH`.
    switch: Words,
    tables: Tables,
    lost_before: u64,
    events: RingBuf<MapData>,
    session: u64,
    place: Place,
    /// Held while packets that pass are wanted.
    passed: Option<Lock>,
}

impl Drop for Watching {
    /// The switch is off before the fields are dropped, and so before another process may watch in this place.
    fn drop(&mut self) {
        self.stop();
        // Another process removes the ring that is left.
        let _ = remove_ring(&self.dir, self.place.number);
    }
}

impl Watching {
    /// Begins to watch the attachment of `name`. Its drops from here on are reported, or counted as lost.
    pub async fn start(name: &str, filter: Filter) -> Result<Self> {
        // The link is closed here.
        let Attachment {
            interface,
            current,
            record,
            tables,
            dir,
            ..
        } = Attachment::open(name).await?;
        let switch = Words::map(&open_map(&dir, SWITCHES)?, size_of::<Switches>());
        let switch = switch.failed("memory-mapping the map SWITCHES")?;
        if let Some(name) = &filter.limit {
            limit_named(&record, name)?;
        }
        let gone = || Error::NotAttached(name.to_owned());
        let place = watchers::take_place(&dir, name)?.ok_or_else(gone)?;
        for number in &place.left {
            remove_ring(&dir, *number)?;
        }
        let passed = match filter.wants_passed() {
            true => Some(watchers::want_passed(&dir)?.ok_or_else(gone)?),
            false => None,
        };
        let ring = bpf::create_ring(EVENTS_BYTES).failed("making a ring buffer for events")?;
        let ring = MapData::from_fd(ring).map_err(read_failed)?;
        let rings = Map::ArrayOfMaps(open_map(&dir, "EVENTS")?);
        let mut rings: ArrayOfMaps<_, MapData> = rings.try_into().map_err(read_failed)?;
        rings.set(place.number, &ring, 0).map_err(read_failed)?;
        let mut watching = Self {
            interface: interface.name,
            in_stack: record.tc,
            no_ethernet: record.no_ethernet,
            direction: record.settings.direction,
            in_shadow: record.settings.shadow,
            names: BTreeMap::new(),
            lost_before: tables.lost_by(place.number)?,
            session: fastrand::u64(1..),
            events: Map::RingBuf(ring).try_into().map_err(read_failed)?,
            place,
            passed,
            dir,
            filter,
            current,
            switch,
            tables,
        };
        // Ends the watch of a killed process.
        watching.stop();
        watching.want();
        watching.know(&record);
        watching.show_passed(&record).await?;
        watching.renew()?;
        Ok(watching)
    }

    /// Loads the program once more if it does not show wanted packets that pass.
    async fn show_passed(&mut self, record: &Record) -> Result<()> {
        if self.passed.is_none() || record.passed {
            return Ok(());
        }
        set::same(&self.interface).await
    }

    /// Ends the watch. If no other process wants packets that pass, the program shows them no more.
    pub async fn finish(&mut self) -> Result<()> {
        self.stop();
        if self.passed.take().is_none() || watchers::wants_passed(&self.dir)? {
            return Ok(());
        }
        match set::same(&self.interface).await {
            Err(Error::NotAttached(_)) => Ok(()),
            ended => ended,
        }
    }

    /// Reports one packet in this many, in the mean, from now on.
    pub fn sample(&self, one_in: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the quotient is positive, and at most the dividend"
        )]
        let greatest = ((EVERY + 1) as f64 / one_in.max(1.0)) as u64;
        self.put(word!(sample), greatest.saturating_sub(1).min(EVERY));
    }

    /// Takes over the names of limits. If the wanted limit was removed, none is wanted: it drops nothing.
    fn know(&mut self, record: &Record) {
        for slot in &record.limits {
            self.names.insert(slot.number, slot.name.clone());
        }
        if let Some(name) = &self.filter.limit {
            let slot = record.limits.iter().find(|slot| slot.name == *name);
            let slot = slot.map_or(SLOTS, |slot| slot.number);
            self.put(word!(slot), slot.into());
        }
    }

    /// The next available event, and the first bytes of its packet. [`Self::limit`] names its slot.
    pub fn next_event(&mut self) -> Option<(Event, Vec<u8>)> {
        while let Some(item) = self.events.next() {
            // Other sessions are those of killed commands.
            if let Some(event) = read(&item).filter(|event| event.session == self.session) {
                let bytes = item.get(size_of::<Event>()..).unwrap_or_default();
                return Some((event, bytes.to_vec()));
            }
        }
        None
    }

    /// Name of the limit that has a slot, or had it.
    pub fn limit(&self, slot: u32) -> Option<&str> {
        self.names.get(&slot).map(String::as_str)
    }

    /// Wanted packets that were not reported, because there were too many.
    pub fn lost(&self) -> Result<u64> {
        let lost = self.tables.lost_by(self.place.number)?;
        Ok(lost.wrapping_sub(self.lost_before))
    }

    /// Renews the lease of the switch. Returns `true` if the switch was off, because this process was stopped.
    pub fn renew(&self) -> Result<bool> {
        let until = clock::now()? + u64::try_from(LEASE.as_nanos()).unwrap_or(0);
        let before = self.switch[self.word(word!(until))].swap(until, Ordering::AcqRel);
        self.switch[ACTIVE].fetch_or(1 << self.place.number, Ordering::AcqRel);
        Ok(before == 0)
    }

    /// Checks that the attachment is still there, and follows changes of the configuration. Fails if there is nothing
    /// to watch any more.
    pub async fn check(&mut self) -> Result<()> {
        let interface = self.interface.clone();
        let detached = || {
            Error::Refused(format!(
                "limiter was detached from '{interface}', so there is nothing to watch any more: `limiter attach {interface} --rate RATE` attaches it again"
            ))
        };
        let info = Link::open(&self.dir)?.ok_or_else(detached)?.info()?;
        if info.interface == 0 {
            // `detach` removes the pins a moment after the program.
            Link::open(&self.dir)?.ok_or_else(detached)?;
            return Err(Error::TakenOff(interface));
        }
        if self.current.holds(&info)? {
            return Ok(());
        }
        let attachment = Attachment::open(&self.interface).await?;
        // After `detach` and `attach`, the maps are other ones.
        if attachment.tables.sets.id != self.tables.sets.id {
            return Err(detached());
        }
        self.current = attachment.current;
        self.know(&attachment.record);
        self.show_passed(&attachment.record).await
    }

    /// Returns true if packets that pass are wanted.
    pub fn shows_passed(&self) -> bool {
        self.passed.is_some()
    }

    /// Stops reporting. [`Self::next_event`] still returns earlier events.
    pub fn stop(&mut self) {
        self.put(word!(until), 0);
        self.switch[ACTIVE].fetch_and(!(1 << self.place.number), Ordering::AcqRel);
    }

    /// Index of a word of this watch among all words.
    fn word(&self, word: usize) -> usize {
        let first =
            offset_of!(Switches, watches.watches) + self.place.number as usize * size_of::<Watch>();
        first / size_of::<u64>() + word
    }

    fn put(&self, word: usize, value: u64) {
        self.switch[self.word(word)].store(value, Ordering::Release);
    }

    /// Writes the filter. The switch is off.
    fn want(&self) {
        let Filter { source, snap, .. } = &self.filter;
        let reasons = self.filter.wanted().into_iter();
        let bits = reasons.fold(0, |bits, reason| bits | 1 << (reason as u32));
        let (family, mask, address) = source.map_or((0, [0; 2], [0; 2]), in_packets);
        self.put(word!(reasons), bits);
        self.put(word!(slot), ANY_SLOT);
        self.put(word!(family), family);
        for half in 0..2 {
            self.put(word!(mask) + half, mask[half]);
            self.put(word!(address) + half, address[half]);
        }
        let snap = u64::from(*snap) << SNAP_SHIFT;
        self.put(word!(process), snap | u64::from(process::id()));
        self.put(word!(session), self.session);
        self.put(word!(sample), EVERY);
    }
}

/// Removes the ring buffer of a watch that is over.
fn remove_ring(dir: &Dir, place: u32) -> Result<()> {
    let rings = open_map(dir, "EVENTS")?;
    match bpf::remove_inner(rings.fd().as_fd(), place) {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
            Err(Error::system("removing a ring buffer for events", error))
        }
        _ => Ok(()),
    }
}

/// Reads an event.
pub fn read(bytes: &[u8]) -> Option<Event> {
    Raw::read(bytes.get(..size_of::<Event>())?)
}

fn limit_named(record: &Record, name: &str) -> Result<()> {
    let names: Vec<_> = record.limits.iter().map(|slot| &slot.name[..]).collect();
    if names.contains(&name) {
        return Ok(());
    }
    Err(Error::Invalid(Invalid(match names.len() {
        0 => format!("there is no limit '{name}', and no other limit: leave --limit out"),
        _ => format!(
            "there is no limit '{name}': use one of {}",
            names.join(", ")
        ),
    })))
}

/// Family, mask and address of a prefix. The words have the byte order of packets.
fn in_packets(prefix: IpNet) -> (u64, AddressWords, AddressWords) {
    let [mask, network] = [prefix.netmask(), prefix.network()].map(address);
    (network.family.into(), mask.words, network.words)
}
