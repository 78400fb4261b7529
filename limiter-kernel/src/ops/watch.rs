//! Watching drops. The switch is on for a short lease, which this process renews. The program reports drops by a ring
//! buffer, which has one reader.

use std::{collections::BTreeMap, mem::offset_of, process, sync::atomic::Ordering, time::Duration};

use aya::maps::{Map, MapData, RingBuf};
use ipnet::IpNet;
use limiter_common::{
    abi::events::{ANY_SLOT, Event, SNAP_SHIFT, Watch},
    policy::verdict::Reason,
    table::key::{SLOTS, Words as AddressWords},
};
use limiter_config::{Direction, Invalid, key::address};

use crate::{
    Attachment, Error, Failed, Result,
    program::{Raw, Tables, maps::open_map},
    state::{Current, Record, pins},
    sys::{Dir, Link, Lock, clock, lock, words::Words},
};

/// The switch goes off this long after the last renewal ([`Watching::renew`]).
const LEASE: Duration = Duration::from_secs(3);

/// Index of a field's 64-bit word.
macro_rules! word {
    ($field:ident) => {
        offset_of!(Watch, $field) / size_of::<u64>()
    };
}

/// Drops to report.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only drops of these sources; `None` for all.
    pub source: Option<IpNet>,
    /// Only drops by the limit of this name; `None` for all.
    pub limit: Option<String>,
    /// Only drops for these reasons; empty for all.
    pub reasons: Vec<Reason>,
    /// Bytes to copy of each packet.
    pub snap: u32,
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
    _alone: Lock,
}

impl Drop for Watching {
    /// The switch is off before the fields are dropped, and so before another process may watch.
    fn drop(&mut self) {
        self.stop();
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
        let switch = Words::map(&open_map(&dir, "WATCH")?, size_of::<Watch>());
        let switch = switch.failed("memory-mapping the map WATCH")?;
        let alone = be_alone(&dir, name, &switch)?;
        let events = RingBuf::try_from(Map::RingBuf(open_map(&dir, "EVENTS")?))?;
        let mut watching = Self {
            interface: interface.name,
            in_stack: record.tc,
            no_ethernet: record.no_ethernet,
            direction: record.settings.direction,
            names: BTreeMap::new(),
            lost_before: tables.events_lost()?,
            session: fastrand::u64(1..),
            events,
            _alone: alone,
            dir,
            filter,
            current,
            switch,
            tables,
        };
        if let Some(name) = &watching.filter.limit {
            limit_named(&record, name)?;
        }
        // Discards what a killed `watch` has left.
        watching.stop();
        while watching.events.next().is_some() {}
        watching.want();
        watching.know(&record);
        watching.renew()?;
        Ok(watching)
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

    /// Wanted drops that were not reported, because there were too many.
    pub fn lost(&self) -> Result<u64> {
        Ok(self.tables.events_lost()?.wrapping_sub(self.lost_before))
    }

    /// Renews the lease of the switch. Returns `true` if the switch was off, because this process was stopped.
    pub fn renew(&self) -> Result<bool> {
        let until = clock::now()? + u64::try_from(LEASE.as_nanos()).unwrap_or(0);
        Ok(self.switch[word!(until)].swap(until, Ordering::AcqRel) == 0)
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
        Ok(())
    }

    /// Stops reporting. [`Self::next_event`] still returns earlier events.
    pub fn stop(&mut self) {
        self.put(word!(until), 0);
    }

    fn put(&self, word: usize, value: u64) {
        self.switch[word].store(value, Ordering::Release);
    }

    /// Writes the filter. The switch is off.
    fn want(&self) {
        let Filter {
            source,
            reasons,
            snap,
            ..
        } = &self.filter;
        let wanted = |reason: &Reason| reasons.is_empty() || reasons.contains(reason);
        let bits = Reason::drops()
            .filter(wanted)
            .fold(0, |bits, reason| bits | 1 << (reason as u32));
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
    }
}

/// Reads an event. Fields that a program of an earlier version does not write are unknown.
pub fn read(bytes: &[u8]) -> Option<Event> {
    const UNKNOWN: u8 = 0xff;
    let known = bytes.len().min(size_of::<Event>());
    if known < Event::SHORT {
        return None;
    }
    let mut whole = [UNKNOWN; size_of::<Event>()];
    whole[..known].copy_from_slice(&bytes[..known]);
    Raw::read(&whole)
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

/// Locks the folder `watch`, so that no other process can watch meanwhile. It has a folder of its own
/// among the pins, because only folders can be locked there.
fn be_alone(folder: &Dir, interface: &str, switch: &Words) -> Result<Lock> {
    let watch = {
        // Prevents that another command removes the folder meanwhile.
        let _lock = lock::lock(folder)?;
        let there = folder.open(pins::WATCH)?;
        there.map_or_else(|| folder.make(pins::WATCH), |there| Ok(Some(there)))?
    };
    let watch = watch.ok_or_else(|| Error::NotAttached(interface.to_owned()))?;
    lock::try_lock(&watch)?.ok_or_else(|| {
        // Above the process's id is another number.
        let process = switch[word!(process)].load(Ordering::Acquire) & u64::from(u32::MAX);
        let who = match process {
            0 => "another process".to_owned(),
            number => format!("process {number}"),
        };
        Error::Refused(format!(
            "{who} watches '{interface}' already, and one process can watch at a time: end that process first, or have it write to a file"
        ))
    })
}

/// Family, mask and address of a prefix. The words have the byte order of packets.
fn in_packets(prefix: IpNet) -> (u64, AddressWords, AddressWords) {
    let [mask, network] = [prefix.netmask(), prefix.network()].map(address);
    (network.family.into(), mask.words, network.words)
}

#[cfg(test)]
mod tests {
    use limiter_common::abi::rules::ANY;

    use super::*;

    #[test]
    fn event_of_an_earlier_program_has_unknown_fields() {
        let bytes = [0; size_of::<Event>()];
        let event = read(&bytes[..Event::SHORT]).expect("long enough");
        assert_eq!(event.has_destination, 0);
        assert_eq!((event.source_port, event.flags), (ANY, ANY));
        assert_eq!(read(&bytes), Some(Event::default()));
        assert_eq!(read(&bytes[1..Event::SHORT]), None);
    }
}
