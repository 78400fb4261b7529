//! Hosts share lists through the store, which expire by its clock and have a maximum length.

use std::time::Duration;

use ipnet::IpNet;
use limiter_fleet::store::{Changed, Edit, Entry, Error, Lists, PREFIXES};
use limiter_tests::eventually;

use super::{Asked, FLEET, store};

const KEY: &str = "limiter:{edge}:list:deny";
const HOUR: Duration = Duration::from_secs(3_600);
/// The host that changes the list.
const BY: &str = "host \"a\"";

impl Asked {
    pub fn try_edit(&mut self, edit: &Edit) -> Result<u64, Error> {
        let edit = self.store.edit(FLEET, "deny", BY, edit);
        let Changed { prefixes, revision } = self.runtime.block_on(edit)?;
        assert_eq!(revision, self.revision(), "the answer has the revision");
        Ok(prefixes)
    }

    pub fn lists(&mut self, names: &[&str]) -> Lists {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let lists = self.store.lists(FLEET, &names);
        self.runtime.block_on(lists).unwrap()
    }

    fn deny(&mut self) -> Vec<Entry> {
        let mut lists = self.lists(&["deny"]).lists;
        lists.remove(0).unwrap()
    }

    fn revision(&mut self) -> u64 {
        self.beat(1, &[], HOUR).revision
    }
}

pub fn prefixes(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

pub fn add(texts: &[&str], lasts: Option<Duration>) -> Edit {
    let prefixes = prefixes(texts);
    Edit::Add { prefixes, lasts }
}

/// They read author, time and time to live too. Each change makes a new revision.
#[test]
fn list_edits_of_one_host_are_read_by_others() {
    let (redis, mut here) = store!();
    let mut there = Asked::of(&redis);
    assert_eq!(there.revision(), 0);
    let (one, two) = (["198.51.100.1/32"], ["192.0.2.7/24", "2001:db8::/32"]);
    assert_eq!(here.try_edit(&add(&two, None)).unwrap(), 2);
    let first = there.revision();
    assert_eq!(here.try_edit(&add(&one, Some(HOUR))).unwrap(), 1);
    let second = there.revision();
    assert!(second > first && first > 0, "{first} {second}");
    let read = there.lists(&["none", "deny"]);
    assert_eq!(read.revision, second);
    assert!(read.lists[0].as_ref().unwrap().is_empty());
    let mut read = there.deny();
    read.sort_by_key(|entry| entry.prefix);
    let texts: Vec<_> = read.iter().map(|entry| entry.prefix.to_string()).collect();
    assert_eq!(texts, ["192.0.2.0/24", "198.51.100.1/32", "2001:db8::/32"]);
    assert!(read.iter().all(|entry| entry.by == BY));
    assert_eq!(read[1].left.map(|left| left + read[1].age), Some(HOUR));
    assert_eq!(read[0].left, None);
    let remove = Edit::Remove(prefixes(&two));
    assert_eq!(here.try_edit(&remove).unwrap(), 2);
    let third = there.revision();
    assert!(third > second);
    // An edit without a change makes no new revision.
    assert_eq!(here.try_edit(&remove).unwrap(), 0);
    assert_eq!((there.revision(), there.deny().len()), (third, 1));
    // A store that has lost its data has another revision, even after the next write.
    redis.cli(&["FLUSHALL"]);
    assert_eq!(there.revision(), 0);
    here.try_edit(&add(&one, None)).unwrap();
    assert!(there.revision() > third);
}

#[test]
fn list_entries_expire_by_the_clock_of_the_store() {
    let (redis, mut store) = store!();
    let (short, long) = (["192.0.2.0/24"], ["192.0.3.0/24"]);
    let moment = Duration::from_millis(30);
    store.try_edit(&add(&short, Some(moment))).unwrap();
    store.try_edit(&add(&long, Some(HOUR))).unwrap();
    let revision = store.revision();
    eventually("expired", || Asked::of(&redis).deny().len() == 1);
    assert_eq!(redis.cli(&["HLEN", KEY]), "2");
    assert_eq!(store.revision(), revision, "the revision is unchanged");
    // An edit that adds prefixes removes the expired ones from the store.
    assert_eq!(store.try_edit(&add(&long, None)).unwrap(), 1);
    assert_eq!(redis.cli(&["HLEN", KEY]), "1");
    assert_eq!(store.deny()[0].prefix.to_string(), long[0]);
}

#[test]
fn malformed_list_entries_are_skipped_and_length_is_bounded() {
    let (redis, mut store) = store!();
    let one = add(&["192.0.2.0/24"], None);
    store.try_edit(&one).unwrap();
    let bad = ["junk", "junk", "10.0.0.1/8", "{}", "10.0.0.0/8", "[]"];
    redis.cli(&[&["HSET", KEY], &bad[..]].concat());
    let large = "redis.call('HSET',KEYS[1],'10.0.0.0/9',string.rep('x',5000000))";
    redis.cli(&["EVAL", large, "1", KEY]);
    let before = redis.sent();
    assert_eq!(store.deny().len(), 1);
    // Invalid fields stay in the store.
    let sent = redis.sent() - before;
    assert!(sent < 100_000, "{sent} bytes");
    let fill = format!("for i=5,{PREFIXES} do redis.call('HSET',KEYS[1],i,'x') end");
    redis.cli(&["EVAL", &fill, "1", KEY]);
    let length = || redis.cli(&["HLEN", KEY]);
    assert_eq!(length(), (PREFIXES + 1).to_string());
    let is_full = |error: &Error| matches!(error, Error::ListFull(list, _) if list == "deny");
    let mut read = store.lists(&["deny", "other"]).lists;
    assert!(is_full(read[0].as_ref().unwrap_err()));
    assert!(read.remove(1).is_ok());
    assert!(is_full(&store.try_edit(&one).unwrap_err()));
    // There is room for one prefix. An existing prefix needs no room.
    redis.cli(&["HDEL", KEY, "5"]);
    let other = add(&["203.0.113.0/24"], None);
    assert!(is_full(&store.try_edit(&other).unwrap_err()));
    assert_eq!(store.try_edit(&one).unwrap(), 1);
    assert_eq!(length(), PREFIXES.to_string());
    redis.cli(&["DEL", KEY]);
    redis.cli(&["SET", KEY, "junk"]);
    let error = store.try_edit(&one).unwrap_err();
    assert!(matches!(error, Error::NotAList(..)), "{error}");
    assert!(error.to_string().contains(KEY), "{error}");
    let read = store.lists(&["deny"]).lists;
    assert!(matches!(read[0], Err(Error::NotAList(..))), "{read:?}");
}

#[test]
fn list_of_maximum_length_is_added_read_and_removed() {
    let (_redis, mut store) = store!();
    let prefix = |i: u32| IpNet::new([10, (i >> 16) as u8, (i >> 8) as u8, i as u8].into(), 32);
    let all: Vec<_> = (0..PREFIXES as u32).map(|i| prefix(i).unwrap()).collect();
    let add = Edit::Add {
        prefixes: all.clone(),
        lasts: None,
    };
    assert_eq!(store.try_edit(&add).unwrap(), PREFIXES as u64);
    assert_eq!(store.deny().len(), PREFIXES);
    let removed = store.try_edit(&Edit::Remove(all));
    assert_eq!(removed.unwrap(), PREFIXES as u64);
    assert_eq!(store.deny(), []);
}
