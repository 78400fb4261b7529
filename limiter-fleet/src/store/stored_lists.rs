//! The lists that all hosts of a fleet share.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use super::{
    Store,
    engine::{Addition, Changed, ListEdit, Lost, MOST, PREFIXES, READ_AT_ONCE, Restoration},
    error::Error,
    names::{self, printable},
    stored_prefix::StoredPrefix,
};
use crate::question::Edit;

/// Maximum messages of a reading. A list that was longer before has empty parts.
const PARTS: usize = 1_000;

/// The lists as read from the store.
#[derive(Debug)]
pub struct Lists {
    /// The revision; see [`super::Beat`].
    pub revision: u64,
    /// The time of the first change of a list; 0 if there was none. Another value than before means that the store has
    /// lost the lists.
    pub born: u64,
    /// The lists that are shorter than the store has recorded: the server has evicted them.
    pub short: BTreeSet<String>,
    /// The requested lists, in the requested order. Invalid and expired entries are left out.
    pub lists: Vec<Result<Vec<StoredPrefix>, Error>>,
}

impl Store {
    /// Changes a list in the name of a host. All prefixes change at the same moment. Adding prefixes also removes
    /// expired prefixes from the store. No host depends on that: its kernel ends each ban in time. `born`: the birth of
    /// the lists that the host knows.
    /// Fails if the list would be too long, the key holds something else, or the store has lost these lists.
    pub async fn edit(
        &mut self,
        fleet: &str,
        list: &str,
        host: &str,
        born: u64,
        edit: &Edit,
    ) -> Result<Changed, Error> {
        let author;
        let (add, prefixes) = match edit {
            Edit::Add {
                prefixes,
                lasts,
                reason,
            } => {
                author = printable(format!("{host}: {reason}").trim_end_matches(": "));
                let add = Addition {
                    author: &author,
                    lasts: lasts.map(micros),
                };
                (Some(add), prefixes)
            }
            Edit::Remove(prefixes) => (None, prefixes),
        };
        let prefixes = prefixes.iter().map(|prefix| prefix.trunc().to_string());
        let edit = ListEdit {
            fleet: names::name(fleet)?,
            list: names::name(list)?,
            born,
            prefixes: prefixes.collect(),
            add,
        };
        self.engine.edit(&edit).await
    }

    /// Puts entries of lists back that the store has lost, as a host knows them of the revision `known`, unless an agent
    /// has put the same revision of a list or a later one back.
    pub async fn restore(
        &mut self,
        fleet: &str,
        known: u64,
        lists: &BTreeMap<String, Vec<StoredPrefix>>,
    ) -> Result<(), Error> {
        let fleet = names::name(fleet)?;
        let now = Instant::now();
        for (list, entries) in lists {
            let mut entries = entries.iter().map(|entry| Lost {
                prefix: entry.prefix.to_string(),
                author: &entry.author,
                age: micros(entry.age_at(now)),
                left: entry.left_at(now).map(micros),
            });
            loop {
                let part: Vec<_> = entries.by_ref().take(READ_AT_ONCE).collect();
                let restoration = Restoration {
                    fleet,
                    list: names::name(list)?,
                    known,
                    is_last: entries.len() == 0,
                    entries: part,
                };
                if !self.engine.restore(&restoration).await? || restoration.is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads lists. The error of a single list is returned in its place.
    pub async fn lists(&mut self, fleet: &str, lists: &[String]) -> Result<Lists, Error> {
        let mut read = Lists {
            revision: MOST,
            born: 0,
            short: BTreeSet::new(),
            lists: Vec::with_capacity(lists.len()),
        };
        let fleet = names::name(fleet)?;
        for list in lists {
            let entries = self.list(fleet, names::name(list)?, &mut read).await;
            read.lists.push(match entries {
                Err(error @ Error::At(..)) => return Err(error),
                entries => entries,
            });
        }
        Ok(read)
    }

    /// Reads a list in parts. The revision becomes the lowest: changes between the parts are read again.
    async fn list(
        &self,
        fleet: &str,
        list: &str,
        read: &mut Lists,
    ) -> Result<Vec<StoredPrefix>, Error> {
        let (mut all, mut place) = (Vec::new(), None);
        for _ in 0..PARTS {
            let part = self.engine.part(fleet, list, place.as_deref()).await?;
            if part.now.max(part.revision).max(part.born) > MOST {
                return Err(self.target.invalid("a number that is too large"));
            }
            (read.revision, read.born) = (part.revision.min(read.revision), part.born);
            if part.is_short {
                read.short.insert(list.to_owned());
            }
            let prefixes = part.prefixes.iter();
            all.extend(prefixes.filter_map(|written| StoredPrefix::read(written, part.now)));
            place = part.next;
            if place.is_none() {
                return Ok(all);
            }
            // Parts may repeat prefixes.
            if all.len() > 2 * PREFIXES {
                break;
            }
        }
        Err(self.target.invalid("a list without an end"))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).map_or(MOST / 2, |micros| micros.min(MOST / 2))
}
