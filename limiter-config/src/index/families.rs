//! The slots, bounds and values of each family.

#![expect(clippy::cast_possible_truncation, reason = "addresses have two halves")]

use limiter_common::index::{DEEPER, Ranges, joined, window};

use super::{Invalid, Places, fits, flat};

/// The ranges of IPv4: first addresses and values.
#[derive(Debug, Default)]
pub struct Ipv4(Vec<(u32, u32)>);

impl flat::Ranges<u32> for Ipv4 {
    fn add(&mut self, first: u32, value: u32) {
        self.0.push((first, value));
    }
}

impl Ipv4 {
    /// Gives slots and bounds their places.
    pub fn place(&self, places: &mut Places) -> Result<Placed, Invalid> {
        let ends = self.0.last().is_none_or(|(_, value)| *value == 0);
        let max = u32::MAX.into();
        Placed::new(
            self.0.len(),
            |range| self.first(range),
            (ends, max),
            0,
            |slots, bounds| Ok([places.take(slots)?, places.take(bounds)?, 0]),
        )
    }

    fn first(&self, range: usize) -> u64 {
        self.0[range].0.into()
    }

    /// Writes slots and bounds.
    pub fn write(&self, placed: &Placed, put: &mut impl FnMut(u32, u64)) {
        placed.put_slots(|range| self.first(range), put);
        let bounds = self.0.iter().map(|(first, value)| joined(*value, *first));
        // Searches may read behind the last bound, and must not find a lower one there.
        let value = self.0.last().map_or(0, |(_, value)| *value);
        placed.put(placed.ranges.bounds, bounds, joined(value, u32::MAX), put);
    }
}

/// The ranges of IPv6: of first halves of addresses, and of second halves within those /64 that have longer prefixes.
#[derive(Debug, Default)]
pub struct Ipv6 {
    /// First halves that begin a range, in order, and their values, among which are the windows of ranges within a /64.
    firsts: Vec<u64>,
    outer: Vec<u64>,
    /// Second halves that begin a range, and their values: those of one /64 after the other.
    bounds: Vec<u64>,
    values: Vec<u64>,
    /// The ranges that begin in the last /64: second halves, values.
    within: Vec<(u64, u64)>,
    /// Its first half.
    last: u64,
    /// The value in front of it.
    before: u64,
}

impl flat::Ranges<u128> for Ipv6 {
    fn add(&mut self, first: u128, value: u32) {
        let upper = (first >> 64) as u64;
        if upper != self.last {
            self.close();
            self.last = upper;
        }
        self.within.push((first as u64, value.into()));
    }
}

impl Ipv6 {
    /// Adds the ranges of the last /64 to the others.
    pub fn close(&mut self) {
        let Some((_, value)) = self.within.last().copied() else {
            return;
        };
        let before = std::mem::replace(&mut self.before, value);
        if let [(0, _)] = self.within[..] {
            self.begin(self.last, value);
            self.within.clear();
            return;
        }
        // The range that the /64 begins in has its own bound.
        if self.within[0].0 != 0 {
            self.within.insert(0, (0, before));
        }
        let (length, steps) = power(self.within.len());
        // There are not too many bounds: `place` fails otherwise.
        let deeper = window(self.bounds.len() as u32, steps);
        self.begin(self.last, DEEPER | joined(deeper, 0));
        self.within.resize(length, (u64::MAX, value));
        for (bound, value) in self.within.drain(..) {
            self.bounds.push(bound);
            self.values.push(value);
        }
        if let Some(next) = self.last.checked_add(1) {
            self.begin(next, value);
        }
    }

    /// Begins a range of first halves. A /64 right behind another one takes the place of the range that ends it.
    fn begin(&mut self, first: u64, value: u64) {
        if self.firsts.last() == Some(&first) {
            self.outer.pop();
        } else {
            self.firsts.push(first);
        }
        self.outer.push(value);
    }

    /// Gives slots, bounds and values their places.
    pub fn place(&self, places: &mut Places) -> Result<Placed, Invalid> {
        let ends = self.outer.last().is_none_or(|value| *value == 0);
        let (count, inner) = (self.firsts.len(), self.bounds.len());
        let first = |range| self.firsts[range];
        Placed::new(count, first, (ends, u64::MAX), inner, |slots, bounds| {
            Ok([
                places.take(slots)?,
                places.take(bounds)?,
                places.take(bounds)?,
            ])
        })
    }

