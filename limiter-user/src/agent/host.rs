//! The implementation of limiter-fleet's host.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use limiter_common::{
    abi::{REASON_MAX, Source},
    arithmetic::bucket::ticks,
    table::{
        entry::epoch_in,
        key::{IPV6, SLOTS, SourceKey, is_link_local},
    },
};
use limiter_config::{Prefixes, Scope};
use limiter_feed::{Wanted, WantedBan, bannable};
use limiter_fleet::{
    conflicts::Held,
    host::{About, Attachments, Edited, Host, Limit, OnLists, Sighting, Table},
    refill::{self, Reading},
    shared_quota::Quota,
    store::StoredPrefix,
};
use limiter_kernel::{
    Attachment, Error, Result,
    ops::{bans::BY_FLEET, set},
    program::{Tables, maps::Charge},
    sys::clock,
};
use tokio::{runtime::Handle, sync::Semaphore};

use crate::{
    feed,
    observe::{Reader, readers as all_readers},
};

/// The attachments of this network namespace.
#[derive(Debug)]
pub struct Here;

impl Host for Here {
    type Table = Attached;

    fn now(&self) -> Result<u64, String> {
        let now = clock::now().map_err(|error| error.to_string())?;
        Ok(ticks(now))
    }

    async fn attachments(&mut self) -> Result<Attachments<Attached>, String> {
        let found = Attachment::all().await;
        let (attachments, mut errors) = found.map_err(|error| error.to_string())?;
        let mut tables = Vec::new();
        for attachment in attachments {
            match Attached::new(attachment) {
                Ok(table) => tables.extend(table),
                Err(error) => errors.push(error),
            }
        }
        let errors = errors.iter().map(ToString::to_string).collect();
        Ok(Attachments { tables, errors })
    }

    async fn edit_lists(
        interface: String,
        lists: OnLists,
        bans: Option<Vec<StoredPrefix>>,
    ) -> Edited {
        // Bounds the memory and the threads of a host with many interfaces.
        static EDITS: Semaphore = Semaphore::const_new(4);
        let _permit = EDITS.acquire().await;
        // Waits for other commands, and loads a program. The agent has other work meanwhile.
        let runtime = Handle::current();
        let edit = async move {
            let text = |error: Error| error.to_string();
            let swapped = set::overlay(&interface, prefixes(lists)).await;
            let banned = match bans {
                Some(bans) => feed::bring(&interface, BY_FLEET, wanted(bans)).await,
                None => Ok(None),
            };
            let swapped = swapped.map(|swapped| swapped.is_some());
            Edited {
                lists: swapped.map_err(text),
                bans: banned.map_err(text),
            }
        };
        let edited = tokio::task::spawn_blocking(move || runtime.block_on(edit)).await;
        edited.unwrap_or_else(|error| Edited {
            lists: Err(error.to_string()),
            bans: Err(error.to_string()),
        })
    }
}

fn prefixes(lists: OnLists) -> BTreeMap<String, Prefixes> {
    let lists = lists.into_iter();
    lists
        .map(|(name, prefixes)| (name, prefixes.into_iter().collect()))
        .collect()
}

/// The fleet's bans as those of a feed, without those that have ended or that no host can make.
fn wanted(bans: Vec<StoredPrefix>) -> Wanted {
    let now = Instant::now();
    let bans = bans.into_iter().filter_map(|ban| {
        let ends = ban.left.map(|left| ban.read_at + left);
        let reason = ban.author.chars().take(REASON_MAX).collect();
        let is_good = ends.is_none_or(|ends| ends > now) && bannable(&ban.prefix).is_ok();
        is_good.then_some((ban.prefix, WantedBan { ends, reason }))
    });
    bans.collect()
}

/// An attachment that belongs to a fleet.
pub struct Attached {
    about: About,
    tables: Tables,
    /// The readers of the limits' buckets, by slot.
    readers: [Option<Reader>; SLOTS as usize],
}

