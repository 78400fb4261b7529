//! What becomes of a bucket when the terms of its limit change, once or many times.

mod exact;

use std::ops::Range;

use exact::{
    Exact, Limit, Pace, Pair, cases,
    draw::{
        Gap, IDLE_MAX, Packet, bit_rates, gaps, limits, limits_of, magnitude, moments, most_tokens,
        packet, packet_rates,
    },
    part,
};
use limiter_common::bucket::{
    CONVERTING, PAST_TERMS, Rescale, carry_over, is_time, spent, ticks, time,
};
use limiter_user::config::terms::rescale;
use num_bigint::BigInt;
use proptest::{collection::vec, prelude::*};

/// Limits that count the same, packets or bytes.
fn alike(count: Range<usize>) -> impl Strategy<Value = Vec<Limit>> {
    prop_oneof![
        vec(limits_of(packet_rates()), count.clone()),
        vec(limits_of(bit_rates()), count)
    ]
}

/// Two limits that count the same, a moment, and what is spent of the first.
fn changes() -> impl Strategy<Value = (Limit, Limit, u64, u64)> {
    (alike(2..3), any::<u64>(), any::<u32>(), 0..4_u8).prop_map(|(limits, since, share, kind)| {
        let tau = limits[0].terms.tau;
        let spent = match kind {
            0 => tau,
            1 => u64::from(share).min(tau),
            _ => part(tau, share),
        };
        (limits[0], limits[1], since, spent)
    })
}

/// What is spent of the new bucket, in its ticks, where `before` ticks of the old one were.
fn carried(old: &Limit, new: &Limit, since: u64, before: u64) -> u64 {
    let word = rescale(&old.terms, &new.terms, since).apply(since.wrapping_add(before));
    spent(word, since, new.terms.tau)
}

/// Two buckets without rounding, on what the program takes the old terms and the new ones to be,
/// that count in the same grains.
fn scales(old: &Limit, new: &Limit) -> (Exact, Exact) {
    let paces = [Pace::of_terms(&old.terms), Pace::of_terms(&new.terms)];
    let on = |pace: &Pace, limit: &Limit| Exact::full_among(pace, limit.tokens, &paces);
    (on(&paces[0], old), on(&paces[1], new))
}

/// What a change may take from a bucket, in grains. What is spent is counted in 2^-20ths of the old
/// burst, each of them rounded by a 2^-41th; the rounding of the ratio is below a tick of the old
/// terms; to it come three ticks of the new ones, two of which step over a mark.
fn loss(old: &Exact, new: &Exact) -> BigInt {
    a_millionth(&old.burst) + &old.tick + 3 * &new.tick
}

fn a_millionth(burst: &BigInt) -> BigInt {
    (burst >> 20) + (burst >> 40)
}

