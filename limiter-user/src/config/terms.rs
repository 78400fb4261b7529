//! From rate and burst to what the kernel computes with: ticks.

use limiter_common::{
    bucket::{Rescale, TAU_MAX, TICK_SHIFT},
    limit::{LENGTH_MAX, Terms},
};

use super::{Burst, Invalid, Rate, Unit};

/// The largest factor for a byte's cost: times the longest packet it stays below 2^63.
const BYTE_COST_MAX: u128 = 1 << (63 - LENGTH_MAX.trailing_zeros());
/// More fractional bits than these make no difference to any rate.
const SHIFT_MAX: u32 = 40;
/// A change of terms measures what is spent in this many parts of the burst.
const CHUNKS: u64 = 1 << 20;

/// The kernel's terms of a limit. `frame_max` is the longest frame, in bytes, that can arrive: a
/// bucket that could never admit one is refused.
pub fn terms(rate: &Rate, burst: &Burst, frame_max: u64) -> Result<Terms, Invalid> {
    let burst = burst.for_rate(rate)?;
    let period = u128::from(rate.period_ns) << TICK_SHIFT;
    let mut terms = match rate.unit {
        Unit::Packets => by_packets(period, rate.amount),
        Unit::Bytes => by_bytes(period * 8, rate.amount),
    };
    let tau = u128::from(terms.cost) * u128::from(burst.tokens);
    let tau = tau.div_ceil(1 << terms.cost_shift);
    terms.tau = u64::try_from(tau).ok().filter(|tau| *tau <= TAU_MAX).ok_or_else(|| {
        Invalid::new(format!(
            "a burst of {burst} takes more than 208 days to refill at {rate}: write a smaller burst or a higher rate"
        ))
    })?;
    if rate.unit == Unit::Bytes && burst.tokens < frame_max {
        return Err(Invalid::new(format!(
            "a burst of {burst} could never admit a frame of {frame_max} bytes, which this interface may deliver: write at least {frame_max}b"
        )));
    }
    Ok(terms)
}

/// Rounded up: rounding never admits more than was asked for.
fn by_packets(period: u128, packets: u64) -> Terms {
    let cost = period.div_ceil(u128::from(packets));
    Terms {
        cost: u64::try_from(cost).unwrap_or(u64::MAX),
        ..Terms::default()
    }
}

/// As many fractional bits as keep the product with a length within a word.
fn by_bytes(period: u128, bits: u64) -> Terms {
    let cost = |shift: u32| (period << shift).div_ceil(u128::from(bits));
    let shift = (0..=SHIFT_MAX)
        .rev()
        .find(|shift| cost(*shift) < BYTE_COST_MAX)
        .unwrap_or(0);
    Terms {
        cost: u64::try_from(cost(shift)).unwrap_or(u64::MAX),
        cost_shift: shift,
        by_bytes: 1,
        tau: 0,
    }
}

/// How buckets are carried over from `old` to `new` terms at the moment `since` (in ticks): what was
/// spent stays spent, in tokens, and a bucket is never deeper than the new burst. Between packets
/// and bytes, which do not compare, it is the share of the burst that stays spent.
#[must_use]
pub fn rescale(old: &Terms, new: &Terms, since: u64) -> Rescale {
    let chunk_from = (old.tau / CHUNKS).max(1);
    let (numerator, denominator) = if old.by_bytes == new.by_bytes {
        (
            u128::from(new.cost) << (SHIFT_MAX - new.cost_shift),
            u128::from(old.cost) << (SHIFT_MAX - old.cost_shift),
        )
    } else {
        (u128::from(new.tau), u128::from(old.tau))
    };
    let (chunk_to, chunk_shift) = scaled(chunk_from, numerator, denominator);
    let chunks_most = (u128::from(new.tau) << chunk_shift) / u128::from(chunk_to);
    Rescale {
        since,
        tau_from: old.tau,
        tau_to: new.tau,
        chunk_from,
        chunk_to,
        chunk_shift: chunk_shift.into(),
        chunks_most: u64::try_from(chunks_most)
            .unwrap_or(u64::MAX)
            .min(2 * CHUNKS),
    }
}

