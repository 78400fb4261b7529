//! The state of the maps as plain types, for views and exporters. These types define the shapes of `--json`.
//!
//! Field names and nesting are a contract with scripts: fields may be added, but not changed. `docs/schema` has the
//! types as JSON Schema. Fields without a value are null, not missing.

pub mod bans;
pub mod busiest;
pub mod change;
pub mod check;
pub mod choice;
pub mod collect;
mod comparison;
pub mod connections;
mod count;
pub mod delays;
pub mod event;
pub mod feeds;
mod history;
mod host;
pub mod log;
pub mod query;
pub mod rates;
pub mod reader;
pub mod reasons;
pub mod request;
pub mod sample;
pub mod senders;
pub mod settings;
pub mod snapshot;
pub mod source;
pub mod thinning;

pub use bans::{Ban, BanCounts, BanOrder, Bans};
pub use busiest::Order;
pub use change::{Changed, Changes, WithWarnings};
pub use choice::{Choice, Filter};
pub use comparison::Difference;
pub use count::{Count, Counted, PerSecond, Rates, Verdicts, of_the_only_limit, verdicts};
pub use delays::Delays;
pub use feeds::Feed;
pub use history::{Entry, History, TRIAL_END};
pub use host::own_name;
pub use log::Log;
pub use query::Query;
pub use reader::{Reader, readers};
pub use reasons::{Drops, Passes};
pub use sample::Sample;
pub use snapshot::Snapshot;
pub use source::{Check, CheckedLimit, ExplainedPacket, MissingOptions, OnList, Top};

use serde::{Deserialize, Serialize};

/// The output of `status --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Status {
    /// The attachments.
    pub interfaces: Vec<Interface>,
    /// The feeds that run, or were killed.
    pub feeds: Vec<Feed>,
}

/// One attachment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// Index of the interface.
    pub ifindex: u32,
    /// `native`, `generic` or `tc`.
    pub mode: String,
    /// True if the interface is a loopback interface.
    pub loopback: bool,
    /// True if the interface is a tap of a virtual machine, which may send merged packets.
    pub tap: bool,
    /// False if receive offload is known to be off, so that generic mode sees each packet.
    #[serde(skip)]
    pub merges: bool,
    /// Why the mode is not native, if native was preferred.
    pub fallback: Option<String>,
    /// Id of the program.
    pub program_id: u32,
    /// Version of limiter that loaded the program.
    pub version: String,
    /// When limiter was attached, RFC 3339.
    pub attached_at: String,
    /// When the trial ends and is undone unless it is kept, RFC 3339; only on trial.
    pub try_until: Option<String>,
    /// The log that runs.
    pub log: Option<Log>,
    /// When a trial ended without being kept, RFC 3339. The settings from before the trial apply again. Cleared by the
    /// next command that changes something.
    pub trial_ended: Option<String>,
    /// True if the interface drops nothing.
    pub shadow: bool,
    /// Treatment of malformed IP packets: `drop` or `pass`.
    pub malformed: String,
    /// True if frames in several buffers (jumbo frames) are supported.
    pub frags: bool,
    /// True if packets that pass continue to another XDP program.
    pub chained: bool,
    /// The next XDP program; none if its pin was removed, so that detach does not restore it.
    pub next_program: Option<NextProgram>,
    /// The configuration file that the settings came from.
    pub file: Option<String>,
    /// The reason why the settings are the last ones that were in force, and not those of `file`; null: they are those of
    /// `file`, or were changed by a command.
    pub instead_of_file: Option<String>,
    /// Rate at which new sources are added; null: no limit.
    pub new_sources: Option<String>,
    /// Traffic that is exempt from the limits.
    pub exempt: Vec<String>,
    /// The fleet that the interface belongs to.
    pub fleet: Option<limiter_fleet::status::Fleet>,
    /// The limits.
    pub limits: Vec<Limit>,
    /// The lists.
    pub lists: Vec<List>,
    /// The bans.
    pub bans: BanCounts,
    /// All packets by verdict.
    #[serde(flatten)]
    pub verdicts: Verdicts,
    /// Rates over the time of `status --interval`; null without it.
    pub rates: Option<Rates>,
    /// Dropped packets by reason.
    pub drops: Drops,
    /// Packets that passed without being charged, by reason.
    pub passes: Passes,
    /// Delays of packets, by limits with `max_delay`.
    pub delays: Delays,
    /// The table of sources.
    pub sources: Sources,
    /// Events lost since attach: drops that `limiter watch` did not receive because there were too many.
    pub events_lost: u64,
}

