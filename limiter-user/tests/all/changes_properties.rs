//! Buckets stay exact over many changes of a limit's quota, even if they miss some of them.

use crate::exact::{
    Exact, Limit, Pace, Pair, cases,
    draw::{Gap, IDLE_MAX, Packet, alike, gaps, limits, magnitude, moments, packet},
    loss, part,
};
use limiter_common::arithmetic::{
    bucket::{spent, ticks, time},
    rescale::{PAST_QUOTAS, Rescale, carry_over},
};
use num_bigint::BigInt;
use proptest::{collection::vec, prelude::*};

/// History of a limit's changes, as user space keeps it: newest first, without the oldest.
struct History {
    limit: Limit,
    epoch: u32,
    past: Vec<Rescale>,
}

impl History {
    fn new(limit: Limit) -> Self {
        Self {
            limit,
            epoch: 0,
            past: Vec::new(),
        }
    }

    /// `since` is in nanoseconds.
    fn change(&mut self, limit: Limit, since: u64) {
        self.past.insert(0, self.limit.rescale(&limit, since));
        self.past.truncate(PAST_QUOTAS as usize);
        self.limit = limit;
        self.epoch += 1;
    }

    /// Carries a TAT of an earlier epoch over to the present quota.
    fn carry(&self, word: u64, epoch: u32) -> u64 {
        let known = u32::try_from(self.past.len()).expect("eight at most");
        carry_over(word, self.epoch - epoch, known, |index| {
            self.past.get(index as usize)
        })
        .expect("every change is known, or the last eight are")
    }
}

/// An event of a bucket. A packet may come on a CPU with a clock that is `behind` nanoseconds behind.
#[derive(Clone, Debug)]
enum Event {
    Packet { packet: Packet, behind: u64 },
    Change { gap: Gap, limit: usize },
}

/// Limits, the time of the first event, and the events. With frequent changes, a bucket misses more of them than are
/// remembered.
fn lives() -> impl Strategy<Value = (Vec<Limit>, u64, Vec<Event>)> {
    (alike(2..6), 1..20_u32).prop_flat_map(|(limits, frequent)| {
        let change =
            (gaps(), 0..limits.len()).prop_map(|(gap, limit)| Event::Change { gap, limit });
        let behind = prop_oneof![3 => Just(0), 1 => magnitude((1 << 20) - 1)];
        let packet = (packet(&limits[0]), behind)
            .prop_map(|(packet, behind)| Event::Packet { packet, behind });
        let events = vec(prop_oneof![frequent => change, 6 => packet], 1..80);
        (Just(limits), moments(), events)
    })
}

