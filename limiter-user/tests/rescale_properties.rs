//! What becomes of a bucket when the terms of its limit change, once or many times.

mod exact;

use std::ops::Range;

use exact::{
    Exact, Limit, Pace, Packet, Program, bit_rates, cases, gaps, limits, limits_of, magnitude,
    moments, packet_rates, packets,
};
use limiter_common::bucket::{
    PAST_TERMS, Rescale, carry_over, is_full, is_time, spent, ticks, time,
};
use limiter_user::config::terms::rescale;
use num_bigint::BigInt;
use proptest::prelude::*;

/// Limits that count the same, packets or bytes.
fn alike(count: Range<usize>) -> impl Strategy<Value = Vec<Limit>> {
    prop_oneof![
        prop::collection::vec(limits_of(packet_rates()), count.clone()),
        prop::collection::vec(limits_of(bit_rates()), count),
    ]
}

/// What is spent of a bucket, in ticks of the old terms and of the new ones.
fn carried(old: &Limit, new: &Limit, since: u64, spent_before: u64) -> (Rescale, u64) {
    let change = rescale(&old.terms, &new.terms, since);
    let word = change.apply(since.wrapping_add(spent_before));
    (change, spent(word, since, new.terms.tau))
}

/// Two buckets without rounding, on the program's own idea of the old terms and of the new ones, that
/// count in the same grains.
fn scales(old: &Limit, new: &Limit) -> (Exact, Exact) {
    let paces = [Pace::of_terms(&old.terms), Pace::of_terms(&new.terms)];
    let on = |index: usize, limit: &Limit| Exact::full_among(&paces[index], limit.tokens, &paces);
    (on(0, old), on(1, new))
}

/// The grains that a change may take from a bucket. What is spent is counted in 2^-20ths of the old
/// burst, each of them rounded by a 2^-41th: together less than a millionth. The rounding of the ratio
/// is below a tick of the old terms; to it come three of the new ones, two of which step over a mark.
fn loss(old: &Exact, new: &Exact) -> BigInt {
    parts(&old.burst) + &old.tick + 3 * &new.tick
}

fn parts(burst: &BigInt) -> BigInt {
    (burst >> 20) + (burst >> 40)
}

/// Two limits that count the same, a moment, and what is spent of the first.
fn changes() -> impl Strategy<Value = (Limit, Limit, u64, u64)> {
    (alike(2..3), moments(), 0..=u32::MAX, 0..4_u8).prop_map(|(limits, since, share, whole)| {
        let tau = limits[0].terms.tau;
        let part = u128::from(tau) * u128::from(share) / u128::from(u32::MAX);
        let spent = match whole {
            0 => tau,
            1 => u64::from(share).min(tau),
            _ => u64::try_from(part).unwrap_or(tau),
        };
        (limits[0], limits[1], ticks(since), spent)
    })
}

proptest! {
    #![proptest_config(cases(4_000))]

    /// Tokens that were spent stay spent.
    #[test]
    fn a_change_gives_no_token_away((old, new, since, before) in changes()) {
        let (from, to) = scales(&old, &new);
        let (_, after) = carried(&old, &new, since, before);
        let stays = (&from.tick * before).min(&to.tick * new.terms.tau);
        prop_assert!(&to.tick * after >= stays);
    }

    /// And hardly more are.
    #[test]
    fn a_change_takes_a_millionth_of_a_burst((old, new, since, before) in changes()) {
        let (from, to) = scales(&old, &new);
        let (_, after) = carried(&old, &new, since, before);
        let stays = (&from.tick * before).min(&to.tick * new.terms.tau);
        prop_assert!(&to.tick * after <= stays + loss(&from, &to));
    }

    /// Between packets and bytes, the share of the burst that was spent stays spent, and hardly more.
    #[test]
    fn between_packets_and_bytes_the_share_stays(
        packets in limits_of(packet_rates()),
        bytes in limits_of(bit_rates()),
        to_bytes: bool,
        since: u64,
        share in 0..=u32::MAX,
    ) {
        let (old, new) = if to_bytes { (packets, bytes) } else { (bytes, packets) };
        let before = u128::from(old.terms.tau) * u128::from(share) / u128::from(u32::MAX);
        let before = u64::try_from(before).unwrap_or(u64::MAX);
        let (_, after) = carried(&old, &new, since, before);
        let (from, to) = (BigInt::from(old.terms.tau), BigInt::from(new.terms.tau));
        prop_assert!(after * &from >= before * &to);
        let loss = (parts(&to) + 3) * &from + &to;
        prop_assert!(after * &from <= before * &to + loss);
    }

    /// A full bucket stays full, even where its word is of more than a year ago.
    #[test]
    fn full_stays_full(old in limits(), new in limits(), since: u64, ago in magnitude(1 << 63)) {
        let change = rescale(&old.terms, &new.terms, since);
        for word in [since, since.wrapping_sub(ago)] {
            prop_assert_eq!(change.apply(word), time(since));
        }
    }

    /// An empty bucket stays empty where the burst does not grow.
    #[test]
    fn empty_stays_empty((old, new, since, _) in changes()) {
        let (_, after) = carried(&old, &new, since, old.terms.tau);
        prop_assert!(after == new.terms.tau || new.tokens > old.tokens);
    }

    /// Any word at all becomes a time, no further ahead than the new bucket is deep.
    #[test]
    fn any_word_is_carried_into_the_new_bucket(old in limits(), new in limits(), since: u64, word: u64) {
        let change = rescale(&old.terms, &new.terms, since);
        prop_assert!(change.chunk_from > 0 && change.chunk_shift < 64);
        let chunks = old.terms.tau.div_ceil(change.chunk_from).min(change.chunks_most);
        let rounding = (1_u64 << change.chunk_shift) - 1;
        prop_assert!(chunks.checked_mul(change.chunk_to).is_some_and(|most| most < (1 << 63) - rounding));
        let after = change.apply(word);
        prop_assert!(is_time(after));
        prop_assert!(after.wrapping_sub(since) <= new.terms.tau + 2);
    }
}