proptest! {
    #![proptest_config(cases(4_000))]

    /// Tokens that were spent stay spent.
    #[test]
    fn a_change_gives_no_token_away((old, new, since, before) in changes()) {
        let (from, to) = scales(&old, &new);
        let stays = (&from.tick * before).min(&to.tick * new.terms.tau);
        prop_assert!(&to.tick * carried(&old, &new, since, before) >= stays);
    }

    /// And hardly more are: a millionth of the burst.
    #[test]
    fn a_change_takes_a_millionth_of_the_burst((old, new, since, before) in changes()) {
        let (from, to) = scales(&old, &new);
        let stays = &from.tick * before;
        let after = &to.tick * carried(&old, &new, since, before);
        prop_assert!(after <= stays + loss(&from, &to));
    }

    /// Between packets and bytes the share of the burst that was spent stays spent, and hardly more.
    #[test]
    fn between_packets_and_bytes_the_share_stays(
        packets in limits_of(packet_rates()),
        bytes in limits_of(bit_rates()),
        to_bytes: bool,
        since: u64,
        share: u32,
    ) {
        let (old, new) = if to_bytes { (packets, bytes) } else { (bytes, packets) };
        let before = part(old.terms.tau, share);
        let (from, to) = (BigInt::from(old.terms.tau), BigInt::from(new.terms.tau));
        let after = carried(&old, &new, since, before) * &from;
        prop_assert!(after >= before * &to);
        prop_assert!(after <= before * &to + &to + (a_millionth(&to) + 3) * &from);
    }

    /// A full bucket stays full, even where its word is of more than a year ago.
    #[test]
    fn full_stays_full(
        old in limits(),
        new in limits(),
        since: u64,
        ago in prop_oneof![4 => magnitude(1 << 63), 1 => Just(0)],
    ) {
        let change = rescale(&old.terms, &new.terms, since);
        prop_assert_eq!(change.apply(since.wrapping_sub(ago)), time(since));
    }

    /// An empty bucket stays empty where the burst does not grow.
    #[test]
    fn empty_stays_empty(limits in alike(2..3), since: u64) {
        let (old, new) =
            if limits[0].tokens < limits[1].tokens { (1, 0) } else { (0, 1) };
        let (old, new) = (limits[old], limits[new]);
        prop_assert_eq!(carried(&old, &new, since, old.terms.tau), new.terms.tau);
    }

    /// Any word at all becomes a time no further ahead than the new bucket is deep, and no number of
    /// chunks overflows.
    #[test]
    fn any_word_is_carried_into_the_new_bucket(
        old in limits(),
        new in limits(),
        since: u64,
        word: u64,
    ) {
        let change = rescale(&old.terms, &new.terms, since);
        let Rescale { chunk_from, chunk_to, chunk_shift, chunks_most, .. } = change;
        prop_assert!(chunk_from > 0 && chunk_to > 0 && chunk_shift < 63);
        let largest = chunks_most.checked_mul(chunk_to);
        prop_assert!(largest.is_some_and(|largest| largest < (1 << 63)));
        let after = change.apply(word);
        prop_assert!(is_time(after));
        prop_assert!(after.wrapping_sub(since) <= new.terms.tau + CONVERTING + 1);
    }
}

/// How a limit changed, as user space keeps it: the newest change first, the oldest forgotten.
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

    /// A word of an earlier epoch on the present terms.
    fn carry(&self, word: u64, epoch: u64) -> u64 {
        let known = u32::try_from(self.past.len()).expect("eight at most");
        carry_over(word, self.epoch - epoch, known, |index| {
            self.past.get(index as usize)
        })
        .expect("every change is known, or the last eight are")
    }
}

/// What happens to a bucket; a packet may come on a CPU whose clock is behind, by nanoseconds.
#[derive(Clone, Debug)]
enum Event {
    Packet { packet: Packet, behind: u64 },
    Change { gap: Gap, to: usize },
}

/// Limits, the moment of the first event and the events. Where changes are frequent a bucket misses
/// more of them than are remembered.
fn lives() -> impl Strategy<Value = (Vec<Limit>, u64, Vec<Event>)> {
    (alike(2..6), 1..20_u32).prop_flat_map(|(limits, frequent)| {
        let change = (gaps(), 0..limits.len()).prop_map(|(gap, to)| Event::Change { gap, to });
        let behind = prop_oneof![3 => Just(0), 1 => magnitude(1_000)];
        let packet = (packet(&limits[0]), behind)
            .prop_map(|(packet, behind)| Event::Packet { packet, behind });
        let events = vec(prop_oneof![frequent => change, 6 => packet], 1..80);
        (Just(limits), moments(), events)
    })
}

