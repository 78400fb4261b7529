//! The program's bucket admits no more than an exact bucket, and refuses at most a rounding error more.

use crate::exact::{
    Exact, Pace, Pair, Program, cases,
    draw::{
        IDLE_MAX, Packet, bit_rates, buckets, limits, limits_of, magnitude, moments, packet_rates,
        traffic,
    },
};
use limiter_common::arithmetic::{
    bucket::{DEBT_MAX, Decision, REST, TAU_MAX, TICK_SHIFT, decide, refunded, spent, ticks, time},
    quota::{BY_BYTES, LENGTH_MAX, SHARED},
};
use num_bigint::BigInt;
use proptest::{collection::vec, option, prelude::*};

/// The TAT that replaces a mark: up to four ticks late.
const AFTER_MARKS: u64 = REST + 1;

fn is_full(tat: u64, now: u64) -> bool {
    tat.wrapping_sub(now).cast_signed() <= 0
}

proptest! {
    #![proptest_config(cases(512))]

    /// An exact bucket that is charged with the program's admissions never runs out.
    #[test]
    fn bucket_never_admits_more_than_an_exact_bucket(
        (limit, start, packets) in traffic(limits(), 100),
    ) {
        let mut pair = Pair::full(limit, start);
        for (number, Packet { gap, length }) in packets.into_iter().enumerate() {
            pair.wait(gap, length, IDLE_MAX);
            let admitted = pair.admits(length);
            prop_assert!(!pair.is_overdrawn(), "packet {} was one too many", number);
            if number == 0 {
                prop_assert_eq!(admitted, limit.quota.cost_of(length) <= limit.quota.tau);
            }
        }
    }

    /// The bucket and an exact one with the rounded cost refuse the same packets. A bucket that other hosts charge too
    /// admits nothing before its debt is refilled, and a packet as soon as there is a token.
    #[test]
    fn packet_bucket_is_exact_even_in_debt(
        (mut limit, start, packets) in traffic(limits_of(packet_rates()), 100),
        shared: bool,
        others in vec(option::of((magnitude(1 << 40), any::<bool>())), 100),
    ) {
        limit.quota.flags |= if shared { SHARED } else { 0 };
        let mut pair = Pair::full(limit, start);
        pair.exact = Exact::full(&Pace::of_quota(&limit.quota), limit.tokens);
        for (number, (Packet { gap, length }, others)) in packets.into_iter().zip(others).enumerate() {
            pair.wait(gap, length, IDLE_MAX);
            let now = ticks(pair.now);
            if let (true, Some((tokens, most))) = (shared, others) {
                let ahead = if is_full(pair.program.tat, now) { 0 } else { pair.program.tat.wrapping_sub(now) };
                // At most the room that there is, and often exactly that.
                let room = (limit.quota.tau + DEBT_MAX - ahead) / limit.quota.cost;
                let tokens = if most { room } else { tokens.min(room) };
                pair.program.tat = time(now.wrapping_add(ahead + tokens * limit.quota.cost));
                pair.exact.charge(tokens);
            }
            let has_one = pair.exact.left() >= pair.exact.token;
            prop_assert_eq!(pair.admits(length), has_one, "packet {}", number);
            if pair.program.tat == AFTER_MARKS {
                let spent = AFTER_MARKS.wrapping_sub(now);
                pair.exact.spent = &pair.exact.tick * spent;
            }
        }
    }

    /// A refused packet of any length makes a bucket empty, and brings it into debt for the time of the hold. No later
    /// packet makes the hold longer, and none begins another before a packet has passed.
    #[test]
    fn held_bucket_refuses_everything_until_the_hold_ends(
        mut limit in limits(),
        now in moments(),
        nanoseconds in magnitude(1 << 53),
        spare: u64,
        lengths in vec(1..=LENGTH_MAX, 4),
    ) {
        // Even, as the configuration makes them.
        let quota = &mut limit.quota;
        quota.tau += quota.tau % 2;
        if quota.flags & BY_BYTES == 0 {
            quota.cost += quota.cost % 2;
        }
        let nanoseconds = nanoseconds.min((TAU_MAX - quota.tau) >> TICK_SHIFT).max(1);
        quota.hold = nanoseconds << TICK_SHIFT;
        let least = lengths.iter().map(|length| quota.cost_of(*length)).min().unwrap_or(0).min(quota.tau);
        // Less than the cheapest packet is left.
        let left = (spare % least) & !1;
        let word = time(ticks(now).wrapping_add(quota.tau - left));
        let held = quota.held(word, || now, least).expect("it refuses, and was not held");
        let end = ticks(now).wrapping_add(quota.tau + quota.hold);
        prop_assert_eq!(held, time(end) | 1);
        for wait in [0, nanoseconds / 2, nanoseconds] {
            let now = now.wrapping_add(wait);
            for length in &lengths {
                let decided = quota.decide(held, now, quota.cost_of(*length));
                prop_assert!(matches!(decided, Decision::Refuse { .. }), "{} bytes after {} ns", length, wait);
                prop_assert_eq!(quota.held(held, || now, quota.cost_of(*length)), None);
            }
            prop_assert_eq!(quota.corrected(held, now), None);
        }
        // A packet that was charged before the hold began is refused by a later limit.
        prop_assert_eq!(quota.refunded(held, least, now, now), held);
        // The first packet that passes ends the mark.
        let later = now.wrapping_add(nanoseconds).wrapping_add((least >> TICK_SHIFT) + 1);
        if least <= quota.tau && least + quota.tau + quota.hold < TAU_MAX {
            let Decision::Admit { tat } = quota.decide(held, later, least) else {
                panic!("{least} ticks after the hold, it refuses {least}");
            };
            prop_assert_eq!(tat % 2, 0);
        }
        // A bucket that admits the packet is not held.
        prop_assert_eq!(quota.held(time(ticks(now)), || now, least), None);
        // Nor one that could never admit it.
        prop_assert_eq!(quota.held(word, || now, quota.tau + 2), None);
    }

    /// A limit on bytes refuses only packets that an exact bucket would refuse if it charged a tick and 2^-41 more for
    /// each packet.
    #[test]
    fn byte_bucket_refuses_at_most_one_tick_per_packet_early(
        (limit, start, packets) in traffic(limits_of(bit_rates()), 100),
    ) {
        let mut pair = Pair::full(limit, start);
        // The second pace is there for its grain, which makes 2^-41 of a token whole.
        let paces = [limit.pace(), Pace { tokens: 1.into(), ticks: BigInt::from(1) << 41 }];
        pair.exact = Exact::full_among(&paces[0], limit.tokens, &paces);
        for (number, Packet { gap, length }) in packets.into_iter().enumerate() {
            pair.wait(gap, length, IDLE_MAX);
            let exactly = &pair.exact.token * length;
            let surcharge: BigInt = &pair.exact.tick + (&exactly >> 41);
            let fits = pair.exact.left() >= exactly + &surcharge;
            let admitted = pair.admits(length);
            prop_assert!(admitted || !fits, "packet {} could have passed", number);
            if admitted {
                pair.exact.spent += surcharge;
            }
            if pair.program.tat == AFTER_MARKS {
                let spent = &pair.exact.tick * AFTER_MARKS.wrapping_sub(ticks(pair.now));
                pair.exact.spent = spent.max(pair.exact.spent);
            }
        }
    }

    /// Packets that keep a distance of at least one packet's cost are never refused, even with a bucket that is empty
    /// at first.
    #[test]
    fn source_below_its_rate_is_never_refused(
        limit in limits(),
        start in moments(),
        packets in vec((1..=1_514_u64, prop_oneof![3 => Just(0), 1 => magnitude(1 << 40)]), 1..100),
    ) {
        let tau = limit.quota.tau;
        let mut program = Program { quota: limit.quota, tat: time(ticks(start).wrapping_add(tau)) };
        let mut now = start;
        for (length, extra) in packets {
            let length = limit.passable(length);
            // The two ticks by which the TAT may be late are less than a nanosecond.
            let late = u64::from(program.tat == AFTER_MARKS);
            now += limit.quota.cost_of(length).div_ceil(ticks(1)) + late + extra;
            prop_assert!(program.admits(now, length), "{} bytes at {}", length, now - start);
        }
    }
}

