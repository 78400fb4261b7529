//! Counts the packets that the deny list drops, for each of its prefixes.
//!
//! All CPUs share the count of a prefix. With one atomic addition per packet, a flood on two CPUs would cost ten times
//! as much as on one, because the cache line moves at each packet. So the count is exact up to [`EXACT`] packets. From
//! then on, each CPU adds [`STEP`] at one of [`STEP`] packets that it denies. If one prefix is flooded, its count is
//! within one step per CPU. If several are, each gets its proportion of the steps.

/// Packets of a prefix that are counted exactly.
pub const EXACT: u64 = 1_024;

/// Packets that a CPU counts at once beyond [`EXACT`]. A prime, so that alternating prefixes get equal numbers of
/// steps.
pub const STEP: u64 = 61;

/// The number that a packet adds to the count of its prefix, now `count`. `denied`: packets that this CPU has denied,
/// including this one.
#[must_use]
#[inline(always)]
pub const fn increment(count: u64, denied: u64) -> u64 {
    if count < EXACT {
        1
    } else if denied.is_multiple_of(STEP) {
        STEP
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_is_exact_up_to_the_bound_then_within_one_step_per_cpu() {
        let cpus = 3;
        let (mut count, mut denied) = (0, [7, 59, 1_000_003]);
        for packet in 1..100_000_u64 {
            let cpu = (packet.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % cpus;
            denied[cpu] += 1;
            count += increment(count, denied[cpu]);
            if packet <= EXACT {
                assert_eq!(count, packet);
            }
            assert!(
                count.abs_diff(packet) <= cpus as u64 * STEP,
                "{count} of {packet}"
            );
        }
    }

    #[test]
    fn alternating_prefixes_get_equal_counts() {
        const ROUNDS: u64 = STEP * 100;
        for prefixes in 2..=60 {
            let (mut counts, mut denied) = (vec![EXACT; prefixes], 0);
            for _ in 0..ROUNDS {
                for count in &mut counts {
                    denied += 1;
                    *count += increment(*count, denied);
                }
            }
            assert_eq!(counts, vec![EXACT + ROUNDS; prefixes]);
        }
    }
}
