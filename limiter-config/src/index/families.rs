//! The slots, bounds and values of each family.

#![expect(clippy::cast_possible_truncation, reason = "addresses have two halves")]

use limiter_common::index::{DEEPER, Ranges, halves, joined, window};

use super::{fits, put};
use crate::Invalid;

/// Writes slots and bounds of IPv4.
pub fn put_ipv4(words: &mut Vec<u64>, ranges: &[(u32, u32)]) -> Result<Ranges, Invalid> {
    let firsts: Vec<u64> = ranges.iter().map(|(first, _)| (*first).into()).collect();
    let ends = ranges.last().is_none_or(|(_, value)| *value == 0);
    let slots = Slots::new(&firsts, ends, u32::MAX.into(), 0)?;
    let mut bounds: Vec<u64> = ranges
        .iter()
        .map(|(first, value)| joined(*value, *first))
        .collect();
    // Searches may read behind the last bound, and must not find a lower one there.
    let last = bounds.last().copied().unwrap_or(0);
    let (value, _) = halves(last);
    bounds.resize(bounds.len().max(slots.reach), joined(value, u32::MAX));
    Ok(Ranges {
        slots: put(words, slots.words())?,
        bounds: put(words, bounds)?,
        ..slots.ranges
    })
}

/// Writes slots, bounds and values of IPv6.
pub fn put_ipv6(words: &mut Vec<u64>, ranges: &[(u128, u32)]) -> Result<Ranges, Invalid> {
    let (mut bounds, mut values) = (Vec::new(), Vec::new());
    // Ranges of first halves; their values, among which are the windows of ranges within a /64.
    let (mut firsts, mut outer) = (Vec::<u64>::new(), Vec::<u64>::new());
    let upper = |(first, _): &(u128, u32)| (first >> 64) as u64;
    let mut value = 0;
    for within in ranges.chunk_by(|before, next| upper(before) == upper(next)) {
        let first = upper(&within[0]);
        let before = value;
        value = within.last().map_or(0, |(_, value)| (*value).into());
        if let [(start, _)] = within
            && *start as u64 == 0
        {
            firsts.push(first);
            outer.push(value);
            continue;
        }
        // The range that the /64 begins in has its own bound.
        let begins = (within[0].0 as u64 != 0).then_some((0, before));
        let within = within
            .iter()
            .map(|(first, value)| (*first as u64, (*value).into()));
        let within: Vec<(u64, u64)> = begins.into_iter().chain(within).collect();
        let (length, steps) = power(within.len());
        firsts.push(first);
        outer.push(DEEPER | joined(window(fits(bounds.len())?, steps), 0));
        let padding = std::iter::repeat_n((u64::MAX, value), length - within.len());
        for (bound, value) in within.into_iter().chain(padding) {
            bounds.push(bound);
            values.push(value);
        }
        if let Some(next) = first.checked_add(1) {
            firsts.push(next);
            outer.push(value);
        }
    }
    // A /64 right behind another one takes the place of the range that ends it.
    let mut kept = 0;
    for number in 0..firsts.len() {
        let is_replaced = firsts.get(number + 1) == Some(&firsts[number]);
        if !is_replaced {
            (firsts[kept], outer[kept]) = (firsts[number], outer[number]);
            kept += 1;
        }
    }
    firsts.truncate(kept);
    outer.truncate(kept);
    let ends = outer.last().is_none_or(|value| *value == 0);
    let slots = Slots::new(&firsts, ends, u64::MAX, fits(bounds.len())?)?;
    let length = bounds.len() + firsts.len();
    let last = outer.last().copied().unwrap_or(0);
    bounds.append(&mut firsts);
    values.append(&mut outer);
    let length = length.max(slots.reach);
    bounds.resize(length, u64::MAX);
    values.resize(length, last);
    Ok(Ranges {
        slots: put(words, slots.words())?,
        bounds: put(words, bounds)?,
        values: put(words, values)?,
        ..slots.ranges
    })
}

/// The next power of two, and its logarithm.
const fn power(length: usize) -> (usize, u32) {
    let power = length.next_power_of_two();
    (power, power.trailing_zeros())
}

/// The slots of a family.
struct Slots {
    windows: Vec<u32>,
    ranges: Ranges,
    /// Number of bounds that searches may read.
    reach: usize,
}

impl Slots {
    /// At most as many slots as bounds. `firsts`: the bounds. `ends`: the last range is on no list. `max`: the last address.
    /// `offset`: bounds in front of these.
    fn new(firsts: &[u64], ends: bool, max: u64, offset: u32) -> Result<Self, Invalid> {
        let first = firsts.first().copied().unwrap_or(0);
        let last = match firsts.last() {
            Some(last) if ends => last - 1,
            Some(_) => max,
            None => 0,
        };
        let span = last - first;
        let most = fits(firsts.len())?.max(1);
        let shift = (0..u64::BITS).find(|shift| span >> shift < most.into());
        let shift = shift.unwrap_or(u64::BITS - 1);
        let mut slots = Self {
            windows: Vec::new(),
            ranges: Ranges {
                first,
                span,
                shift,
                ..Ranges::default()
            },
            reach: 0,
        };
        // The last bound up to an address.
        let mut found = 0;
        let mut up_to = |address: u64| {
            while firsts.get(found + 1).is_some_and(|next| *next <= address) {
                found += 1;
            }
            found
        };
        for slot in 0..=span >> shift {
            let start = first + (slot << shift);
            let end = last.min(start.saturating_add((1 << shift) - 1));
            let (begin, end) = (up_to(start), up_to(end));
            let (length, steps) = power(end - begin + 1);
            let place = offset + fits(begin)?;
            slots.windows.push(window(fits(place as usize)?, steps));
            slots.reach = slots.reach.max(place as usize + length);
        }
        Ok(slots)
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        let both = self.windows.chunks(2);
        both.map(|both| joined(both[0], both.get(1).copied().unwrap_or(0)))
    }
}