proptest! {
    #![proptest_config(cases(512))]

    /// An exact bucket with equal changes never runs out.
    #[test]
    fn changes_never_admit_more_than_an_exact_bucket((limits, start, events) in lives()) {
        let paces: Vec<_> = limits.iter().map(Limit::pace).collect();
        let mut pair = Pair::full(limits[0], start + IDLE_MAX);
        pair.exact = Exact::full_among(&paces[0], limits[0].tokens, &paces);
        let (mut history, mut epoch) = (History::new(limits[0]), 0);
        for event in events {
            // All gaps together are less than the year after which a TAT is stale.
            let most = IDLE_MAX >> 8;
            match event {
                Event::Change { gap, limit } => {
                    pair.wait(gap, 60, most);
                    pair.exact.change(&paces[limit], limits[limit].tokens);
                    history.change(limits[limit], pair.now);
                }
                Event::Packet { packet: Packet { gap, length }, behind } => {
                    pair.limit = history.limit;
                    pair.program.quota = history.limit.quota;
                    pair.program.tat = history.carry(pair.program.tat, epoch);
                    epoch = history.epoch;
                    let length = pair.limit.passable(length);
                    // The clock is behind the time that another packet, or the change, has read.
                    if behind == 0 {
                        pair.wait(gap, length, most);
                    }
                    pair.admits_behind(behind, length);
                    prop_assert!(!pair.is_overdrawn(), "{:?} after {}", pair.limit, epoch);
                }
            }
        }
    }

    #[test]
    fn missed_changes_equal_changes_applied_one_by_one(
        limits in vec(limits(), 2..30),
        start in moments(),
        waits in vec(magnitude(IDLE_MAX >> 6), 30),
        word: u64,
    ) {
        let mut history = History::new(limits[0]);
        let (mut now, mut carried) = (start, word);
        for (limit, wait) in limits[1..].iter().zip(waits) {
            now += wait;
            history.change(*limit, now);
            carried = history.past[0].apply(carried);
        }
        let remembered = PAST_QUOTAS;
        if history.epoch <= remembered {
            prop_assert_eq!(history.carry(word, 0), carried);
        } else {
            // After more changes than are remembered, the bucket counts as empty at the oldest remembered change.
            let oldest = history.past[PAST_QUOTAS as usize - 1];
            let empty = time(ticks(oldest.since).wrapping_add(oldest.from.tau));
            let carried = history.carry(empty, history.epoch - remembered);
            prop_assert_eq!(history.carry(word, 0), carried);
        }
        prop_assert_eq!(history.carry(word, history.epoch), word, "no change, no conversion");
        prop_assert_eq!(carry_over(word, 1, 0, |_| None), None, "an unknown change");
    }

    /// Several changes together give no token away, and take no more than the sum of what each may take.
    #[test]
    fn loss_of_several_changes_is_at_most_the_sum_of_each(
        limits in alike(2..9),
        start in moments(),
        waits in vec(magnitude(IDLE_MAX >> 8), 9),
        share: u32,
    ) {
        let paces: Vec<_> = limits.iter().map(|limit| Pace::of_quota(&limit.quota)).collect();
        let exact_at = |index: usize| Exact::full_among(&paces[index], limits[index].tokens, &paces);
        let (mut history, mut exact) = (History::new(limits[0]), exact_at(0));
        let mut loss_most = BigInt::ZERO;
        let before = part(limits[0].quota.tau, share);
        exact.spent = &exact.tick * before;
        let mut now = start;
        for (index, wait) in (1..limits.len()).zip(waits) {
            now += wait;
            exact.refill(ticks(wait));
            exact.change(&paces[index], limits[index].tokens);
            history.change(limits[index], now);
            // Two ticks step over the marks, if the TAT would be one of them.
            loss_most += loss(&exact_at(index - 1), &exact_at(index)) + 2 * &exact_at(index).tick;
        }
        let word = history.carry(ticks(start).wrapping_add(before), 0);
        let after = &exact.tick * spent(word, ticks(now), history.limit.quota.tau);
        prop_assert!(after >= exact.spent);
        prop_assert!(after <= exact.spent + loss_most);
    }
    /// While the program of a change is loaded, the old one runs on: its admissions are charged. The new quota counts
    /// from the moment of the request, so the bucket may gain the new rate's refill meanwhile; nothing if the rate is
    /// no higher and the burst no smaller.
    #[test]
    fn packets_admitted_during_a_change_are_charged(
        (limits, packets) in alike(2..3).prop_flat_map(|limits| {
            let packets = vec(packet(&limits[0]), 3..60);
            (Just(limits), packets)
        }),
        start in moments(),
        shares in (0..100_usize, 0..100_usize),
    ) {
        let [old, new] = [limits[0], limits[1]];
        let asked = packets.len() * shares.0.min(shares.1) / 100;
        let in_force = packets.len() * shares.0.max(shares.1) / 100;
        let paces = [old.pace(), new.pace()];
        let mut pair = Pair::full(old, start);
        pair.exact = Exact::full_among(&paces[0], old.tokens, &paces);
        let mut since = start;
        for (number, Packet { gap, length }) in packets.into_iter().enumerate() {
            if number == asked {
                since = pair.now;
            }
            if number == in_force {
                let gains = new.tokens < old.tokens || {
                    let (old, new) = (Exact::full(&paces[0], 1), Exact::full(&paces[1], 1));
                    &new.tick * &old.token > &old.tick * &new.token
                };
                pair.exact.change(&paces[1], new.tokens);
                if gains {
                    pair.exact.refill(ticks(pair.now - since));
                }
                let change = old.rescale(&new, since);
                pair.program.tat = change.apply(pair.program.tat);
                pair.program.quota = new.quota;
                pair.limit = new;
            }
            let length = pair.limit.passable(length);
            pair.wait(gap, length, IDLE_MAX >> 8);
            pair.admits(length);
            prop_assert!(!pair.is_overdrawn(), "packet {} of {:?}", number, (asked, in_force));
        }
    }
}
