//! Bans: whether one drops a packet, and how its drops are counted.
//!
//! All CPUs share the count of a ban. With one atomic addition per packet, a flood on two CPUs would cost ten times as
//! much as on one, because the cache line moves at each packet. So the count is exact up to [`EXACT`] packets. From then
//! on, each CPU adds [`STEP`] at one of [`STEP`] packets that it drops because of bans. If one prefix is flooded, its
//! count is within one step per CPU. If several are, each gets its proportion of the steps.
//!
//! Bans of one command begin and end together. The command numbers the change, writes each ban with the ends before and
//! after it, and then makes the change the last one in force: one store of a word.
//!
//! Several origins may ban a prefix. The program sees three ends of it: the latest of all that drop packets, the latest of
//! those by hand, and the latest of those that only throttle.

use crate::abi::{Ends, PrefixBans};

/// Packets of a ban that are counted exactly.
pub const EXACT: u64 = 1_024;

/// Packets that a CPU counts at once beyond [`EXACT`]. A prime, so that alternating prefixes get equal numbers of
/// steps.
pub const STEP: u64 = 61;

/// Bans of prefixes within each other that the program tries for one packet, from the longest prefix on. It tries the
/// next one only if a ban has ended or throttles, and the next edit removes bans that have ended.
pub const NESTED: u32 = 8;

/// An end before any time: of a ban that is not there.
pub const OVER: u64 = 1;

/// The end of a ban, if `change` is the last change in force.
#[inline(always)]
pub const fn end(ends: &Ends, change: u64) -> u64 {
    if ends.change <= change {
        ends.until
    } else {
        ends.before
    }
}

/// True if the bans of a prefix drop packets of its sources at `now`, if `change` is the last change in force. `allowed`:
/// see [`crate::abi::Listed::allowed`]. An entry of the allow list with the same or a longer prefix takes precedence, and
/// over the bans of programs every entry.
#[inline(always)]
pub const fn drops(bans: &PrefixBans, change: u64, allowed: u32, now: u64) -> bool {
    let until = if allowed == 0 {
        end(&bans.all, change)
    } else {
        end(&bans.by_hand, change)
    };
    allowed <= bans.bits && !is_over(until, now)
}

/// True if the bans of a prefix put its sources on the list of throttled ones at `now`, if `change` is the last change in
/// force. `allowed`: see [`crate::abi::Listed::allowed`]. Programs make these bans, so every entry of the allow list takes
/// precedence.
#[inline(always)]
pub const fn throttles(bans: &PrefixBans, change: u64, allowed: u32, now: u64) -> bool {
    allowed == 0 && !is_over(end(&bans.throttled, change), now)
}

/// The later of two ends.
pub const fn later(first: u64, second: u64) -> u64 {
    if first == 0 || second == 0 {
        0
    } else if first > second {
        first
    } else {
        second
    }
}

/// True if a ban with this end has ended at `now`.
#[inline(always)]
pub const fn is_over(end: u64, now: u64) -> bool {
    end != 0 && end <= now
}

