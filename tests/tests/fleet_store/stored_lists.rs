//! Hosts share lists through the store, which expire by its clock and have a maximum length.

use std::{collections::BTreeMap, time::Duration};

use ipnet::IpNet;
use limiter_fleet::store::{Changed, Edit, Error, Lists, PREFIXES, StoredPrefix};
use limiter_tests::eventually;

use super::{Client, FLEET, store};

const HOUR: Duration = Duration::from_secs(3_600);
/// The host that changes the list.
const BY: &str = "host \"a\"";

impl Client {
    pub fn try_edit(&mut self, edit: &Edit) -> Result<u64, Error> {
        let edit = self.store.edit(FLEET, "deny", BY, 0, edit);
        let Changed { prefixes, revision } = self.runtime.block_on(edit)?;
        assert_eq!(revision, self.revision(), "the answer has the revision");
        Ok(prefixes)
    }

    pub fn lists(&mut self, names: &[&str]) -> Lists {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let lists = self.store.lists(FLEET, &names);
        self.runtime.block_on(lists).unwrap()
    }

    pub fn deny(&mut self) -> Vec<StoredPrefix> {
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
    let reason = String::new();
    Edit::Add {
        prefixes,
        lasts,
        reason,
    }
}

/// They read author, time and time to live too. Each change makes a new revision.
#[test]
fn list_edits_of_one_host_are_read_by_others() {
    let (server, mut here) = store!();
    let mut there = Client::of(&server);
    assert_eq!(there.revision(), 0);
    let (single, two) = (["198.51.100.1/32"], ["192.0.2.7/24", "2001:db8::/32"]);
    assert_eq!(here.try_edit(&add(&two, None)).unwrap(), 2);
    let first = there.revision();
    assert_eq!(here.try_edit(&add(&single, Some(HOUR))).unwrap(), 1);
    let second = there.revision();
    assert!(second > first && first > 0, "{first} {second}");
    let read = there.lists(&["none", "deny"]);
    assert_eq!(read.revision, second);
    assert!(read.lists[0].as_ref().unwrap().is_empty());
    let mut read = there.deny();
    read.sort_by_key(|entry| entry.prefix);
    let texts: Vec<_> = read.iter().map(|entry| entry.prefix.to_string()).collect();
    assert_eq!(texts, ["192.0.2.0/24", "198.51.100.1/32", "2001:db8::/32"]);
    assert!(read.iter().all(|entry| entry.author == BY));
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
    server.forget();
    assert_eq!(there.revision(), 0);
    here.try_edit(&add(&single, None)).unwrap();
    assert!(there.revision() > third);
}

/// The first agent that knows the lists puts them back, in parts. Prefixes that are removed afterwards stay removed.
#[test]
fn lost_lists_are_put_back_once() {
    let (server, mut store) = store!();
    let single = |i: u32| format!("10.{}.{}.0/24", i >> 8, i & 255);
    let texts: Vec<_> = (0..1_200).map(single).collect();
    let texts: Vec<_> = texts.iter().map(|text| &**text).collect();
    store.try_edit(&add(&texts[1..], None)).unwrap();
    store.try_edit(&add(&texts[..1], Some(HOUR))).unwrap();
    let read = store.lists(&["deny"]);
    let (known, born) = (read.revision, read.born);
    assert!(born > 0 && born <= known, "{born} {known}");
    let deny = read.lists.into_iter().next().unwrap().unwrap();
    let lost = BTreeMap::from([("deny".to_owned(), deny), ("gold".to_owned(), Vec::new())]);
    server.forget();
    // An agent that knows the lists changes nothing before they are back.
    let remove = Edit::Remove(prefixes(&texts[..1]));
    let edit = store.store.edit(FLEET, "deny", BY, born, &remove);
    let error = store.runtime.block_on(edit).unwrap_err();
    assert!(matches!(error, Error::Lost), "{error}");
    let restore = |store: &mut Client, known| {
        let restored = store.store.restore(FLEET, known, &lost);
        store.runtime.block_on(restored).unwrap();
        let mut deny = store.deny();
        deny.sort_by_key(|entry| entry.prefix);
        deny
    };
    let back = restore(&mut store, known);
    assert_eq!(back.len(), 1_200);
    assert!(back.iter().all(|entry| entry.author == BY));
    let left = back[0].left.unwrap() + back[0].age;
    assert!(
        left <= HOUR && left + Duration::from_secs(60) > HOUR,
        "{left:?}"
    );
    assert_eq!(back[1].left, None);
    let read = store.lists(&["deny"]);
    assert!(read.revision > known && read.born > born && read.short.is_empty());
    assert_eq!(store.try_edit(&remove).unwrap(), 1);
    // Others know the same revision, or an older one. A later one is more than the first agent knew.
    assert_eq!(restore(&mut store, known).len(), 1_199);
    assert_eq!(restore(&mut store, known - 1).len(), 1_199);
    assert_eq!(restore(&mut store, known + 1).len(), 1_200);
}

#[test]
fn list_entries_expire_by_the_clock_of_the_store() {
    let (server, mut store) = store!();
    let (short, long) = (["192.0.2.0/24"], ["192.0.3.0/24"]);
    let moment = Duration::from_millis(30);
    // The short one comes last: an edit removes entries that have expired before it.
    store.try_edit(&add(&long, Some(HOUR))).unwrap();
    store.try_edit(&add(&short, Some(moment))).unwrap();
    let revision = store.revision();
    eventually("expired", || Client::of(&server).deny().len() == 1);
    assert_eq!(server.entries(), "2");
    assert_eq!(store.revision(), revision, "the revision is unchanged");
    // An edit that adds prefixes removes the expired ones from the store.
    assert_eq!(store.try_edit(&add(&long, None)).unwrap(), 1);
    assert_eq!(server.entries(), "1");
    assert_eq!(store.deny()[0].prefix.to_string(), long[0]);
}

#[test]
fn list_of_maximum_length_is_added_read_and_removed() {
    let (_server, mut store) = store!();
    let prefix = |i: u32| IpNet::new([10, (i >> 16) as u8, (i >> 8) as u8, i as u8].into(), 32);
    let all: Vec<_> = (0..PREFIXES as u32).map(|i| prefix(i).unwrap()).collect();
    let add = Edit::Add {
        prefixes: all.clone(),
        lasts: None,
        reason: String::new(),
    };
    assert_eq!(store.try_edit(&add).unwrap(), PREFIXES as u64);
    assert_eq!(store.deny().len(), PREFIXES);
    let removed = store.try_edit(&Edit::Remove(all));
    assert_eq!(removed.unwrap(), PREFIXES as u64);
    assert_eq!(store.deny(), []);
}
