//! The conditions that may tell the excess of packets from ordinary ones.

use std::collections::BTreeMap;

use limiter_common::abi::rules::{ANY, FIRST_FRAGMENT, LATER_FRAGMENT, NONE};

use super::{
    condition::{Condition, Values},
    gain::Scale,
    sample::Weighed,
    shape::{ABSENT, Field, HIDDEN, Shape},
};

/// The most single values of a field that are tried.
const SINGLE_MAX: usize = 3;
/// Share of the excess below which a single value is not tried.
const SHARE_MIN: f64 = 0.05;
/// The most numbers, or networks, of one condition.
const NUMBERS_MAX: usize = 4;
const NETWORKS_MAX: usize = 16;
/// Share of the excess that each value of a condition with several has, so that none is there by chance.
const EACH_MIN: f64 = 0.02;
/// Share of ordinary packets that a value has which a condition leaves out; and the most such values.
const ORDINARY_MIN: f64 = 0.05;
const OTHERS_MAX: usize = 2;
/// The highest port.
const PORT_MAX: u64 = 65_535;
/// Flags that are compared: those that open, continue and end connections; or all but those of congestion.
const FLAG_MASKS: [u64; 2] = [0x17, 0x3f];

/// The packets that a rule matches.
pub struct Excess<'a> {
    /// Packets now.
    pub now: &'a [&'a Weighed],
    /// Ordinary packets.
    pub before: &'a [&'a Shape],
    /// The packets that they stand for.
    pub scale: Scale,
}

/// Bits that so many values of a condition cost.
pub fn price_of_values(count: usize) -> f64 {
    const EACH: f64 = 0.001;
    EACH * count.saturating_sub(1) as f64
}

/// A value, with the weight of its packets now, and the number of ordinary ones.
#[derive(Clone, Copy, Debug)]
struct Value {
    number: u64,
    weight: f64,
    count: f64,
}

impl Excess<'_> {
    /// The values of a field that can be seen, in ascending order; none if most packets hide the field, because they meet
    /// every condition on it.
    fn values(&self, field: Field, mask: u64) -> Vec<Value> {
        let mut found: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for (packet, weight) in self.now {
            found.entry(packet.shape.value(field) & mask).or_default().0 += weight;
        }
        for shape in self.before {
            found.entry(shape.value(field) & mask).or_default().1 += 1.0;
        }
        let unseen = match field.window() {
            Some(_) => [ABSENT, HIDDEN],
            None if field.is_of_places() => [0; 2],
            None => [ANY, NONE].map(|number| u64::from(number) & mask),
        };
        let seen = found.into_iter();
        let seen = seen.filter(|(number, _)| !unseen.contains(number));
        let seen = seen.map(|(number, (weight, count))| Value {
            number,
            weight,
            count,
        });
        let seen: Vec<_> = seen.collect();
        let sum: f64 = seen.iter().map(|value| value.weight).sum();
        let all: f64 = self.now.iter().map(|(_, weight)| weight).sum();
        if sum < all / 2.0 { Vec::new() } else { seen }
    }

    /// The part of the excess that a value has.
    fn share(&self, value: &Value) -> f64 {
        self.scale.shares(value.weight, value.count).0
    }

    /// The values with an excess, the greatest first.
    fn largest(&self, mut values: Vec<Value>) -> Vec<Value> {
        values.retain(|value| self.share(value) > 0.0);
        values.sort_by(|value, other| self.share(other).total_cmp(&self.share(value)));
        values
    }

    /// The values that have enough of the excess alone.
    fn single(&self, largest: &[Value]) -> Vec<u64> {
        let large = largest.iter().take(SINGLE_MAX);
        let large = large.filter(|value| self.share(value) >= SHARE_MIN);
        large.map(|value| value.number).collect()
    }

    /// The values, from the one with most of the excess on, that are worth most together; none if that is one.
    fn together(&self, largest: &[Value], most: usize) -> Option<Vec<u64>> {
        let (mut weight, mut count, mut number) = (0.0, 0.0, 0);
        let large = largest.iter().take(most);
        let large = large.filter(|value| self.share(value) >= EACH_MIN);
        let worths = large.map(|value| {
            weight += value.weight;
            count += value.count;
            number += 1;
            self.scale.gain(weight, count) - price_of_values(number)
        });
        let best = worths
            .enumerate()
            .max_by(|(_, worth), (_, than)| worth.total_cmp(than));
        let (last, _) = best.filter(|(last, _)| *last > 0)?;
        let mut numbers: Vec<_> = largest[..=last].iter().map(|value| value.number).collect();
        numbers.sort_unstable();
        Some(numbers)
    }

    /// All ports but those that most ordinary packets have.
    fn other_ports(&self, values: &[Value]) -> Option<Vec<(u64, u64)>> {
        let mut ordinary: Vec<_> = values.iter().collect();
        ordinary.retain(|value| self.scale.shares(0.0, value.count).1 >= ORDINARY_MIN);
        ordinary.sort_by(|value, other| other.count.total_cmp(&value.count));
        ordinary.truncate(OTHERS_MAX);
        let mut ports: Vec<_> = ordinary.iter().map(|value| value.number).collect();
        ports.sort_unstable();
        let mut ranges = Vec::new();
        let mut first = 0;
        for port in &ports {
            if first < *port {
                ranges.push((first, port - 1));
            }
            first = port + 1;
        }
        if first <= PORT_MAX {
            ranges.push((first, PORT_MAX));
        }
        (!ports.is_empty()).then_some(ranges)
    }

    /// The greatest excess of a range of ascending values, in packets per second.
    fn most_in_a_range(&self, values: &[Value]) -> f64 {
        let (mut most, mut until_here) = (0.0_f64, 0.0_f64);
        for value in values {
            let excess = value.weight * self.scale.per_weight - value.count * self.scale.each;
            until_here = (until_here + excess).max(0.0);
            most = most.max(until_here);
        }
        most
    }

    /// The range of ascending values that is worth most: first the best begin, then the best end, and both once more.
    fn range(&self, values: &[Value]) -> Option<(u64, u64)> {
        let mut sums = vec![(0.0, 0.0)];
        for value in values {
            let (weight, count) = sums[sums.len() - 1];
            sums.push((weight + value.weight, count + value.count));
        }
        // Some range may have more than the excess, by chance. Each packet that it loses counts nevertheless.
        let scale = Scale {
            excess: self.scale.excess.max(self.most_in_a_range(values)),
            ..self.scale
        };
        let worth = |first: usize, end: usize| {
            let ((weight, count), (before, ordinary)) = (sums[end], sums[first]);
            scale.gain(weight - before, count - ordinary)
        };
        let (mut first, mut end) = (0, values.len());
        for _ in 0..2 {
            let firsts =
                (0..end).max_by(|first, other| worth(*first, end).total_cmp(&worth(*other, end)));
            first = firsts?;
            let ends = (first + 1..=values.len())
                .rev()
                .max_by(|end, other| worth(first, *end).total_cmp(&worth(first, *other)));
            end = ends?;
        }
        (end > first + 1).then(|| (values[first].number, values[end - 1].number))
    }
}

