//! The agent's interface to its host: tables of buckets, and lists.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipnet::IpNet;
use limiter_common::table::key::{SLOTS, SourceKey};

use crate::{conflicts::Held, refill::Reading, shared_quota::Quota, store::StoredPrefix};

/// The list of denied sources, which may cut a host off from its store.
pub const DENY: &str = "deny";

/// The store's list of bans.
pub const BANS: &str = "bans";

/// The fleet's entries on an attachment's lists, by the lists' names.
pub type OnLists = BTreeMap<String, BTreeSet<IpNet>>;

/// A limit that a fleet shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limit's quota.
    pub quota: Quota,
    /// The limit's settings, for comparison with other hosts.
    pub held: Held,
}

/// The shared limits of an attachment, by slot.
pub type Limits = [Option<Arc<Limit>>; SLOTS as usize];

/// The configuration of an attachment in a fleet.
#[derive(Clone, Debug)]
pub struct About {
    /// Name of the interface.
    pub interface: String,
    /// Index of the interface.
    pub index: u32,
    /// Name of the fleet.
    pub fleet: String,
    /// The lists that the fleet shares on this interface.
    pub lists: BTreeSet<String>,
    /// Identifies the table among all tables of this host.
    pub table: u32,
    /// Id of the program, which changes with each change of the configuration.
    pub program: u32,
    /// Number of entries in the table.
    pub entries: usize,
    /// The shared limits, by slot.
    pub limits: Limits,
}

/// A reading of a source.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    /// A reading of its bucket.
    pub reading: Reading,
    /// Packets charged since the source has had the entry.
    pub admitted: u64,
}

/// The table of an attachment in a fleet. Times are in ticks of the host's clock.
pub trait Table {
    /// The configuration.
    fn about(&self) -> &About;

    /// Scans the sources of shared limits at the time `now`. Calls `each` with the number of the entry. There is no
    /// sighting if the limit's quota has changed since [`Self::about`].
    fn scan(&self, now: u64, each: impl FnMut(usize, &SourceKey, Option<Sighting>));

    /// Reads one source, if it is still in the entry with this number.
    fn read(&self, number: usize, key: &SourceKey, now: u64) -> Option<Sighting>;

    /// Charges a source with `ticks`, up to a total of `most` ticks spent at the time `now`. Returns the ticks that
    /// were charged.
    fn charge(&self, number: usize, key: &SourceKey, now: u64, ticks: u64, most: u64) -> u64;
}

/// The attachments of a host.
#[derive(Debug)]
pub struct Attachments<T> {
    /// The tables of those in a fleet.
    pub tables: Vec<T>,
    /// The errors of those that cannot be read.
    pub errors: Vec<String>,
}

/// The result of a change of a host's lists and bans.
#[derive(Debug)]
pub struct Edited {
    /// True if the lists have changed; or why they could not.
    pub lists: Result<bool, String>,
    /// A line about bans that the host has left out; or why the bans could not be changed.
    pub bans: Result<Option<String>, String>,
}

/// This host.
pub trait Host {
    /// The table of an attachment.
    type Table: Table;

    /// The time, in ticks.
    /// Fails if the clock cannot be read; the agent ends then.
    fn now(&self) -> Result<u64, String>;

    /// Finds the attachments in a fleet.
    /// Fails if they cannot be listed at present.
    fn attachments(&mut self) -> impl Future<Output = Result<Attachments<Self::Table>, String>>;

    /// Replaces the fleet's entries on the lists of an interface, and its bans, if they are known. The agent's other work
    /// goes on meanwhile.
    fn edit_lists(
        interface: String,
        lists: OnLists,
        bans: Option<Vec<StoredPrefix>>,
    ) -> impl Future<Output = Edited> + 'static;
}
