//! The lists that all hosts of a fleet share.

use std::time::{Duration, Instant};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{
    Store,
    engine::ListEdit,
    error::Error,
    exchange::MOST,
    names::{self, is_label, printable},
};

/// Maximum prefixes on a list.
pub const PREFIXES: usize = 100_000;
/// Prefixes per message of a reading.
pub(super) const READ_AT_ONCE: usize = 500;
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

/// The result of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Number of prefixes that were added, renewed or removed.
    pub prefixes: u64,
    /// The revision after the change.
    pub revision: u64,
}

/// A prefix on a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The prefix.
    pub prefix: IpNet,
    /// Name of the host that added the prefix; then `: ` and the reason, if there is one.
    pub by: String,
    /// Time at which the entry was read.
    pub at: Instant,
    /// Time since the prefix was added, when it was read.
    pub age: Duration,
    /// Time until the prefix expires, when it was read; without it, the prefix stays until it is removed.
    pub left: Option<Duration>,
}

/// The lists as read from the store.
#[derive(Debug)]
pub struct Lists {
    /// The revision; see [`super::Beat`].
    pub revision: u64,
    /// The requested lists, in the requested order. Invalid and expired entries are left out.
    pub lists: Vec<Result<Vec<Entry>, Error>>,
}

/// The stored form of an entry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    by: String,
    at: u64,
    until: Option<u64>,
}

impl Store {
    /// Changes a list in the name of a host. All prefixes change at the same moment. Adding prefixes also removes
    /// expired prefixes from the store. No host depends on that: its kernel ends each ban in time.
    /// Fails if the list would be too long, or the key holds something else.
    pub async fn edit(
        &mut self,
        fleet: &str,
        list: &str,
        by: &str,
        edit: &Edit,
    ) -> Result<Changed, Error> {
        let micros = |time: Duration| {
            u64::try_from(time.as_micros()).map_or(MOST / 2, |it| it.min(MOST / 2))
        };
        let author;
        let (add, prefixes) = match edit {
            Edit::Add {
                prefixes,
                lasts,
                reason,
            } => {
                author = printable(format!("{by}: {reason}").trim_end_matches(": "));
                (Some((&*author, lasts.map(micros))), prefixes)
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
        let (prefixes, revision) = self.engine.edit(&edit).await?;
        Ok(Changed { prefixes, revision })
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
    async fn list(&self, fleet: &str, list: &str, lowest: &mut u64) -> Result<Vec<Entry>, Error> {
        let (mut all, mut place) = (Vec::new(), None);
        for _ in 0..PARTS {
            let part = self.engine.part(fleet, list, place.as_deref()).await?;
            if part.now.max(part.revision) > MOST {
                return Err(self.target.invalid("a number that is too large"));
            }
            *lowest = part.revision.min(*lowest);
            let entries = part.entries.iter();
            all.extend(entries.filter_map(|(prefix, value)| entry(prefix, value, part.now)));
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

pub(super) fn full(list: &str) -> Error {
    Error::ListFull(list.to_owned(), PREFIXES)
}

fn entry(prefix: &[u8], value: &[u8], now: u64) -> Option<Entry> {
    let text = std::str::from_utf8(prefix).ok()?;
    let prefix: IpNet = text.parse().ok()?;
    // Accepts only the spelling that limiter writes. Otherwise one prefix could be on the list twice.
    if prefix.trunc().to_string() != text {
        return None;
    }
    let Kept { by, at, until } = serde_json::from_slice(value).ok()?;
    if !is_label(&by) || until.is_some_and(|until| until <= now) {
        return None;
    }
    Some(Entry {
        prefix,
        by,
        at: Instant::now(),
        age: Duration::from_micros(now.saturating_sub(at)),
        left: until.map(|until| Duration::from_micros(until - now)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(prefix: &str, value: &str) -> Option<Entry> {
        entry(prefix.as_bytes(), value.as_bytes(), 1_000)
    }

    #[test]
    fn only_well_formed_list_entries_are_read() {
        let good = read("192.0.2.0/24", r#"{"by":"me","at":400,"until":1500}"#).unwrap();
        assert_eq!(good.age, Duration::from_micros(600));
        assert_eq!(good.left, Some(Duration::from_micros(500)));
        let value = r#"{"by":"me","at":400,"until":null}"#;
        assert!(read("2001:db8::/32", value).is_some());
        for prefix in [
            "192.0.2.1/24",
            "192.0.2.0",
            "192.0.2.0/33",
            "2001:DB8::/32",
            "x",
        ] {
            assert_eq!(read(prefix, value), None, "{prefix}");
        }
        for value in [
            "",
            "{}",
            r#"{"by":"me","at":400,"until":1000}"#,
            r#"{"by":"me","at":-1,"until":null}"#,
            r#"{"by":"","at":1,"until":null}"#,
            "{\"by\":\"\\u001b\",\"at\":1,\"until\":null}",
            r#"{"by":"me","at":1,"until":null,"more":1}"#,
            r#"{"by":"me","at":1.5,"until":null}"#,
        ] {
            assert_eq!(read("192.0.2.0/24", value), None, "{value}");
        }
    }
}
