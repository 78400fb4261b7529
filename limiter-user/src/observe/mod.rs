//! What the maps say, as plain types: what views and exporters see, and the shapes of `--json`.
//!
//! Field names and nesting are a contract with scripts: they may grow, and nothing in them changes. `docs/schema` has them as
//! JSON Schema. What is not known or not there is null, not missing.

pub mod busiest;
pub mod check;
pub mod collect;
pub mod denied;
pub mod event;
pub mod live;
pub mod reader;
pub mod reasons;
pub mod replay;
#[cfg(test)]
mod schema;
pub mod snapshot;
pub mod source;

use limiter_common::{
    abi::counters::{Count as KernelCount, Counters, LimitCounters},
    policy::verdict::{Reason, Verdict},
};
pub use reasons::{Drops, Passes};

use serde::{Deserialize, Serialize};

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of whole frames.
    pub bytes: u64,
}

impl From<KernelCount> for Count {
    fn from(count: KernelCount) -> Self {
        Self {
            packets: count.packets,
            bytes: count.bytes,
        }
    }
}

/// `status --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Status {
    /// One for each attachment.
    pub interfaces: Vec<Interface>,
}

/// One attachment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// Its index.
    pub ifindex: u32,
    /// `native` or `generic`.
    pub mode: String,
    /// Whether the interface leads back to this machine.
    #[serde(default)]
    pub loopback: bool,
    /// Why it is not native, where it was to be if possible.
    pub fallback: Option<String>,
    /// Id of the program.
    pub program_id: u32,
    /// Version of the limiter that has loaded it.
    pub version: String,
    /// RFC 3339.
    pub attached_at: String,
    /// When it is undone by itself unless it is kept before, RFC 3339; only on trial.
    pub try_until: Option<String>,
    /// When a trial has ended that was not kept, RFC 3339, until a command changes something: what was in force before it
    /// holds again.
    #[serde(default)]
    pub trial_ended: Option<String>,
    /// Whether nothing is dropped.
    pub shadow: bool,
    /// What happens to malformed IP: `drop` or `pass`.
    pub malformed: String,
    /// Whether each packet is logged (`limiter log`), which is slow.
    #[serde(default)]
    pub logging: bool,
    /// Whether frames in several buffers (jumbo frames) are taken.
    pub frags: bool,
    /// Whether packets that pass go on to another XDP program.
    #[serde(default)]
    pub chained: bool,
    /// That program; none where its pin was removed, so that detach does not put it back.
    pub next_program: Option<NextProgram>,
    /// The configuration file that the settings came from.
    pub file: Option<String>,
    /// How fast new sources are taken in; null: as fast as they come.
    pub new_sources: Option<String>,
    /// What the limits do not hold.
    pub exempt: Vec<String>,
    /// The fleet that it belongs to.
    #[serde(default)]
    pub fleet: Option<limiter_fleet::status::Fleet>,
    /// The limits.
    pub limits: Vec<Limit>,
    /// The lists.
    pub lists: Vec<List>,
    /// All packets by verdict.
    #[serde(flatten)]
    pub verdicts: Verdicts,
    /// Dropped packets by reason.
    pub drops: Drops,
    /// Packets that passed without being charged, by reason.
    pub passes: Passes,
    /// The table.
    pub sources: Sources,
    /// Drops that `limiter watch` was to be told of since attach, and was not, because there were too many.
    pub events_lost: u64,
}

/// The program that limiter runs in front of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NextProgram {
    /// Its id.
    pub program_id: u32,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Where it ran before, and will run again: `native` or `generic`.
    pub mode: String,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// As written, in canonical form.
    pub rate: String,
    /// As written, or what follows from the rate.
    pub burst: String,
    /// As written.
    pub key: String,
    /// As written in the file; null: it holds all that is IP.
    pub r#match: Option<String>,
    /// Tokens that a packet costs; null: one by packets, its length by bytes.
    pub cost: Option<u64>,
    /// `token-bucket` or `fixed-window`.
    pub algorithm: String,
    /// Whether this limit drops nothing.
    pub shadow: bool,
    /// What it let through, `would_drop` included.
    pub passed: Count,
    /// What it dropped.
    pub dropped: Count,
    /// What it would have dropped without shadow.
    pub would_drop: Count,
}

