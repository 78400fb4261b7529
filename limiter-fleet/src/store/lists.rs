//! The lists that all hosts of a fleet share.

use std::time::{Duration, Instant};

use ipnet::IpNet;
use redis::Value;
use serde::{Deserialize, Serialize};

use super::{
    Store,
    error::Error,
    exchange::MOST,
    names::{self, is_label, printable},
};

const EDIT: &str = include_str!("edit.lua");
const READ: &str = include_str!("lists.lua");

/// Maximum prefixes on a list.
pub const PREFIXES: usize = 100_000;
/// Prefixes per message of a reading.
const READ_AT_ONCE: usize = 500;
/// Maximum messages of a reading. A list that was longer before has empty parts.
const PARTS: usize = 1_000;

/// A change of a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Edit {
    /// Adds prefixes, and renews prefixes that are already there.
    Add {
        /// The prefixes.
        prefixes: Vec<IpNet>,
        /// Lifetime of the entries; without it, they stay until they are removed.
        lasts: Option<Duration>,
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
    /// Name of the host that added the prefix.
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
    /// expired prefixes from the store. No host depends on that: all hosts know when an entry expires.
    /// Fails if the list would be too long, or the key holds something else.
    pub async fn edit(
        &mut self,
        fleet: &str,
        list: &str,
        by: &str,
        edit: &Edit,
    ) -> Result<Changed, Error> {
        let keys = [names::list(fleet, list)?, names::key(fleet, "revision")?];
        let micros = |time: Duration| time.as_micros().min(u128::from(MOST / 2)).to_string();
        let (entry, prefixes) = match edit {
            Edit::Add { prefixes, lasts } => {
                let by = serde_json::json!(printable(by)).to_string();
                ([by, lasts.map_or_else(String::new, micros)], prefixes)
            }
            Edit::Remove(prefixes) => ([const { String::new() }; 2], prefixes),
        };
        let prefixes = prefixes.iter().map(|prefix| prefix.trunc().to_string());
        let prefixes: Vec<_> = prefixes.collect();
        let arguments = (PREFIXES, &entry, prefixes);
        let (status, prefixes, revision) = self.call(EDIT, &keys, arguments).await?;
        match status {
            0 => Ok(Changed { prefixes, revision }),
            1 => Err(full(list)),
            2 => Err(no_list(list, &keys[0])),
            _ => Err(self.invalid("an edit without a status")),
        }
    }

    /// Reads lists. The error of a single list is returned in its place.
    pub async fn lists(&mut self, fleet: &str, lists: &[String]) -> Result<Lists, Error> {
        let mut read = Lists {
            revision: MOST,
            lists: Vec::with_capacity(lists.len()),
        };
        for list in lists {
            let entries = self.list(fleet, list, &mut read.revision).await?;
            read.lists.push(entries);
        }
        Ok(read)
    }

    /// Reads a list in parts. `lowest` becomes the lowest revision: changes between the parts are read again.
    async fn list(
        &mut self,
        fleet: &str,
        list: &str,
        lowest: &mut u64,
    ) -> Result<Result<Vec<Entry>, Error>, Error> {
        let keys = [names::key(fleet, "revision")?, names::list(fleet, list)?];
        let (mut all, mut place) = (Vec::new(), "0".to_owned());
        for _ in 0..PARTS {
            type Answer = (u64, u64, i64, String, Vec<Value>);
            let arguments = (PREFIXES, place, READ_AT_ONCE);
            let (now, revision, length, next, fields): Answer =
                self.call(READ, &keys, arguments).await?;
            if now > MOST || revision > MOST {
                return Err(self.invalid("a number that is too large"));
            }
            *lowest = revision.min(*lowest);
            match usize::try_from(length) {
                Err(_) => return Ok(Err(no_list(list, &keys[1]))),
                Ok(length) if length > PREFIXES => return Ok(Err(full(list))),
                Ok(_) => all.extend(fields.chunks_exact(2).filter_map(|pair| entry(pair, now))),
            }
            if next == "0" {
                return Ok(Ok(all));
            }
            // Parts may repeat prefixes.
            if all.len() > 2 * PREFIXES {
                break;
            }
            place = next;
        }
        Err(self.invalid("a list without an end"))
    }
}

fn full(list: &str) -> Error {
    Error::ListFull(list.to_owned(), PREFIXES)
}

fn no_list(list: &str, key: &str) -> Error {
    Error::NotAList(list.to_owned(), key.to_owned())
}

fn entry(pair: &[Value], now: u64) -> Option<Entry> {
    let [Value::BulkString(prefix), Value::BulkString(value)] = pair else {
        return None;
    };
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
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        entry(&[text(prefix), text(value)], 1_000)
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
