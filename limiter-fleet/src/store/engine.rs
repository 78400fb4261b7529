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
    /// with born, total and level (nanoseconds) of each record; with zeros where there is none.
    async fn exchange(&self, charges: &Charges<'_>) -> Result<Vec<(u64, u64, u64)>, Error>;

    /// Stores a member's heartbeat. Answers with the number of live members, the age of the oldest heartbeat, the
    /// revision of the lists, and the members' limits.
    async fn heartbeat(&self, heartbeat: &Heartbeat<'_>) -> Result<Alive, Error>;

    /// Changes a list. Answers with the number of changed prefixes, and the revision.
    async fn edit(&self, edit: &ListEdit<'_>) -> Result<(u64, u64), Error>;

    /// Reads the part of a list that begins at a place; without one, the first part.
    async fn part(&self, fleet: &str, list: &str, at: Option<&str>) -> Result<Part, Error>;
}

pub(super) type Alive = (u64, u64, u64, Vec<Vec<u8>>);

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
    /// Maximum age of a live member's heartbeat.
    pub alive: u64,
}

pub(super) struct ListEdit<'a> {
    pub fleet: &'a str,
    pub list: &'a str,
    pub prefixes: Vec<String>,
    /// The host that adds the prefixes, and their lifetime; none to remove them.
    pub add: Option<(&'a str, Option<u64>)>,
}

pub(super) struct Part {
    pub now: u64,
    pub revision: u64,
    /// The place of the next part.
    pub next: Option<String>,
    /// Prefixes with their values.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
}