/// One list of sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct List {
    /// `allow`, `deny`, or a tier.
    pub name: String,
    /// Prefixes on it.
    pub prefixes: u64,
    /// Packets whose source it decided about.
    pub hits: Count,
}

/// `allow list --json`, and of the other lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Listing {
    /// Name of the interface.
    pub interface: String,
    /// Name of the list.
    pub list: String,
    /// What is on it, in order.
    pub prefixes: Vec<String>,
    /// What of it a fleet has put there, and what it has put there and is not in force here; only of a list that a fleet
    /// shares, and only where its agent says it.
    #[serde(default)]
    pub fleet: Option<Vec<limiter_fleet::status::Listed>>,
}

/// `seen = passed + dropped`; `would_drop` is part of `passed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdicts {
    /// All that came in.
    pub seen: Count,
    /// What went on.
    pub passed: Count,
    /// What did not.
    pub dropped: Count,
    /// What only passed because of shadow.
    pub would_drop: Count,
}

/// The table of sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sources {
    /// Sources in it.
    pub tracked: u64,
    /// Entries that they take: two for an IPv6 address of which more than 64 bits count, else one.
    pub entries: u64,
    /// Entries that there are.
    pub capacity: u64,
    /// Kernel memory of all maps.
    pub memory_bytes: u64,
    /// What of it one source takes; twice as much where a limit looks at more than the first 64 bits of
    /// an IPv6 address.
    pub source_bytes: u64,
    /// Sources taken in since attach.
    pub added: u64,
    /// Sources forgotten since attach, because their bucket was full again.
    pub removed: u64,
}

/// The sums of an interface, from one reading of its counters: each packet is counted once, under its reason, so that the
/// sums always agree.
#[must_use]
pub fn verdicts(counters: &Counters) -> Verdicts {
    let passed = sum(counters, Reason::passes);
    let dropped = sum(counters, |reason| !reason.passes());
    Verdicts {
        seen: (passed + dropped).into(),
        passed: passed.into(),
        dropped: dropped.into(),
        would_drop: sum(counters, Reason::would_drop).into(),
    }
}

/// The counters of a limit that is alone and matches every packet.
#[must_use]
pub fn of_the_only_limit(counters: &Counters) -> LimitCounters {
    let of = |reason: Reason| counters.by_reason[reason as usize];
    LimitCounters {
        admitted: of(Reason::Admitted),
        dropped: sum(counters, |reason| reason.verdict() == Verdict::Refuse),
        would_drop: of(Reason::WouldDrop),
    }
}

fn sum(counters: &Counters, counted: fn(Reason) -> bool) -> KernelCount {
    let reasons = Reason::ALL.into_iter().filter(|reason| counted(*reason));
    reasons
        .map(|reason| counters.by_reason[reason as usize])
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_in_exactly_one_sum() {
        let mut counters = Counters::default();
        for reason in Reason::ALL {
            counters.by_reason[reason as usize] = KernelCount {
                packets: 1 << (reason as u32),
                bytes: 3 << (2 * reason as u32),
            };
        }
        let all = verdicts(&counters);
        let dropped = Drops::new(&counters);
        for (of, sum) in [
            (
                (|count| count.packets) as fn(Count) -> u64,
                (1 << Reason::ALL.len()) - 1,
            ),
            (|count| count.bytes, (1 << (2 * Reason::ALL.len())) - 1),
        ] {
            assert_eq!(of(all.seen), sum);
            assert_eq!(of(all.seen), of(all.passed) + of(all.dropped));
            let by_reason: u64 = dropped.iter().map(|(_, count)| of(count)).sum();
            assert_eq!(by_reason, of(all.dropped));
        }
    }
}
