//! What the agent needs of its host: tables of buckets, and lists.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use limiter_common::table::key::{SLOTS, SourceKey};

use crate::{conflicts::Held, member::Sighting, quota::Quota};

/// The list of denied sources, which may cut a host off from its store.
pub const DENY: &str = "deny";

/// What a fleet wants on the lists of an attachment, by their names.
pub type OnLists = BTreeMap<String, BTreeSet<IpNet>>;

/// A limit that a fleet shares.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Its quota.
    pub terms: Quota,
    /// Its settings, as other hosts compare them.
    pub held: Held,
}

/// What is configured for an attachment that is in a fleet.
#[derive(Clone, Debug)]
pub struct About {
    /// Name of the interface.
    pub interface: String,
    /// Its index.
    pub index: u32,
    /// Name of the fleet.
    pub fleet: String,
    /// The lists that the fleet shares there.
    pub lists: BTreeSet<String>,
    /// Tells its table from all others of this host.
    pub table: u32,
    /// Id of its program: another one after each change of the configuration.
    pub program: u32,
    /// Entries of its table.
    pub entries: usize,
    /// The limits that are shared, by their slots.
    pub limits: [Option<Limit>; SLOTS as usize],
}

/// The table of an attachment that is in a fleet. Times are in ticks of the host's clock.
pub trait Table {
    /// What is configured.
    fn about(&self) -> &About;

    /// Goes through the sources of shared limits, at the time `now`: number of the entry, source, and what is seen of it.
    /// Nothing is seen where the limit's quota has changed since [`Self::about`].
    fn scan(&self, now: u64, each: impl FnMut(usize, &SourceKey, Option<Sighting>));

    /// One source, if it is still in the entry with this number.
    fn look(&self, number: usize, key: &SourceKey, now: u64) -> Option<Sighting>;

    /// Charges a source with `ticks`, so that no more than `most` ticks are spent at the time `now`. Returns the ticks that
    /// were charged.
    fn charge(&self, number: usize, key: &SourceKey, now: u64, ticks: u64, most: u64) -> u64;
}

/// The attachments that are in a fleet.
#[derive(Debug)]
pub struct Found<T> {
    /// Their tables; none if nothing can be said at this moment.
    pub tables: Option<Vec<T>>,
    /// Why some cannot be read.
    pub errors: Vec<String>,
}

/// Why the lists of an attachment were not changed.
#[derive(Debug)]
pub enum Refused {
    /// Another command is at work there: try again soon.
    Busy,
    /// Any other reason.
    Failed(String),
}

/// This host.
pub trait Host {
    /// The table of an attachment.
    type Table: Table;

    /// The time, in ticks.
    ///
    /// # Errors
    /// If the clock cannot be read; the agent ends then.
    fn now(&self) -> Result<u64, String>;

    /// Finds the attachments that are in a fleet.
    fn attachments(&mut self) -> impl Future<Output = Found<Self::Table>>;

    /// Replaces what the fleet has put on the lists of an interface. Returns whether that has changed anything.
    fn edit_lists(
        &mut self,
        interface: &str,
        lists: OnLists,
    ) -> impl Future<Output = Result<bool, Refused>>;
}