proptest! {
    #![proptest_config(cases(512))]

    /// Over any number of changes, an exact bucket that changes with the program never runs out.
    #[test]
    fn changes_never_admit_what_an_exact_bucket_could_not((limits, start, events) in lives()) {
        let paces: Vec<_> = limits.iter().map(Limit::pace).collect();
        let mut pair = Pair::full(limits[0], start + IDLE_MAX);
        pair.exact = Exact::full_among(&paces[0], limits[0].tokens, &paces);
        let (mut history, mut epoch) = (History::new(limits[0]), 0);
        for event in events {
            // All of them together are less than the year after which a word is stale.
            let wait = |gap: Gap| gap.nanoseconds(&history.limit.terms, 60).min(IDLE_MAX >> 8);
            match event {
                Event::Change { gap, to } => {
                    pair.wait(wait(gap));
                    pair.exact.change(&paces[to], limits[to].tokens);
                    history.change(limits[to], ticks(pair.now));
                }
                Event::Packet { packet: Packet { gap, length }, behind } => {
                    pair.wait(wait(gap));
                    pair.limit = history.limit;
                    pair.program.terms = history.limit.terms;
                    pair.program.tat = history.carry(pair.program.tat, epoch);
                    epoch = history.epoch;
                    pair.admits_behind(behind, length);
                    prop_assert!(!pair.is_overdrawn(), "{:?} after {}", pair.limit, epoch);
                }
            }
        }
    }

    /// A bucket that missed several changes is where it would be had it been carried over at each.
    #[test]
    fn missed_changes_add_up(
        limits in vec(limits(), 2..30),
        start in moments(),
        waits in vec(magnitude(IDLE_MAX >> 6), 30),
        word: u64,
    ) {
        let mut history = History::new(limits[0]);
        let (mut now, mut carried) = (start, word);
        for (limit, wait) in limits[1..].iter().zip(waits) {
            now += wait;
            history.change(*limit, ticks(now));
            carried = history.past[0].apply(carried);
        }
        let remembered = u64::from(PAST_TERMS);
        if history.epoch <= remembered {
            prop_assert_eq!(history.carry(word, 0), carried);
        } else {
            // More than are remembered: as a bucket that was empty at the first that is.
            let oldest = history.past[PAST_TERMS as usize - 1];
            let empty = oldest.since.wrapping_add(oldest.tau_from);
            let carried = history.carry(empty, history.epoch - remembered);
            prop_assert_eq!(history.carry(word, 0), carried);
        }
        prop_assert_eq!(history.carry(word, history.epoch), word, "no change, no conversion");
        prop_assert_eq!(carry_over(word, 1, 0, |_| None), None, "a change that nobody knows");
    }

    /// Several changes together give no token away, and take no more than each may take.
    #[test]
    fn losses_add_up_at_most(
        limits in alike(2..9),
        start in moments(),
        waits in vec(magnitude(IDLE_MAX >> 8), 9),
        share: u32,
    ) {
        let paces: Vec<_> = limits.iter().map(|limit| Pace::of_terms(&limit.terms)).collect();
        let on = |index: usize| Exact::full_among(&paces[index], limits[index].tokens, &paces);
        let (mut history, mut exact, mut loss_most) = (History::new(limits[0]), on(0), BigInt::ZERO);
        let before = part(limits[0].terms.tau, share);
        exact.spent = &exact.tick * before;
        let mut now = start;
        for (index, wait) in (1..limits.len()).zip(waits) {
            now += wait;
            exact.refill(ticks(wait));
            exact.change(&paces[index], limits[index].tokens);
            history.change(limits[index], ticks(now));
            loss_most += loss(&on(index - 1), &on(index));
        }
        let word = history.carry(ticks(start).wrapping_add(before), 0);
        let after = &exact.tick * spent(word, ticks(now), history.limit.terms.tau);
        prop_assert!(after >= exact.spent);
        prop_assert!(after <= exact.spent + loss_most);
    }
}

/// From the slowest to the fastest that can be written and back, with the smallest and the largest
/// burst: where a product or a ratio would overflow first.
#[test]
fn the_extremes_are_carried_over() {
    let rates = [
        "1/208d",
        "1/d",
        "148800k/s",
        "1G/s",
        "1bit",
        "400gbit",
        "1tbit",
    ];
    let extremes = rates.map(|text| {
        let one = Limit::of(text, 1);
        [one, Limit::of(text, most_tokens(&one.rate))]
    });
    let extremes = extremes.as_flattened();
    for (old, new) in extremes
        .iter()
        .flat_map(|old| extremes.iter().map(move |new| (old, new)))
    {
        let tau = old.terms.tau;
        for before in [0, 1, tau / 2, tau - 1, tau] {
            for since in [0, 1, 1 << 40, u64::MAX - 1] {
                let after = carried(old, new, since, before);
                // A full bucket is at most the two ticks from full that step over the marks.
                assert!(
                    before > 0 || after <= 2,
                    "{old:?} to {new:?}: full is {after}"
                );
                assert!(before < tau || old.tokens < new.tokens || after == new.terms.tau);
                if old.by_bytes() == new.by_bytes() {
                    let (from, to) = scales(old, new);
                    let stays = (&from.tick * before).min(&to.tick * new.terms.tau);
                    let after = &to.tick * after;
                    assert!(after >= stays, "{old:?} to {new:?}: {before} is too little");
                    assert!(
                        after <= stays + loss(&from, &to),
                        "{old:?} to {new:?}: too much"
                    );
                }
            }
        }
    }
}
