//! CPUs lease tokens of the interface's bucket. Together they never admit more than burst + rate × t.

use limiter_common::{
    arithmetic::bucket::{self, TICKS_PER_SECOND},
    policy::{Evaluation, full::evaluate, verdict::Reason},
    table::{
        entry::{PASSED, TAT, counter},
        key::KeyMask,
    },
};
use proptest::prelude::*;

use crate::row::{NOW, Row, address, row};

/// A million packets a second, and a burst of 20,000.
const COST: u64 = TICKS_PER_SECOND / 1_000_000;
const BURST: u64 = 20_000;
const CPUS: usize = 3;

/// One limit of the interface, or with a second limit of the source, which admits 20,000 packets and no more.
fn leased(nested: bool) -> Row<'static> {
    let keys = [
        KeyMask::interface().key(0, &address(1), 0),
        KeyMask::prefixes(32, 64).key(1, &address(1), 0),
    ];
    let mut row = row(&keys);
    let [interface, source, ..] = &mut row.config.limits;
    interface.mask = KeyMask::interface();
    (interface.quota.tau, interface.quota.cost) = (BURST * COST, COST);
    assert!(interface.lease(CPUS as u64));
    (source.quota.tau, source.quota.cost) = (BURST * (COST << 20), COST << 20);
    if !nested {
        row.config.limits_length = 1;
        row.config.candidates.all = 1;
    }
    row
}

/// The bucket of the reference, with this depth.
struct Reference {
    tat: u64,
    tau: u64,
}

impl Reference {
    fn admits(&self, now: u64) -> bool {
        self.tat.max(bucket::ticks(now)) + COST <= bucket::ticks(now) + self.tau
    }

    fn charge(&mut self, now: u64) {
        self.tat = self.tat.max(bucket::ticks(now)) + COST;
    }
}

proptest! {
    /// Bursts of packets on several CPUs, with pauses. A packet is admitted only if one bucket of the whole burst admits
    /// it. It is refused only if a bucket refuses it that is smaller by all leases, twice.
    #[test]
    fn leases_admit_what_one_bucket_admits(
        bursts in prop::collection::vec((0..CPUS, 1..4_000_u32, 0..1_000_000_u64), 1..40),
        nested: bool,
    ) {
        let row = leased(nested);
        let limit = row.config.limits[0];
        let all_leases = CPUS as u64 * limit.lease;
        let full = bucket::ticks(NOW);
        let mut whole = Reference { tat: full, tau: BURST * COST };
        let mut small = Reference { tat: full, tau: BURST * COST - 2 * all_leases };
        let mut cpus = [Evaluation::NONE; CPUS];
        let (mut admitted, mut of_source) = (0, 0);
        for (cpu, packets, pause) in bursts {
            row.time.set(row.time.get() + pause);
            for _ in 0..packets {
                let now = row.time.get();
                let evaluation = &mut cpus[cpu];
                evaluation.begin(100);
                evaluation.info.source = address(1);
                match evaluate(&&row, evaluation, |_| false) {
                    Reason::Admitted => {
                        prop_assert!(whole.admits(now), "more than burst + rate × t");
                        whole.charge(now);
                        small.charge(now);
                        admitted += 1;
                        of_source += u64::from(nested);
                    }
                    Reason::Limit if evaluation.refused_by == 1 => prop_assert!(of_source >= BURST),
                    reason => {
                        prop_assert_eq!(reason, Reason::Limit);
                        prop_assert!(!small.admits(now), "refused too early");
                    }
                }
            }
        }
        let pending: u64 = cpus.iter().map(|cpu| cpu.plans[0].pending).sum();
        prop_assert_eq!(counter(row.entries[0][PASSED].get()) + pending, admitted);
        prop_assert!(row.entries[0][TAT].get() > full);
    }
}