proptest! {
    #![proptest_config(cases(4_000))]

    /// Admitted packets are charged in full, and refused ones not at all: the retry-after is exact, however many
    /// packets are refused meanwhile.
    #[test]
    fn retry_after_is_exact((tau, now, cost, tat) in buckets(), meanwhile in vec(any::<u64>(), 0..4)) {
        match decide(tat, now, cost, tau) {
            Decision::Admit { tat: charged } => {
                let after = spent(tat, now, tau) + cost;
                prop_assert!(after <= tau);
                prop_assert_eq!(charged, time(now.wrapping_add(after)));
            }
            Decision::Refuse { wait } => {
                prop_assert!(wait > 0 && wait <= cost, "the wait is at most the packet's cost");
                for early in meanwhile.into_iter().map(|early| early % wait).chain([wait - 1]) {
                    let verdict = decide(tat, now.wrapping_add(early), cost, tau);
                    prop_assert_eq!(verdict, Decision::Refuse { wait: wait - early });
                }
                let then = decide(tat, now.wrapping_add(wait), cost, tau);
                prop_assert!(matches!(then, Decision::Admit { .. }), "{:?}", then);
            }
        }
    }

    /// A refunded charge leaves no more in the bucket than no charge, whatever others took meanwhile, and less only by
    /// the refill since.
    #[test]
    fn refund_gives_no_tokens_away(
        (tau, start, cost, tat) in buckets(),
        others in vec((0..40_u64, 1..=100_u64), 0..6),
        later in 0..40_u64,
    ) {
        let Decision::Admit { tat: charged } = decide(tat, start, cost, tau) else {
            return Ok(());
        };
        let (mut with, mut without, mut elapsed) = (charged, tat, 0);
        let mut all_fit = true;
        for (gap, share) in others {
            elapsed += cost / 20 * gap;
            let now = start.wrapping_add(elapsed);
            let other = (cost / 50 * share).max(1);
            match decide(with, now, other, tau) {
                Decision::Admit { tat } => with = tat,
                Decision::Refuse { .. } => continue,
            }
            match decide(without, now, other, tau) {
                Decision::Admit { tat } => without = tat,
                Decision::Refuse { .. } => all_fit = false,
            }
        }
        prop_assert!(all_fit, "fewer tokens than without the charge");
        elapsed += cost / 20 * later;
        let now = start.wrapping_add(elapsed);
        let back = refunded(with, cost, start, now);
        let (back, without) = (spent(back, now, tau), spent(without, now, tau));
        // Each TAT may be four ticks late, because of the marks.
        prop_assert!(back + AFTER_MARKS >= without, "{} and not {}", back, without);
        prop_assert!(back <= without + elapsed.min(cost) + AFTER_MARKS, "{} of {}", back, without);
    }
}