/// The program that limiter runs before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NextProgram {
    /// Id of the program.
    pub program_id: u32,
    /// Name of the program, if it has one.
    pub name: Option<String>,
    /// Mode in which the program ran before and will run again: `native` or `generic`.
    pub mode: String,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Limit {
    /// Name of the limit.
    pub name: String,
    /// The rate, in canonical form.
    pub rate: String,
    /// The burst, as written or derived from the rate.
    pub burst: String,
    /// The reason why the longest frames of the interface never pass, as after its MTU was raised, and what to do; null:
    /// they may pass.
    pub never_admits: Option<String>,
    /// The key, as written.
    pub key: String,
    /// The match, as written in the file; null: all IP packets.
    pub r#match: Option<String>,
    /// Cost of a packet in tokens; null: one token for packets, the length for bytes.
    pub cost: Option<u64>,
    /// `token-bucket` or `fixed-window`.
    pub algorithm: String,
    /// The time for which a source stays refused after its first refused packet; null: until it has a token.
    pub hold: Option<String>,
    /// The longest time for which packets over the limit are delayed; null: they are dropped.
    pub max_delay: Option<String>,
    /// The ways in which a new source that is refused may prove its address, separated by commas; null: in no way.
    pub proof: Option<String>,
    /// Of so many refused questions of DNS, each CPU answers one; null: each question.
    pub slip: Option<u64>,
    /// Number of sources that the limit holds; null without `hold`.
    pub held_sources: Option<u64>,
    /// The signals that lower the rate while `limiter adapt` runs; null: none.
    pub adaptive: Option<String>,
    /// True if `limiter adapt` runs for this limit, or has ended less than six seconds ago; null if it is not adaptive.
    pub adapted: Option<bool>,
    /// The part of the rate and the burst that is in force, up to 1.
    pub scale: f64,
    /// The bound on open connections, and those that count for it; null: no bound.
    pub connections: Option<Connections>,
    /// True if this limit drops nothing.
    pub shadow: bool,
    /// Packets that passed, including `would_drop`.
    pub passed: Count,
    /// Packets that were dropped.
    pub dropped: Count,
    /// Packets that would have been dropped without shadow.
    pub would_drop: Count,
    /// Rates over the time of `status --interval`; null without it.
    pub rates: Option<Rates>,
}

impl Limit {
    /// The rate, and the part of it that is in force.
    pub fn rate_in_force(&self) -> String {
        if self.scale < 1.0 {
            format!("{:.0}% of {}", self.scale * 100.0, self.rate)
        } else {
            self.rate.clone()
        }
    }
}

/// Open connections of a limit that bounds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Connections {
    /// The most open connections of one key.
    pub most: u64,
    /// Open connections of all keys.
    pub open: u64,
    /// Keys with open connections.
    pub keys: u64,
    /// Keys with as many as the limit allows.
    pub keys_at_bound: u64,
}

/// One list of sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct List {
    /// Name of the list: `allow`, `deny`, or a tier.
    pub name: String,
    /// Number of prefixes on the list.
    pub prefixes: u64,
    /// Packets from sources that the list decided about.
    pub hits: Count,
}

/// The output of `allow list --json`, and of the same command for other lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Listing {
    /// Name of the interface.
    pub interface: String,
    /// Name of the list.
    pub list: String,
    /// The prefixes on the list, in order.
    pub prefixes: Vec<String>,
    /// Prefixes that a fleet added to this list, including prefixes that are not in force here. Only for a list that a
    /// fleet shares, and only if the fleet's agent answers.
    pub fleet: Option<Vec<limiter_fleet::status::Listed>>,
}

/// The table of sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sources {
    /// Number of sources in the table.
    pub tracked: u64,
    /// Entries in use: two for an IPv6 address with a key of more than 64 bits, otherwise one per source.
    pub entries: u64,
    /// Number of entries in the table.
    pub capacity: u64,
    /// Kernel memory of all maps, in bytes.
    pub memory_bytes: u64,
    /// Bytes of memory per source. An IPv6 address takes twice as much if a limit's key has more than its first 64
    /// bits.
    pub source_bytes: u64,
    /// Sources added since attach.
    pub added: u64,
    /// Sources removed since attach: their bucket was full again, or another source took a second chance.
    pub removed: u64,
    /// Second chances taken since attach, by sources that were refused and came again. A few of them find no room.
    pub second_chances: u64,
    /// Packets since attach of new sources that were refused and came again, including those that took a second chance.
    pub came_again: u64,
    /// Sources since attach that have proven their address and were let in. A few of them find no room.
    pub proven: u64,
}