/// How a limit changed over time, as user space keeps it: the newest change first, the oldest forgotten.
struct History {
    limit: Limit,
    epoch: u64,
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

    fn change(&mut self, limit: Limit, since: u64) {
        self.past
            .insert(0, rescale(&self.limit.terms, &limit.terms, since));
        self.past.truncate(PAST_TERMS as usize);
        self.limit = limit;
        self.epoch += 1;
    }

    fn known(&self) -> u32 {
        u32::try_from(self.past.len()).unwrap_or(u32::MAX)
    }

    /// A word of an earlier epoch on the present terms.
    fn carry(&self, word: u64, epoch: u64) -> Option<u64> {
        carry_over(word, self.epoch - epoch, self.known(), |index| {
            self.past.get(index as usize)
        })
    }
}

/// Either a packet or a change to another of the limits.
#[derive(Clone, Debug)]
enum Event {
    /// With nanoseconds by which the clock of its CPU is behind.
    Packet(Packet, u64),
    Change(usize, exact::Gap),
}

/// Limits, and what happens on them. Where changes are frequent a bucket misses more than are remembered.
fn lives() -> impl Strategy<Value = (Vec<Limit>, u64, Vec<Event>)> {
    (alike(2..6), 1..20_u32).prop_flat_map(|(limits, frequent)| {
        let change = (0..limits.len(), gaps()).prop_map(|(to, gap)| Event::Change(to, gap));
        let behind = prop_oneof![3 => Just(0), 1 => magnitude(1_000)];
        let packet = (packets(&limits[0], 2), behind)
            .prop_map(|(packets, behind)| Event::Packet(packets[0], behind));
        let events = prop::collection::vec(prop_oneof![frequent => change, 6 => packet], 1..80);
        (Just(limits), moments(), events)
    })
}

