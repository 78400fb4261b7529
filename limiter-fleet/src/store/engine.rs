//! The requests to a store, without what is common to all kinds of stores.

use super::error::Error;

/// The largest integer that a double can tell from its neighbours.
pub(super) const MOST: u64 = (1 << 53) - 1;
/// Maximum members kept and counted: the ones with the latest heartbeats.
pub const MEMBERS: usize = 10_000;
/// Maximum limits kept per fleet: the ones reported last.
pub const LIMITS: usize = 256;
/// Maximum prefixes on a list.
pub const PREFIXES: usize = 100_000;
/// Prefixes per message of a reading.
pub(super) const READ_AT_ONCE: usize = 500;

/// The error of a list that has too many prefixes.
pub(super) fn list_full(list: &str) -> Error {
    Error::ListFull(list.to_owned(), PREFIXES)
}

/// A connection to a store of one kind. Requests can be under way at the same time. Times are microseconds of the
/// store's clock. Names are valid. Answers are not trusted: the caller checks them.
#[async_trait::async_trait]
pub(super) trait Engine: Send + Sync {
    /// Adds a member's charges to the records, unless this or a later round of the part was counted before. Answers
    /// with each record.
    async fn exchange(&self, charges: &Charges<'_>) -> Result<Vec<StoredRecord>, Error>;

    /// Stores a member's heartbeat.
    async fn heartbeat(&self, heartbeat: &Heartbeat<'_>) -> Result<Alive, Error>;

    /// Changes a list.
    async fn edit(&self, edit: &ListEdit<'_>) -> Result<Changed, Error>;

    /// Puts prefixes of a list back that the store has lost, unless an agent has put the same revision or a later one
    /// back. Returns false then.
    async fn restore(&self, restoration: &Restoration<'_>) -> Result<bool, Error>;

    /// A line about settings of the server that endanger the fleet's data.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Reads the part of a list that begins at a place; without one, the first part.
    async fn part(&self, fleet: &str, list: &str, place: Option<&str>) -> Result<Part, Error>;
}

/// A record as the store keeps it; zeros if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredRecord {
    pub born: u64,
    pub total: u64,
    /// Nanoseconds spent in the fleet's own bucket.
    pub level: u64,
}

/// The members with a heartbeat.
pub(super) struct Alive {
    /// Number of members.
    pub hosts: u64,
    /// Age of the oldest heartbeat.
    pub oldest: u64,
    /// Revision of the lists.
    pub revision: u64,
    /// True if a list of the member is shorter than the store has recorded.
    pub is_short: bool,
    /// The members' limits, as JSON.
    pub held: Vec<Vec<u8>>,
}

/// The result of a change of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Number of prefixes that were added, renewed or removed.
    pub prefixes: u64,
    /// The revision after the change.
    pub revision: u64,
}

pub(super) struct Charges<'a> {
    pub fleet: &'a str,
    pub member: u64,
    pub part: u32,
    pub number: u64,
    pub terms: Vec<Terms<'a>>,
    pub items: Vec<Charge>,
}

/// The part of a limit that the store has to know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms<'a> {
    pub limit: &'a str,
    /// Ticks per packet.
    pub cost: u64,
    /// Maximum level of a bucket, in nanoseconds.
    pub cap: u64,
    /// Lifetime of a record after a charge, in milliseconds.
    pub life: u64,
}

pub(super) struct Charge {
    pub source: String,
    pub packets: u64,
    /// Index of the terms.
    pub terms: usize,
}

pub(super) struct Heartbeat<'a> {
    pub fleet: &'a str,
    pub member: u64,
    pub label: &'a str,
    /// The member's limits, as JSON.
    pub held: Vec<String>,
    /// The lists that the member shares.
    pub lists: &'a [String],
    /// Maximum age of a live member's heartbeat.
    pub alive: u64,
}

pub(super) struct ListEdit<'a> {
    pub fleet: &'a str,
    pub list: &'a str,
    /// The birth of the lists that the agent knows; 0 if it knows none.
    pub born: u64,
    pub prefixes: Vec<String>,
    /// None to remove the prefixes.
    pub add: Option<Addition<'a>>,
}

/// Fields that the store keeps with added prefixes.
#[derive(Clone, Copy)]
pub(super) struct Addition<'a> {
    /// The host that adds them.
    pub author: &'a str,
    /// Lifetime; none: they stay until they are removed.
    pub lasts: Option<u64>,
}

/// Entries of a list that the store has lost.
pub(super) struct Restoration<'a> {
    pub fleet: &'a str,
    pub list: &'a str,
    /// The revision of which the agent knows the list.
    pub known: u64,
    /// True if no more of the list follows.
    pub is_last: bool,
    pub entries: Vec<Lost<'a>>,
}

pub(super) struct Lost<'a> {
    pub prefix: String,
    pub author: &'a str,
    pub age: u64,
    /// Time until it expires.
    pub left: Option<u64>,
}

pub(super) struct Part {
    pub now: u64,
    pub revision: u64,
    /// The time of the first change of a list. Another one means that the store has lost the lists.
    pub born: u64,
    /// True if the list is shorter than the store has recorded.
    pub is_short: bool,
    /// The place of the next part.
    pub next: Option<String>,
    pub prefixes: Vec<Written>,
}

/// A prefix as the store keeps it. It is not trusted.
pub(super) struct Written {
    pub prefix: Vec<u8>,
    /// The author and the times, as JSON.
    pub value: Vec<u8>,
}
