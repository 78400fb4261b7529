//! CPUs lease tokens of the interface's bucket. Together they never admit more than burst + rate × t.

use limiter_common::{
    arithmetic::{bucket, quota::BY_BYTES},
    policy::{Evaluation, full::evaluate, verdict::Reason},
    table::{
        entry::{PASSED, TAT, counter},
        key::KeyMask,
        nat64::Nat64,
    },
};
use proptest::prelude::*;

use crate::row::{NOW, Row, address, row};

/// Ticks of a byte: 128 MB/s, or a little more, so that a lease is no whole number of packets.
const COSTS: [u64; 2] = [2_000, 1_999];
/// Bytes of a usual packet, and packets of a burst.
const LENGTH: u64 = 1_000;
const BURST: u64 = 20_000;
const CPUS: usize = 3;

/// One limit of the interface, or with a second limit of the source, which admits 20,000 packets and no more.
fn leased(nested: bool, cost: u64) -> Row<'static> {
    let keys = [
        KeyMask::interface().key(0, &address(1), 0, &Nat64::WELL_KNOWN),
        KeyMask::prefixes(32, 64).key(1, &address(1), 0, &Nat64::WELL_KNOWN),
    ];
    let mut row = row(&keys);
    let [interface, source, ..] = &mut row.constants.limits;
    interface.mask = KeyMask::interface();
    (interface.quota.tau, interface.quota.cost) = (BURST * LENGTH * cost, cost);
    interface.quota.flags = BY_BYTES;
    assert!(interface.lease(CPUS as u64));
    (source.quota.tau, source.quota.cost) = (BURST << 40, 1 << 40);
    if !nested {
        row.constants.limits_length = 1;
        row.constants.candidates.all = 1;
    }
    row
}

/// The bucket of the reference, with this depth.
struct Reference {
    tat: u64,
    tau: u64,
}

impl Reference {
    fn admits(&self, now: u64, cost: u64) -> bool {
        self.tat.max(bucket::ticks(now)) + cost <= bucket::ticks(now) + self.tau
    }

    fn charge(&mut self, now: u64, cost: u64) {
        self.tat = self.tat.max(bucket::ticks(now)) + cost;
    }
}

proptest! {
    /// Bursts of packets on several CPUs, with pauses. A packet is admitted only if one bucket of the whole burst admits
    /// it. It is refused only if a bucket refuses it that is smaller by all leases, twice.
    #[test]
    fn leases_admit_what_one_bucket_admits(
        bursts in prop::collection::vec((0..CPUS, 1..4_000_u32, 0..1_000_000_u64), 1..40),
        nested: bool,
        cost in prop::sample::select(&COSTS),
        // Every tenth packet has this length, which may cost more than a lease.
        large in prop::sample::select(&[LENGTH, 60_000]),
    ) {
        let row = leased(nested, cost);
        let limit = row.constants.limits[0];
        let all_leases = CPUS as u64 * limit.lease;
        let full = bucket::ticks(NOW);
        let mut whole = Reference { tat: full, tau: limit.quota.tau + all_leases };
        let mut small = Reference { tat: full, tau: limit.quota.tau - all_leases };
        let mut cpus = [Evaluation::NONE; CPUS];
        let (mut admitted, mut of_source) = (0, 0);
        for (cpu, packets, pause) in bursts {
            row.time.set(row.time.get() + pause);
            for number in 0..packets {
                let now = row.time.get();
                let length = if number % 10 == 9 { large } else { LENGTH };
                let cost = length * cost;
                let evaluation = &mut cpus[cpu];
                evaluation.begin(&&row, length);
                evaluation.info.source = address(1);
                match evaluate(&&row, evaluation, |_| false, |_| false, |_| 0) {
                    Reason::Admitted => {
                        prop_assert!(whole.admits(now, cost), "more than burst + rate × t");
                        whole.charge(now, cost);
                        small.charge(now, cost);
                        admitted += 1;
                        of_source += u64::from(nested);
                    }
                    Reason::Limit if evaluation.refused_by == 1 => prop_assert!(of_source >= BURST),
                    reason => {
                        prop_assert_eq!(reason, Reason::Limit);
                        prop_assert!(!small.admits(now, cost), "refused too early");
                    }
                }
            }
        }
        let pending: u64 = cpus.iter().map(|cpu| cpu.plans[0].pending).sum();
        prop_assert_eq!(counter(row.entries[0][PASSED].get()) + pending, admitted);
        prop_assert!(row.entries[0][TAT].get() > full);
    }
}