/// `value × numerator / denominator`, rounded up, with as many fractional bits as leave room for
/// multiplying it by the number of chunks. A result without room for any is more than any bucket
/// holds, whatever it is multiplied by.
fn scaled(value: u64, numerator: u128, denominator: u128) -> (u64, u32) {
    const MOST: u128 = 1 << 42;
    // Neither side of the ratio may exceed 64 bits in what follows; what is shifted out is far below
    // one part in a million of the larger, and the smaller errs towards refusing.
    let excess = numerator.max(denominator).ilog2().saturating_sub(63);
    let (numerator, denominator) = (
        (numerator >> excess) + u128::from(excess > 0),
        denominator >> excess,
    );
    let scaled = |shift: u32| {
        let product = u128::from(value)
            .checked_mul(numerator)?
            .checked_mul(1 << shift)?;
        product
            .checked_add(denominator)?
            .checked_sub(1)?
            .checked_div(denominator)
    };
    let fits = |shift: &u32| scaled(*shift).is_some_and(|value| value < MOST);
    let shift = (0..=SHIFT_MAX).rev().find(fits).unwrap_or(0);
    let value = scaled(shift).and_then(|value| u64::try_from(value).ok());
    (value.unwrap_or(u64::MAX).max(1), shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rate: &str, burst: &str) -> Result<Terms, Invalid> {
        terms(&rate.parse().unwrap(), &burst.parse().unwrap(), 1_522)
    }

    #[test]
    fn one_token_of_five_a_second_is_a_fifth_of_a_second() {
        let terms = of("300/1m", "10").unwrap();
        assert_eq!(terms, of("5/s", "10").unwrap());
        assert_eq!(terms.cost, 200_000_000 << TICK_SHIFT);
        assert_eq!(terms.tau, 2_000_000_000 << TICK_SHIFT);
    }

    #[test]
    fn what_never_could_pass_is_refused() {
        assert!(of("10mbit", "1521").is_err());
        assert!(of("10mbit", "1522").is_ok());
        assert!(of("1/d", "208").is_ok());
        assert!(of("1/d", "209").is_err());
        assert!(of("1/208d", "2").is_err());
    }

    #[test]
    fn a_full_burst_in_one_packet_costs_exactly_the_bucket() {
        for (rate, burst) in [
            ("400gbit", 65_536),
            ("1bit", 1_522),
            ("64kbit", 9_000),
            ("1tbit", 100_000),
        ] {
            let terms = of(rate, &burst.to_string()).unwrap();
            assert_eq!(terms.cost_of(burst), terms.tau, "{rate}");
        }
    }

    #[test]
    fn what_is_spent_stays_spent() {
        let since = 1 << 50;
        let carried = |old: (&str, &str), new: (&str, &str), tokens_spent: u64| {
            let (old, new) = (of(old.0, old.1).unwrap(), of(new.0, new.1).unwrap());
            let converted = rescale(&old, &new, since).apply(since + tokens_spent * old.cost);
            (converted - since) as f64 / new.cost as f64
        };
        // Slower, faster: the same tokens are gone; never fewer, at most a millionth of the burst more.
        for (old, new) in [
            ("5/s", "1/s"),
            ("1/s", "5/s"),
            ("5/s", "1M/s"),
            ("1M/s", "1/d"),
        ] {
            let spent = carried((old, "10"), (new, "10"), 7);
            assert!((7.0..7.0001).contains(&spent), "{old} to {new}: {spent}");
        }
        assert_eq!(
            carried(("5/s", "10"), ("5/s", "4"), 7),
            4.0,
            "lowered burst: empty, not locked out"
        );
        assert_eq!(
            carried(("5/s", "10"), ("1/s", "10"), 0),
            0.0,
            "full stays full"
        );
        let raised = carried(("5/s", "10"), ("5/s", "20"), 10);
        assert!((10.0..10.0001).contains(&raised), "raised burst: {raised}");
    }
}
