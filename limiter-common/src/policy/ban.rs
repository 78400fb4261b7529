//! Bans: whether one drops a packet, and how its drops are counted.
//!
//! All CPUs share the count of a ban. With one atomic addition per packet, a flood on two CPUs would cost ten times as
//! much as on one, because the cache line moves at each packet. So the count is exact up to [`EXACT`] packets. From then
//! on, each CPU adds [`STEP`] at one of [`STEP`] packets that it drops because of bans. If one prefix is flooded, its
//! count is within one step per CPU. If several are, each gets its proportion of the steps.

use crate::abi::Ban;

/// Packets of a ban that are counted exactly.
pub const EXACT: u64 = 1_024;

/// Packets that a CPU counts at once beyond [`EXACT`]. A prime, so that alternating prefixes get equal numbers of
/// steps.
pub const STEP: u64 = 61;

/// Bans of prefixes within each other that the program tries for one packet, from the longest prefix on. It tries the
/// next one only if a ban has ended, and the next edit removes bans that have ended.
pub const NESTED: u32 = 8;

/// Whether a ban drops packets of its sources at `now`. `allowed`: see [`crate::abi::Listed::allowed`]. An entry of the
/// allow list with the same or a longer prefix takes precedence.
#[inline(always)]
pub const fn drops(ban: &Ban, allowed: u32, now: u64) -> bool {
    allowed <= ban.bits && !is_over(ban, now)
}

/// Whether a ban has ended at `now`.
#[inline(always)]
pub const fn is_over(ban: &Ban, now: u64) -> bool {
    ban.until != 0 && ban.until <= now
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
    use crate::abi::{ORIGIN_MAX, REASON_MAX};

    #[test]
    fn ban_drops_until_its_end_unless_the_same_or_a_longer_prefix_is_allowed() {
        for bits in [0, 1, 104, 127, 128] {
            for until in [0, 1, 1_000, u64::MAX] {
                let ban = Ban {
                    until,
                    dropped: 0,
                    bits,
                    reserved: 0,
                    origin: [0; ORIGIN_MAX],
                    reason: [0; REASON_MAX],
                };
                for allowed in 0..=129 {
                    for now in [1, 999, 1_000, 1_001] {
                        let longest = u32::checked_sub(allowed, 1);
                        let is_allowed = longest.is_some_and(|longest| longest >= bits);
                        let lasts = until == 0 || now < until;
                        let case = (bits, until, allowed, now);
                        assert_eq!(drops(&ban, allowed, now), lasts && !is_allowed, "{case:?}");
                    }
                }
            }
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