impl Attached {
    /// Creates the attachment for the agent. None if the settings name no fleet.
    fn new(attachment: Attachment) -> Result<Option<Self>> {
        let settings = &attachment.record.settings;
        let Some(fleet) = settings.fleet.clone() else {
            return Ok(None);
        };
        let mut about = About {
            interface: attachment.interface.name.clone(),
            index: attachment.interface.index,
            fleet,
            lists: settings.fleet_lists.clone(),
            table: attachment.tables.sets.id,
            program: attachment.program_id,
            entries: usize::try_from(attachment.tables.sets.capacity()).unwrap_or(usize::MAX),
            limits: [const { None }; SLOTS as usize],
        };
        let mut readers = [const { None }; SLOTS as usize];
        for reader in all_readers(&attachment)? {
            let limit = &reader.limit;
            if limit.scope != Scope::Fleet {
                continue;
            }
            let kernel = &reader.quota.in_kernel;
            let quota = Quota {
                tau: kernel.tau,
                cost: kernel.cost.max(1),
                epoch: reader.epoch,
            };
            let burst = limit.burst(attachment.record.frame_max)?;
            let held = Held {
                name: limit.name.clone(),
                quota: format!("{} {} {}", limit.key, quota.cost, quota.tau),
                words: format!("{}, burst {burst}, per {}", limit.rate, limit.key),
            };
            let slot = reader.slot as usize;
            if let (Some(limit_place), Some(reader_place)) =
                (about.limits.get_mut(slot), readers.get_mut(slot))
            {
                *limit_place = Some(Arc::new(Limit { quota, held }));
                *reader_place = Some(reader);
            }
        }
        Ok(Some(Self {
            about,
            tables: attachment.tables,
            readers,
        }))
    }

    fn reader(&self, key: &SourceKey) -> Option<&Reader> {
        if is_of_one_link(key) {
            return None;
        }
        self.readers.get(key.slot() as usize)?.as_ref()
    }
}

/// Returns true if the source is a link-local address. It belongs to another neighbour on each host, so hosts do not
/// share its bucket.
fn is_of_one_link(key: &SourceKey) -> bool {
    key.family() == IPV6 && is_link_local(&key.address())
}

impl Table for Attached {
    fn about(&self) -> &About {
        &self.about
    }

    fn scan(&self, now: u64, mut each: impl FnMut(usize, &SourceKey, Option<Sighting>)) {
        self.tables.sets.scan(|number, key, source| {
            if let Some(reader) = self.reader(key) {
                each(number, key, sighting(reader, source, now));
            }
        });
    }

    fn read(&self, number: usize, key: &SourceKey, now: u64) -> Option<Sighting> {
        let source = self.tables.sets.source_in(number, key)?;
        sighting(self.reader(key)?, &source, now)
    }

    fn charge(&self, number: usize, key: &SourceKey, now: u64, ticks: u64, most: u64) -> u64 {
        let Some(reader) = self.reader(key) else {
            return 0;
        };
        let mut added = 0;
        let change = |source: &Source| match epochs_behind(reader, source) {
            1.. => Charge::Convert(reader.tat(source)),
            ..0 => Charge::Nothing,
            0 => match refill::charged(source.tat, now, ticks, most) {
                Some((tat, ticks)) => {
                    added = ticks;
                    Charge::To(tat)
                }
                None => Charge::Nothing,
            },
        };
        let is_charged = self.tables.sets.charge(number, key, reader.epoch, change);
        if is_charged { added } else { 0 }
    }
}

/// Number of epochs by which the quota of a bucket's TAT is behind the reader's. Negative: the configuration has
/// changed since it was read.
fn epochs_behind(reader: &Reader, source: &Source) -> i32 {
    let epoch = epoch_in(source.over, reader.epoch);
    reader.epoch.wrapping_sub(epoch).cast_signed()
}

/// The sighting of a source at the time `now`, in ticks. None if its quota is later than the reader's.
fn sighting(reader: &Reader, source: &Source, now: u64) -> Option<Sighting> {
    let tat = match epochs_behind(reader, source) {
        0 => source.tat,
        1.. => reader.tat(source),
        ..0 => return None,
    };
    let over = if reader.shadow { source.refused } else { 0 };
    Some(Sighting {
        reading: Reading {
            tat,
            epoch: reader.epoch,
            now,
        },
        admitted: source.passed.saturating_sub(over),
    })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use limiter_common::table::{key::KeyMask, nat64::Nat64};

    use super::*;
    use limiter_config::{DENY, key::address as address_of, lists::BANS};

    #[test]
    fn fleet_and_files_give_these_lists_the_same_names() {
        let of_fleet = [limiter_fleet::host::DENY, limiter_fleet::host::BANS];
        assert_eq!(of_fleet, [DENY, BANS]);
    }

    #[test]
    fn link_local_sources_are_not_shared() {
        let mask = KeyMask::prefixes(32, 64);
        for (source, own) in [
            ("fe80::1", true),
            ("febf::1", true),
            ("fec0::1", false),
            ("2001:db8::1", false),
            // An IPv4 address with the first bits of fe80::.
            ("254.128.0.1", false),
        ] {
            let address: IpAddr = source.parse().unwrap();
            let key = mask.key(0, &address_of(address), 0, &Nat64::WELL_KNOWN);
            assert_eq!(is_of_one_link(&key), own, "{source}");
        }
    }
}