proptest! {
    #![proptest_config(cases(256))]

    /// Over any number of changes, an exact bucket that changes with the program never runs out.
    #[test]
    fn changes_never_admit_what_an_exact_bucket_could_not((limits, start, events) in lives()) {
        let paces: Vec<_> = limits.iter().map(Limit::pace).collect();
        let mut exact = Exact::full_among(&paces[0], limits[0].tokens, &paces);
        let mut history = History::new(limits[0]);
        let (mut program, mut epoch) = (Program::full(limits[0].terms, start), 0);
        let mut now = start;
        for event in events {
            let terms = history.limit.terms;
            match event {
                Event::Change(to, gap) => {
                    let waited = gap.nanoseconds(terms.cost_of(60), terms.tau).min(exact::IDLE_MAX / 256);
                    now += waited;
                    exact.refill(ticks(waited));
                    exact.change(&paces[to], limits[to].tokens);
                    history.change(limits[to], ticks(now));
                }
                Event::Packet(Packet { gap, length }, behind) => {
                    let waited = gap.nanoseconds(terms.cost_of(length), terms.tau).min(exact::IDLE_MAX / 256);
                    now += waited;
                    exact.refill(ticks(waited));
                    let Some(tat) = history.carry(program.tat, epoch) else {
                        return Err(TestCaseError::fail("every change is known, or eight are"));
                    };
                    (program, epoch) = (Program { terms, tat }, history.epoch);
                    if program.admits(now.saturating_sub(behind), length) {
                        exact.charge(history.limit.tokens_of(length));
                        prop_assert!(!history.limit.is_overdrawn(&exact), "at {} ns", now - start);
                    }
                }
            }
        }
    }

    /// A bucket that missed several changes is where it would be had it been carried over at each.
    #[test]
    fn missed_changes_add_up(
        limits in prop::collection::vec(limits(), 2..30),
        start in moments(),
        gaps in prop::collection::vec(magnitude(exact::IDLE_MAX >> 6), 30),
        word: u64,
    ) {
        let mut history = History::new(limits[0]);
        let (mut now, mut eager) = (start, word);
        for (limit, gap) in limits[1..].iter().zip(gaps) {
            now += gap;
            history.change(*limit, ticks(now));
            eager = history.past[0].apply(eager);
        }
        let missed = history.epoch;
        let carried = history.carry(word, 0);
        if missed <= u64::from(PAST_TERMS) {
            prop_assert_eq!(carried, Some(eager));
        } else {
            // More than are remembered: as a bucket that was empty at the first that is.
            let oldest = history.past[PAST_TERMS as usize - 1];
            let empty = oldest.since.wrapping_add(oldest.tau_from);
            prop_assert_eq!(carried, history.carry(empty, missed - u64::from(PAST_TERMS)));
        }
        prop_assert_eq!(history.carry(word, missed), Some(word), "no change, no conversion");
        prop_assert_eq!(carry_over(word, 1, 0, |_| None), None, "changes of which nothing is known");
    }

    /// Nor do several changes cost a bucket more than the sum of what each may cost it.
    #[test]
    fn losses_add_up_at_most(
        limits in alike(2..9),
        start in moments(),
        waits in prop::collection::vec(magnitude(exact::IDLE_MAX >> 8), 9),
        share in 0..=u32::MAX,
    ) {
        let paces: Vec<_> = limits.iter().map(|limit| Pace::of_terms(&limit.terms)).collect();
        let on = |index: usize| Exact::full_among(&paces[index], limits[index].tokens, &paces);
        let (mut history, mut exact, mut allowed) = (History::new(limits[0]), on(0), BigInt::ZERO);
        let before = u128::from(limits[0].terms.tau) * u128::from(share) / u128::from(u32::MAX);
        let before = u64::try_from(before).unwrap_or(u64::MAX);
        exact.spent = &exact.tick * before;
        let word = ticks(start).wrapping_add(before);
        let mut now = start;
        for (index, wait) in (1..limits.len()).zip(waits) {
            now += wait;
            exact.refill(ticks(wait));
            history.change(limits[index], ticks(now));
            exact.change(&paces[index], limits[index].tokens);
            allowed += loss(&on(index - 1), &on(index));
        }
        let tau = history.limit.terms.tau;
        let after = history.carry(word, 0).map(|word| spent(word, ticks(now), tau));
        let after = after.map(|ticks| ticks * &exact.tick);
        prop_assert!(after.as_ref().is_some_and(|after| *after >= exact.spent), "never fewer");
        prop_assert!(after.is_some_and(|after| after <= &exact.spent + allowed), "hardly more");
    }
}

/// From the slowest to the fastest that can be written and back, with the largest and the smallest burst:
/// where a product or a ratio would overflow first.
#[test]
fn the_extremes_are_carried_over() {
    let tau_max = 1_u64 << 62;
    let of = |rate: &str| {
        let one = Limit::of(rate, 1).terms;
        let most = (u128::from(tau_max) << one.cost_shift) / u128::from(one.cost);
        [1, u64::try_from(most).unwrap_or(u64::MAX)].map(|tokens| Limit::of(rate, tokens))
    };
    let extremes = [
        "1/208d",
        "1/d",
        "148800k/s",
        "1G/s",
        "1bit",
        "400gbit",
        "1tbit",
    ]
    .map(of);
    let mut seen = 0;
    for old in extremes.as_flattened() {
        for new in extremes.as_flattened() {
            for since in [0, 1, 1 << 40, u64::MAX - 1] {
                for before in [0, 1, old.terms.tau / 2, old.terms.tau - 1, old.terms.tau] {
                    let (change, after) = carried(old, new, since, before);
                    // A full bucket is at most the two ticks from full that step over a mark.
                    assert!(
                        before > 0 || after <= 2,
                        "{old:?} to {new:?}: full is {after}"
                    );
                    assert!(is_full(change.apply(since), since.wrapping_add(2)));
                    if old.by_bytes() == new.by_bytes() {
                        let (from, to) = scales(old, new);
                        let stays = (&from.tick * before).min(&to.tick * new.terms.tau);
                        assert!(
                            &to.tick * after >= stays,
                            "{old:?} to {new:?}: {before} is {after}"
                        );
                    }
                    seen += 1;
                }
            }
        }
    }
    assert_eq!(seen, 14 * 14 * 4 * 5);
}
