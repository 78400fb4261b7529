//! The lists that all hosts of a fleet share.

use std::{sync::LazyLock, time::Duration};

use ipnet::IpNet;
use redis::{Script, Value};
use serde::Deserialize;

use super::{
    Store,
    connection::Call,
    error::Error,
    exchange::MOST,
    heartbeat::{is_label, label},
    names,
};

const EDIT: &str = include_str!("edit.lua");
static EDIT_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(EDIT));
const READ: &str = include_str!("lists.lua");
static READ_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(READ));

/// Prefixes that a list may have.
pub const PREFIXES: usize = 100_000;
/// Prefixes that go in one message: the store does nothing else meanwhile.
const AT_ONCE: usize = 1_000;

/// A change of a list.
#[derive(Clone, Copy, Debug)]
pub enum Edit<'a> {
    /// Adds prefixes; those that are there already are as if they were new.
    Add {
        /// Which.
        prefixes: &'a [IpNet],
        /// Who says so.
        by: &'a str,
        /// For how long; without it, until they are removed.
        lasts: Option<Duration>,
    },
    /// Adds prefixes that are not there: what a store has lost.
    Restore {
        /// Which.
        prefixes: &'a [IpNet],
        /// Who had added them.
        by: &'a str,
        /// How long ago.
        age: Duration,
        /// For how much longer they are on the list; without it, until they are removed.
        left: Option<Duration>,
    },
    /// Removes prefixes.
    Remove(&'a [IpNet]),
    /// Removes those whose time is over.
    ClearExpired,
}

/// A prefix on a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which.
    pub prefix: IpNet,
    /// Who has added it.
    pub by: String,
    /// How long ago.
    pub age: Duration,
    /// For how much longer it is on the list; without it, until it is removed.
    pub left: Option<Duration>,
}

/// What was read.
#[derive(Debug)]
pub struct Lists {
    /// As of [`super::Beat`].
    pub revision: u64,
    /// Each list that was asked for, in their order. Entries that are of no use, or over, are left out.
    pub lists: Vec<Result<Vec<Entry>, Error>>,
}

/// How an entry is kept.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    by: String,
    at: u64,
    until: Option<u64>,
}

impl Store {
    /// Changes a list, all prefixes at one moment where they are no more than a thousand. Returns how many were added
    /// or were there, or removed.
    ///
    /// # Errors
    /// As [`Self::exchange`]; and where the list would be too long, or is none.
    pub async fn edit(&mut self, fleet: &str, list: &str, edit: Edit<'_>) -> Result<u64, Error> {
        let keys = [
            names::list(names::name(fleet)?, names::name(list)?),
            names::revision(fleet),
        ];
        let now = Duration::ZERO;
        let (verb, prefixes, by, lasts, age) = match edit {
            Edit::Add {
                prefixes,
                by,
                lasts,
            } => ("add", prefixes, label(by)?, lasts, now),
            Edit::Restore {
                prefixes,
                by,
                age,
                left,
            } => ("restore", prefixes, label(by)?, left, age),
            Edit::Remove(prefixes) => ("remove", prefixes, "", None, now),
            Edit::ClearExpired => ("clear", &[][..], "", None, now),
        };
        let by = serde_json::Value::from(by).to_string();
        let micros = |time: Duration| time.as_micros().min(u128::from(MOST / 2)).to_string();
        let lasts = lasts.map_or_else(String::new, micros);
        let head = [
            verb.to_owned(),
            PREFIXES.to_string(),
            by,
            lasts,
            micros(age),
        ];
        let mut parts: Vec<&[IpNet]> = prefixes.chunks(AT_ONCE).collect();
        if let Edit::ClearExpired = edit {
            parts.push(&[]);
        }
        let mut all = 0;
        for part in parts {
            let prefixes = part.iter().map(|prefix| prefix.trunc().to_string());
            let arguments: Vec<String> = head.iter().cloned().chain(prefixes).collect();
            let call = Call {
                script: &EDIT_SCRIPT,
                source: EDIT,
                keys: &keys,
                arguments: &arguments,
            };
            let (status, changed, _revision): (i64, i64, i64) = self.call(&call).await?;
            match status {
                0 => all += u64::try_from(changed).unwrap_or(0),
                1 => return Err(full(list)),
                2 => return Err(no_list(list, &keys[0])),
                _ => return Err(self.garbled("no status of an edit")),
            }
        }
        Ok(all)
    }

    /// Reads lists.
    ///
    /// # Errors
    /// As [`Self::exchange`]. What is wrong with one list is said in its place.
    pub async fn lists(&mut self, fleet: &str, lists: &[&str]) -> Result<Lists, Error> {
        let Some((first, others)) = lists.split_first() else {
            return self.some_lists(fleet, &[]).await;
        };
        // One list is as long as a reply may be.
        let mut read = self.some_lists(fleet, &[first]).await?;
        for list in others {
            let more = self.some_lists(fleet, &[list]).await?;
            // What has changed between the two is read again.
            read.revision = read.revision.min(more.revision);
            read.lists.extend(more.lists);
        }
        Ok(read)
    }

    async fn some_lists(&mut self, fleet: &str, lists: &[&str]) -> Result<Lists, Error> {
        let mut keys = vec![names::revision(names::name(fleet)?)];
        for list in lists {
            keys.push(names::list(fleet, names::name(list)?));
        }
        let call = Call {
            script: &READ_SCRIPT,
            source: READ,
            keys: &keys,
            arguments: &[PREFIXES.to_string()],
        };
        let answer: Vec<Value> = self.call(&call).await?;
        let number = |value: &Value| match value {
            Value::Int(number) => u64::try_from(*number).ok().filter(|it| *it <= MOST),
            _ => None,
        };
        let (Some(now), Some(revision)) = (
            answer.first().and_then(number),
            answer.get(1).and_then(number),
        ) else {
            return Err(self.garbled("no time, or no revision"));
        };
        if answer.len() != 2 + lists.len() {
            return Err(self.garbled("not as many lists as were asked for"));
        }
        let mut read = Vec::with_capacity(lists.len());
        for ((value, list), key) in answer[2..].iter().zip(lists).zip(&keys[1..]) {
            let Value::Array(fields) = value else {
                return Err(self.garbled("a list that is none"));
            };
            read.push(match fields.first() {
                Some(Value::Int(-1)) => Err(no_list(list, key)),
                Some(Value::Int(length))
                    if usize::try_from(*length).is_ok_and(|it| it <= PREFIXES) =>
                {
                    Ok(entries(&fields[1..], now))
                }
                Some(Value::Int(_)) => Err(full(list)),
                _ => return Err(self.garbled("a list without a length")),
            });
        }
        Ok(Lists {
            revision,
            lists: read,
        })
    }
}

fn full(list: &str) -> Error {
    Error::ListFull {
        list: list.to_owned(),
        most: PREFIXES,
    }
}

fn no_list(list: &str, key: &str) -> Error {
    Error::NotAList {
        list: list.to_owned(),
        key: key.to_owned(),
    }
}

fn entries(fields: &[Value], now: u64) -> Vec<Entry> {
    let pairs = fields.chunks_exact(2).take(PREFIXES);
    pairs.filter_map(|pair| entry(pair, now)).collect()
}

fn entry(pair: &[Value], now: u64) -> Option<Entry> {
    let [Value::BulkString(prefix), Value::BulkString(value)] = pair else {
        return None;
    };
    let text = std::str::from_utf8(prefix).ok()?;
    let prefix: IpNet = text.parse().ok()?;
    // As we write it, and in no other way: else one could be there twice.
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
    fn only_what_was_written_in_earnest_is_an_entry() {
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