/// The number to add to the count of a ban, now `count`, when it drops `packets`. `before`: packets that this CPU has
/// dropped because of bans.
#[inline(always)]
pub const fn increment(count: u64, before: u64, packets: u64) -> u64 {
    if count < EXACT {
        packets
    } else {
        let steps = before.wrapping_add(packets) / STEP - before / STEP;
        steps.wrapping_mul(STEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prefix whose bans end so from the beginning on.
    fn bans(all: u64, by_hand: u64, bits: u32) -> PrefixBans {
        let ends = |until| Ends {
            until,
            ..Ends::default()
        };
        PrefixBans {
            all: ends(all),
            by_hand: ends(by_hand),
            throttled: ends(OVER),
            bits,
            ..PrefixBans::default()
        }
    }

    #[test]
    fn ban_drops_until_its_end_unless_the_same_or_a_longer_prefix_is_allowed() {
        for bits in [0, 1, 104, 127, 128] {
            for until in [0, 1, 1_000, u64::MAX] {
                let (by_hand, of_program) = (bans(until, until, bits), bans(until, OVER, bits));
                for allowed in 0..=129 {
                    for now in [1, 999, 1_000, 1_001] {
                        let longest = u32::checked_sub(allowed, 1);
                        let is_allowed = longest.is_some_and(|longest| longest >= bits);
                        let lasts = until == 0 || now < until;
                        let wanted = allowed == 0 && lasts;
                        assert_eq!(drops(&of_program, 0, allowed, now), wanted, "{allowed}");
                        let case = (bits, until, allowed, now);
                        assert_eq!(
                            drops(&by_hand, 0, allowed, now),
                            lasts && !is_allowed,
                            "{case:?}"
                        );
                    }
                }
            }
        }
    }

    /// Within an allowed network, the ban by hand counts, and not the longer one of a program.
    #[test]
    fn prefix_with_both_kinds_of_bans_drops_like_each_of_them_in_its_time() {
        let both = bans(2_000, 1_000, 128);
        for (allowed, now, wanted) in [
            (0, 999, true),
            (0, 1_999, true),
            (0, 2_000, false),
            (25, 999, true),
            (25, 1_000, false),
        ] {
            assert_eq!(drops(&both, 0, allowed, now), wanted, "{allowed} {now}");
        }
        assert_eq!([later(0, 5), later(5, 0), later(5, 7)], [0, 0, 7]);
    }

    /// Ends that the eighth change makes.
    fn of_eighth_change(until: u64) -> Ends {
        Ends {
            until,
            before: OVER,
            change: 8,
        }
    }

    #[test]
    fn throttle_drops_nothing_and_ends_and_every_allowed_prefix_takes_precedence() {
        let sum = PrefixBans {
            throttled: of_eighth_change(1_000),
            ..bans(OVER, OVER, 128)
        };
        for (change, allowed, now, wanted) in [
            (7, 0, 999, false),
            (8, 0, 999, true),
            (8, 0, 1_000, false),
            (8, 1, 999, false),
            (8, 129, 999, false),
        ] {
            let case = (change, allowed, now);
            assert_eq!(throttles(&sum, change, allowed, now), wanted, "{case:?}");
            assert!(!drops(&sum, change, allowed, now), "{case:?}");
        }
    }

    #[test]
    fn ban_of_a_later_change_has_the_end_before_it() {
        let ban = PrefixBans {
            all: of_eighth_change(0),
            ..bans(0, OVER, 128)
        };
        for (change, drops_now) in [
            (0, false),
            (7, false),
            (8, true),
            (9, true),
            (u64::MAX, true),
        ] {
            assert_eq!(drops(&ban, change, 0, 1_000), drops_now, "{change}");
        }
    }

    #[test]
    fn count_is_exact_up_to_the_bound_then_within_one_step_per_cpu() {
        let cpus = 3;
        for merged in [1, 3, 64] {
            let (mut count, mut seen, mut dropped) = (0, 0_u64, [6, 58, 1_000_002]);
            for packet in 1..100_000_u64 {
                let cpu = (packet.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % cpus;
                count += increment(count, dropped[cpu], merged);
                dropped[cpu] += merged;
                seen += merged;
                if seen <= EXACT {
                    assert_eq!(count, seen);
                }
                assert!(
                    count.abs_diff(seen) <= cpus as u64 * STEP + merged,
                    "{count} of {seen}"
                );
            }
        }
    }

    #[test]
    fn alternating_prefixes_get_equal_counts() {
        const ROUNDS: u64 = STEP * 100;
        for prefixes in 2..=60 {
            let (mut counts, mut dropped) = (vec![EXACT; prefixes], 0);
            for _ in 0..ROUNDS {
                for count in &mut counts {
                    *count += increment(*count, dropped, 1);
                    dropped += 1;
                }
            }
            assert_eq!(counts, vec![EXACT + ROUNDS; prefixes]);
        }
    }
}