    /// Writes slots, bounds and values.
    pub fn write(&self, placed: &Placed, put: &mut impl FnMut(u32, u64)) {
        placed.put_slots(|range| self.firsts[range], put);
        let bounds = self.bounds.iter().chain(&self.firsts).copied();
        placed.put(placed.ranges.bounds, bounds, u64::MAX, put);
        let last = self.outer.last().copied().unwrap_or(0);
        let values = self.values.iter().chain(&self.outer).copied();
        placed.put(placed.ranges.values, values, last, put);
    }
}

/// The next power of two, and its logarithm.
const fn power(length: usize) -> (usize, u32) {
    let power = length.next_power_of_two();
    (power, power.trailing_zeros())
}

/// The places of a family's parts.
#[derive(Debug)]
pub struct Placed {
    pub ranges: Ranges,
    /// Number of bounds that slots select.
    count: usize,
    /// Bounds in front of these.
    offset: u32,
    /// Number of bounds, with those that only searches read.
    length: usize,
}

impl Placed {
    /// At most as many slots as bounds. `first`: a bound. `ends`: the last range is on no list. `max`: the last address.
    /// `offset`: bounds in front of these. `place` gets the numbers of words of slots and of bounds, and gives places of
    /// slots, bounds and values.
    fn new(
        count: usize,
        first: impl Fn(usize) -> u64,
        (ends, max): (bool, u64),
        offset: usize,
        place: impl FnOnce(usize, usize) -> Result<[u32; 3], Invalid>,
    ) -> Result<Self, Invalid> {
        let all = fits(count + offset)? as usize;
        let lowest = if count == 0 { 0 } else { first(0) };
        let last = match count.checked_sub(1) {
            Some(last) if ends => first(last) - 1,
            Some(_) => max,
            None => 0,
        };
        let span = last - lowest;
        let most = count.max(1) as u64;
        let shift = (0..u64::BITS).find(|shift| span >> shift < most);
        let shift = shift.unwrap_or(u64::BITS - 1);
        let mut placed = Self {
            ranges: Ranges {
                first: lowest,
                span,
                shift,
                ..Ranges::default()
            },
            count,
            offset: fits(offset)?,
            length: 0,
        };
        let (slots, reach) = placed
            .windows(&first)
            .fold((0, 0), |(slots, most), (_, reach)| {
                (slots + 1, reach.max(most))
            });
        placed.length = all.max(reach);
        let [slots, bounds, values] = place(usize::div_ceil(slots, 2), placed.length)?;
        placed.ranges = Ranges {
            slots,
            bounds,
            values,
            ..placed.ranges
        };
        Ok(placed)
    }

    /// The window of each slot, and the number of bounds up to its end.
    fn windows(&self, first: impl Fn(usize) -> u64) -> impl Iterator<Item = (u32, usize)> {
        let Ranges {
            first: lowest,
            span,
            shift,
            ..
        } = self.ranges;
        let (count, offset, last) = (self.count, self.offset, lowest + span);
        // The last bound up to an address.
        let mut found = 0;
        let mut up_to = move |address: u64| {
            while found + 1 < count && first(found + 1) <= address {
                found += 1;
            }
            found
        };
        (0..=span >> shift).map(move |slot| {
            let start = lowest + (slot << shift);
            let end = last.min(start.saturating_add((1 << shift) - 1));
            let (begin, end) = (up_to(start), up_to(end));
            let (length, steps) = power(end - begin + 1);
            let place = offset + begin as u32;
            (window(place, steps), place as usize + length)
        })
    }

    /// Writes the slots, two in a word.
    fn put_slots(&self, first: impl Fn(usize) -> u64, put: &mut impl FnMut(u32, u64)) {
        let mut windows = self.windows(first).map(|(window, _)| window);
        let mut place = self.ranges.slots;
        while let Some(lower) = windows.next() {
            put(place, joined(lower, windows.next().unwrap_or(0)));
            place += 1;
        }
    }

    /// Writes bounds or values, and `behind` where only searches read.
    fn put(
        &self,
        place: u32,
        words: impl Iterator<Item = u64>,
        behind: u64,
        put: &mut impl FnMut(u32, u64),
    ) {
        let words = words.chain(std::iter::repeat(behind)).take(self.length);
        (place..)
            .zip(words)
            .for_each(|(place, word)| put(place, word));
    }
}
