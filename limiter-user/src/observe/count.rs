//! Packets and bytes, and their sums by verdict.

use limiter_common::{
    abi::counters::{Count as KernelCount, Counters, LimitCounters},
    policy::verdict::{Reason, Verdict},
};
use limiter_kernel::{Attachment, Result};
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

/// Packets by verdict. `seen = passed + dropped`; `would_drop` is part of `passed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdicts {
    /// All packets received.
    pub seen: Count,
    /// Packets that passed.
    pub passed: Count,
    /// Packets that were dropped.
    pub dropped: Count,
    /// Packets that passed only because of shadow.
    pub would_drop: Count,
}

/// Packets and bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PerSecond {
    /// Packets per second.
    pub packets: f64,
    /// Bits of whole frames per second.
    pub bits: f64,
}

/// Rates between two readings, by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rates {
    /// Seconds between the readings.
    pub interval_seconds: f64,
    /// Packets that passed, including `would_drop`.
    pub passed: PerSecond,
    /// Packets that were dropped.
    pub dropped: PerSecond,
    /// Packets that passed only because of shadow.
    pub would_drop: PerSecond,
}

/// The sums of an attachment, which are cheap to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Name of the interface.
    pub name: String,
    /// When limiter was attached, RFC 3339.
    pub attached_at: String,
    /// All packets by verdict.
    pub verdicts: Verdicts,
}

impl Counted {
    /// Reads all attachments of this network namespace. Those that cannot be read are left out.
    pub async fn all() -> Result<Vec<Self>> {
        let mut all = Vec::new();
        let read = async |attachment: Attachment| {
            if let Ok(counters) = attachment.tables.counters() {
                all.push(Self {
                    name: attachment.interface.name.clone(),
                    attached_at: attachment.record.attached_at.clone(),
                    verdicts: verdicts(&counters),
                });
            }
        };
        Attachment::visit_all(read).await?;
        Ok(all)
    }
}

/// The sums of an interface, from one reading of its counters. Each packet is counted once, under its reason, so that
/// the sums always agree.
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

/// The counters of a limit that is the only one and matches every packet.
pub fn of_the_only_limit(counters: &Counters) -> LimitCounters {
    let count = |reason: Reason| counters.by_reason[reason as usize];
    LimitCounters {
        admitted: count(Reason::Admitted),
        dropped: sum(counters, |reason| reason.verdict() == Verdict::Refuse),
        would_drop: count(Reason::WouldDrop),
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
    use crate::observe::Drops;

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
        for (measure, sum) in [
            (
                (|count| count.packets) as fn(Count) -> u64,
                (1 << Reason::ALL.len()) - 1,
            ),
            (|count| count.bytes, (1 << (2 * Reason::ALL.len())) - 1),
        ] {
            assert_eq!(measure(all.seen), sum);
            assert_eq!(
                measure(all.seen),
                measure(all.passed) + measure(all.dropped)
            );
            let by_reason: u64 = dropped.iter().map(|(_, count)| measure(count)).sum();
            assert_eq!(by_reason, measure(all.dropped));
        }
    }
}
