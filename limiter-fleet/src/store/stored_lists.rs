//! The lists that all hosts of a fleet share.

use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{
    Store,
    engine::{Addition, Changed, ListEdit, MOST, PREFIXES},
    error::Error,
    names::{self, printable},
    stored_prefix::StoredPrefix,
};

/// Maximum messages of a reading. A list that was longer before has empty parts.
const PARTS: usize = 1_000;

/// A change of a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Edit {
    /// Adds prefixes, and renews prefixes that are already there.
    Add {
        /// The prefixes.
        prefixes: Vec<IpNet>,
        /// Lifetime of the entries, for bans; without it, they stay until they are removed.
        lasts: Option<Duration>,
        /// The reason, for bans; may be empty.
        reason: String,
    },
    /// Removes prefixes.
    Remove(Vec<IpNet>),
}

/// The lists as read from the store.
#[derive(Debug)]
pub struct Lists {
    /// The revision; see [`super::Beat`].
    pub revision: u64,
    /// The requested lists, in the requested order. Invalid and expired entries are left out.
    pub lists: Vec<Result<Vec<StoredPrefix>, Error>>,
}

impl Store {
    /// Changes a list in the name of a host. All prefixes change at the same moment. Adding prefixes also removes
    /// expired prefixes from the store. No host depends on that: its kernel ends each ban in time.
    /// Fails if the list would be too long, or the key holds something else.
    pub async fn edit(
        &mut self,
        fleet: &str,
        list: &str,
        host: &str,
        edit: &Edit,
    ) -> Result<Changed, Error> {
        let micros = |time: Duration| {
            u64::try_from(time.as_micros()).map_or(MOST / 2, |micros| micros.min(MOST / 2))
        };
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
            prefixes: prefixes.collect(),
            add,
        };
        self.engine.edit(&edit).await
    }

    /// Reads lists. The error of a single list is returned in its place.
    pub async fn lists(&mut self, fleet: &str, lists: &[String]) -> Result<Lists, Error> {
        let mut read = Lists {
            revision: MOST,
            lists: Vec::with_capacity(lists.len()),
        };
        let fleet = names::name(fleet)?;
        for list in lists {
            let entries = self.list(fleet, names::name(list)?, &mut read.revision);
            read.lists.push(match entries.await {
                Err(error @ Error::At(..)) => return Err(error),
                entries => entries,
            });
        }
        Ok(read)
    }

    /// Reads a list in parts. `lowest` becomes the lowest revision: changes between the parts are read again.
    async fn list(
        &self,
        fleet: &str,
        list: &str,
        lowest: &mut u64,
    ) -> Result<Vec<StoredPrefix>, Error> {
        let (mut all, mut place) = (Vec::new(), None);
        for _ in 0..PARTS {
            let part = self.engine.part(fleet, list, place.as_deref()).await?;
            if part.now.max(part.revision) > MOST {
                return Err(self.target.invalid("a number that is too large"));
            }
            *lowest = part.revision.min(*lowest);
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