/// The conditions on a field that may tell the excess from ordinary packets.
pub fn conditions(excess: &Excess<'_>, field: Field) -> Vec<Condition> {
    match field {
        Field::Flags => FLAG_MASKS
            .into_iter()
            .flat_map(|mask| of_flags(excess, mask))
            .collect(),
        Field::Fragment => of_fragments(excess),
        Field::First4 | Field::First8 | Field::Second2 => of_payload(excess, field),
        Field::Source | Field::Destination => of_networks(excess, field),
        _ => of_numbers(excess, field),
    }
}

fn of_flags(excess: &Excess<'_>, mask: u64) -> Vec<Condition> {
    let all = excess.largest(excess.values(Field::Flags, mask));
    let condition = |set| Condition {
        field: Field::Flags,
        values: Values::Flags { mask, set },
    };
    excess.single(&all).into_iter().map(condition).collect()
}

fn of_fragments(excess: &Excess<'_>) -> Vec<Condition> {
    let condition = Condition {
        field: Field::Fragment,
        values: Values::Fragments,
    };
    let bits = u64::from(FIRST_FRAGMENT | LATER_FRAGMENT);
    let mut now = excess.now.iter();
    let is_there = now.any(|(packet, _)| packet.shape.value(Field::Fragment) & bits != 0);
    is_there.then_some(condition).into_iter().collect()
}

fn of_payload(excess: &Excess<'_>, field: Field) -> Vec<Condition> {
    let all = excess.largest(excess.values(field, u64::MAX));
    let condition = |hash| {
        let mut now = excess.now.iter();
        let (packet, _) = now.find(|(packet, _)| packet.shape.value(field) == hash)?;
        let values = Values::Payload(hash, packet.start);
        Some(Condition { field, values })
    };
    excess
        .single(&all)
        .into_iter()
        .filter_map(condition)
        .collect()
}

fn of_networks(excess: &Excess<'_>, field: Field) -> Vec<Condition> {
    let all = excess.largest(excess.values(field, u64::MAX));
    let condition = |networks| Condition {
        field,
        values: Values::Networks(networks),
    };
    let alone = excess.single(&all).into_iter().map(|network| vec![network]);
    let several = excess.together(&all, NETWORKS_MAX);
    alone.chain(several).map(condition).collect()
}

fn of_numbers(excess: &Excess<'_>, field: Field) -> Vec<Condition> {
    let ascending = excess.values(field, u64::MAX);
    let is_one = matches!(field, Field::Protocol | Field::IpVersion);
    let is_ordered = matches!(
        field,
        Field::Length | Field::Ttl | Field::SourcePort | Field::DestinationPort
    );
    let is_port = matches!(field, Field::SourcePort | Field::DestinationPort);
    let range = is_ordered.then(|| excess.range(&ascending)).flatten();
    let other = is_port.then(|| excess.other_ports(&ascending)).flatten();
    let all = excess.largest(ascending);
    let several = excess.together(&all, if is_one { 1 } else { NUMBERS_MAX });
    let equal = |number| (number, number);
    let alone = excess
        .single(&all)
        .into_iter()
        .map(|number| vec![equal(number)]);
    let several = several.map(|numbers| numbers.into_iter().map(equal).collect());
    let ranges = alone.chain(several).chain(range.map(|range| vec![range]));
    let ranges = ranges.chain(other);
    let condition = |ranges| Condition {
        field,
        values: Values::Ranges(ranges),
    };
    ranges.map(condition).collect()
}
