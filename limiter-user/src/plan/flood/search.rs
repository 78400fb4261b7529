//! Finds the few conditions that tell a flood from ordinary traffic.
//!
//! The flood is the excess: packets now above the ordinary rate. A rule is judged by the information that it gives about one
//! packet, drawn with equal chance from the excess or from ordinary traffic, whether it is of the excess: one bit for a rule
//! that matches the whole excess and nothing ordinary. Each condition costs a little, so that shorter rules win. The search
//! keeps the best few rules of one condition, adds a condition to each, and so on. Rules that match too much of ordinary
//! traffic, or too little of the excess, do not count. What a rule leaves of the excess is searched once more.

use fastrand::Rng;

use super::{
    candidates::{self, Excess, price_of_values},
    condition::Condition,
    gain::Scale,
    picture::Picture,
    sample::{Sample, Weighed},
    shape::{Field, Shape},
};

/// The most fields of a rule. One of them is the protocol.
pub const FIELDS_MAX: usize = 4;
/// The most rules.
const RULES_MAX: usize = 3;
/// Share of the excess that a rule matches at least.
const SHARE_MIN: f64 = 0.1;
/// Share of ordinary packets that all rules together match at most.
pub const COST_MAX: f64 = 0.01;
/// [`COST_MAX`] with `--loose`.
pub const LOOSE_MAX: f64 = 0.2;
/// The most packets of each side that are searched. Rules are measured with all.
const SEARCHED: usize = 6_000;
/// Rules that are kept from one step to the next.
const KEPT: usize = 6;
/// Bits that a condition costs, and each step down the list of fields.
const PRICE: f64 = 0.004;
const PRICE_OF_FIELD: f64 = 0.000_2;

/// The excess, in packets per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Packets now that limits decide about.
    pub now: f64,
    /// Those in ordinary traffic.
    pub before: f64,
}

impl Rates {
    /// Packets above the ordinary rate.
    pub fn excess(&self) -> f64 {
        (self.now - self.before).max(0.0)
    }
}

/// A rule, with its shares.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its conditions: all must hold.
    pub conditions: Vec<Condition>,
    /// Share of the excess that it matches and no earlier rule does.
    pub of_excess: f64,
    /// Number of ordinary packets of the picture that it matches.
    pub ordinary: u64,
    /// Ordinary packets per second that it matches.
    pub ordinary_per_second: f64,
}

/// The outcome of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The rules, the one for most of the excess first.
    pub rules: Vec<Found>,
    /// A rule that matches too much of ordinary traffic.
    pub costly: Option<Found>,
}

/// The traffic now, and the ordinary one.
pub struct Search<'a> {
    now: Vec<&'a Weighed>,
    before: Vec<&'a Shape>,
    /// Packets per second that a packet's weight of one stands for.
    per_weight: f64,
    /// Packets per second that each ordinary packet stands for.
    each: f64,
    rates: Rates,
    cost_max: f64,
    fields: Vec<Field>,
    refuses: &'a dyn Fn(&[Condition]) -> bool,
}

/// The fields and the bounds of a search.
pub struct Bounds<'a> {
    /// True: rules with a higher share of ordinary packets count.
    pub loose: bool,
    /// True: no rule is about the payload.
    pub without_payload: bool,
    /// Returns true for conditions that would match protected packets.
    pub refuses: &'a dyn Fn(&[Condition]) -> bool,
}

impl<'a> Search<'a> {
    /// A search in a sample of so many seconds.
    pub fn new(
        sample: &'a Sample,
        seconds: f64,
        picture: &'a Picture,
        bounds: &Bounds<'a>,
    ) -> Self {
        let weight: f64 = sample.packets().iter().map(|(_, weight)| weight).sum();
        let now = (sample.all - sample.exempt) / seconds.max(1e-3);
        let count = picture.shapes.len().max(1) as f64;
        let fields = Field::ALL.into_iter().filter(|field| !field.is_of_places());
        let fields = fields.filter(|field| !bounds.without_payload || field.window().is_none());
        Self {
            now: sample.packets().iter().collect(),
            before: picture.shapes.iter().collect(),
            per_weight: now / weight.max(f64::MIN_POSITIVE),
            each: picture.limited_per_second / count,
            rates: Rates {
                now,
                before: picture.limited_per_second,
            },
            cost_max: if bounds.loose { LOOSE_MAX } else { COST_MAX },
            fields: fields.collect(),
            refuses: bounds.refuses,
        }
    }

    /// Packets per second now and in ordinary traffic.
    pub fn rates(&self) -> Rates {
        self.rates
    }

    /// The rules for the excess.
    pub fn run(mut self) -> Outcome {
        let mut outcome = Outcome::default();
        let mut spent = 0.0;
        for number in 0..RULES_MAX {
            let left = self.left();
            if left < SHARE_MIN * self.rates.excess() {
                break;
            }
            let (best, costly) = self.best_rule(left);
            if number == 0 {
                outcome.costly = costly.map(|conditions| self.measured(conditions));
            }
            let Some(conditions) = best else { break };
            let found = self.measured(conditions);
            let cost = found.ordinary_per_second / self.rates.before.max(f64::MIN_POSITIVE);
            if found.of_excess < SHARE_MIN || spent + cost > self.cost_max {
                break;
            }
            spent += cost;
            let is_left = |shape: &Shape| !hold(&found.conditions, shape);
            self.now.retain(|(packet, _)| is_left(&packet.shape));
            self.before.retain(|shape| is_left(shape));
            outcome.rules.push(found);
        }
        if !outcome.rules.is_empty() {
            outcome.costly = None;
        }
        outcome
    }

    /// The excess that no rule matches, in packets per second.
    fn left(&self) -> f64 {
        let now: f64 = self.now.iter().map(|(_, weight)| weight).sum();
        now * self.per_weight - self.before.len() as f64 * self.each
    }

    /// Measures a rule with all packets.
    fn measured(&self, conditions: Vec<Condition>) -> Found {
        let now = self.now.iter();
        let now = now.filter(|(packet, _)| hold(&conditions, &packet.shape));
        let now: f64 = now.map(|(_, weight)| weight).sum();
        let ordinary = self.before.iter();
        let ordinary = ordinary.filter(|shape| hold(&conditions, shape)).count();
        let ordinary_per_second = ordinary as f64 * self.each;
        let excess = now * self.per_weight - ordinary_per_second;
        let all = self.rates.excess().max(f64::MIN_POSITIVE);
        Found {
            conditions,
            of_excess: (excess / all).clamp(0.0, 1.0),
            ordinary: ordinary as u64,
            ordinary_per_second,
        }
    }

    /// The best rule for the rest of the excess, and the best one that costs too much.
    fn best_rule(&self, left: f64) -> (Option<Vec<Condition>>, Option<Vec<Condition>>) {
        let trial = Trial::new(self, left);
        let mut kept = vec![trial.rule(Vec::new())];
        let (mut best, mut costly): (Option<Rule<'_>>, Option<Rule<'_>>) = (None, None);
        for _ in 0..FIELDS_MAX {
            let mut next: Vec<Rule<'_>> = Vec::new();
            for rule in &kept {
                next.extend(trial.longer(rule));
            }
            next.sort_by(|rule, other| other.worth.total_cmp(&rule.worth));
            next.dedup_by(|rule, other| rule.worth == other.worth);
            next.truncate(KEPT);
            for rule in &next {
                let whole = trial.with_protocol(rule);
                let is_wide = whole.share * left >= SHARE_MIN * self.rates.excess();
                let place = match whole.cost <= self.cost_max {
                    true => &mut best,
                    false => &mut costly,
                };
                let is_better = place.as_ref().is_none_or(|best| whole.worth > best.worth);
                if is_wide && is_better && !(self.refuses)(&whole.conditions) {
                    *place = Some(whole);
                }
            }
            kept = next;
        }
        let costly = costly.filter(|rule| rule.share > 2.0 * rule.cost && rule.cost <= LOOSE_MAX);
        let conditions = |rule: Rule<'_>| rule.conditions;
        (
            best.map(|rule| trial.shortest(rule)),
            costly.map(conditions),
        )
    }
}

/// True if all conditions hold for a packet.
pub fn hold(conditions: &[Condition], shape: &Shape) -> bool {
    conditions.iter().all(|condition| condition.holds(shape))
}

/// A rule with the packets that it matches.
#[derive(Clone)]
struct Rule<'a> {
    conditions: Vec<Condition>,
    now: Vec<&'a Weighed>,
    before: Vec<&'a Shape>,
    /// Shares of the excess and of ordinary packets that it matches.
    share: f64,
    cost: f64,
    worth: f64,
}

/// A search among some of the packets.
struct Trial<'s, 'a> {
    search: &'s Search<'a>,
    now: Vec<&'a Weighed>,
    before: Vec<&'a Shape>,
    scale: Scale,
}

impl<'s, 'a> Trial<'s, 'a> {
    fn new(search: &'s Search<'a>, left: f64) -> Self {
        let mut rng = Rng::with_seed(7);
        let mut now = search.now.clone();
        let mut before = search.before.clone();
        let weight = |now: &[&Weighed]| -> f64 { now.iter().map(|(_, weight)| weight).sum() };
        let whole = (weight(&now), before.len() as f64);
        rng.shuffle(&mut now);
        now.truncate(SEARCHED);
        rng.shuffle(&mut before);
        before.truncate(SEARCHED);
        let factor = |whole: f64, part: f64| whole / part.max(f64::MIN_POSITIVE);
        let scale = Scale {
            excess: left,
            ordinary: search.rates.before,
            per_weight: search.per_weight * factor(whole.0, weight(&now)),
            each: search.each * factor(whole.1, before.len() as f64),
        };
        Self {
            scale,
            search,
            now,
            before,
        }
    }

    /// The rule with these conditions.
    fn rule(&self, conditions: Vec<Condition>) -> Rule<'a> {
        let whole = Rule {
            conditions: Vec::new(),
            now: self.now.clone(),
            before: self.before.clone(),
            share: 1.0,
            cost: 1.0,
            worth: 0.0,
        };
        conditions
            .into_iter()
            .fold(whole, |rule, condition| self.narrowed(&rule, condition))
    }

    /// The rule with one more condition.
    fn narrowed(&self, rule: &Rule<'a>, condition: Condition) -> Rule<'a> {
        let now = rule.now.iter().copied();
        let now: Vec<_> = now
            .filter(|(packet, _)| condition.holds(&packet.shape))
            .collect();
        let before = rule.before.iter().copied();
        let before: Vec<_> = before.filter(|shape| condition.holds(shape)).collect();
        let conditions = [&rule.conditions[..], &[condition]].concat();
        let weight: f64 = now.iter().map(|(_, weight)| weight).sum();
        let count = before.len() as f64;
        let (share, cost) = self.scale.shares(weight, count);
        Rule {
            worth: self.scale.gain(weight, count) - conditions.iter().map(price).sum::<f64>(),
            conditions,
            now,
            before,
            share,
            cost,
        }
    }

    fn excess<'r>(&self, rule: &'r Rule<'a>) -> Excess<'r> {
        let weight: f64 = rule.now.iter().map(|(_, weight)| weight).sum();
        let ordinary = rule.before.len() as f64 * self.scale.each;
        let excess = weight * self.scale.per_weight - ordinary;
        // By chance, a rule may match more than the excess. Then, every packet that a condition leaves out counts.
        let scale = Scale {
            excess: self.scale.excess.max(excess),
            ..self.scale
        };
        Excess {
            now: &rule.now,
            before: &rule.before,
            scale,
        }
    }

    /// The rules with one more condition on another field.
    fn longer(&self, rule: &Rule<'a>) -> Vec<Rule<'a>> {
        let has = |field: Field| {
            let mut conditions = rule.conditions.iter();
            conditions.any(|condition| condition.field.name() == field.name())
        };
        let others = rule.conditions.iter();
        let others = others.filter(|condition| condition.field != Field::Protocol);
        // The last field is kept free for the protocol.
        let is_full = others.count() >= FIELDS_MAX - 1;
        let excess = self.excess(rule);
        let fields = self.search.fields.iter().copied();
        let fields = fields.filter(|field| !has(*field));
        let fields = fields.filter(|field| !is_full || *field == Field::Protocol);
        let conditions = fields.flat_map(|field| candidates::conditions(&excess, field));
        conditions
            .map(|condition| self.narrowed(rule, condition))
            .collect()
    }

    /// The rule with the protocol of its packets, if nearly all have the same one: other protocols have other ports.
    fn with_protocol(&self, rule: &Rule<'a>) -> Rule<'a> {
        let mut conditions = rule.conditions.iter();
        if conditions.any(|condition| condition.field == Field::Protocol) {
            return rule.clone();
        }
        let excess = self.excess(rule);
        let protocols = candidates::conditions(&excess, Field::Protocol).into_iter();
        let mut narrower = protocols.map(|protocol| self.narrowed(rule, protocol));
        match narrower.find(|narrower| narrower.share >= 0.995 * rule.share) {
            Some(narrower) => Rule {
                worth: rule.worth,
                ..narrower
            },
            None => rule.clone(),
        }
    }

    /// The conditions without those that say nothing beside the others.
    fn shortest(&self, mut rule: Rule<'a>) -> Vec<Condition> {
        // From the field that attackers change first.
        rule = self.rule(rule.conditions);
        let mut fields: Vec<_> = rule
            .conditions
            .iter()
            .map(|condition| condition.field)
            .collect();
        fields.sort_unstable_by(|field, other| other.cmp(field));
        for field in fields {
            if field == Field::Protocol || rule.conditions.len() == 1 {
                continue;
            }
            let others = rule
                .conditions
                .iter()
                .filter(|condition| condition.field != field);
            let shorter = self.rule(others.cloned().collect());
            let is_refused = (self.search.refuses)(&shorter.conditions);
            let is_cheap = shorter.cost <= rule.cost.max(0.1 * self.search.cost_max);
            if !is_refused && is_cheap && shorter.worth >= rule.worth {
                rule = shorter;
            }
        }
        let mut conditions = rule.conditions;
        conditions.sort_by_key(|condition| condition.field);
        conditions
    }
}

/// The price of a condition, in bits.
fn price(condition: &Condition) -> f64 {
    let values = price_of_values(condition.count());
    PRICE + values + PRICE_OF_FIELD * (condition.field as usize as f64)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::plan::flood::Packet;

    fn of_length(length: u64) -> Shape {
        Shape::NONE.with(Field::Length, length)
    }

    #[test]
    fn rules_together_match_few_ordinary_packets() {
        let mut sample = Sample::default();
        let mut picture = Picture::new(7);
        picture.limited_per_second = 2_000.0;
        let mut add = |length: u64, before: usize, now: usize| {
            let shapes = vec![of_length(length); before];
            picture.shapes.extend(shapes);
            for _ in 0..before + now {
                let packet = Packet {
                    shape: of_length(length),
                    start: [0; 8],
                    destination: Ipv4Addr::LOCALHOST.into(),
                    is_control: false,
                };
                sample.add(packet, 1.0);
            }
        };
        // Each of the lengths of the flood costs 0.8 %, and those between them much more.
        for number in 0..8 {
            add(100 * number, 246, 0);
        }
        add(150, 16, 4_000);
        add(450, 16, 3_000);
        let rules = |loose| {
            let bounds = Bounds {
                loose,
                without_payload: false,
                refuses: &|_| false,
            };
            let outcome = Search::new(&sample, 1.0, &picture, &bounds).run();
            let ordinary = outcome.rules.iter().map(|rule| rule.ordinary);
            (outcome.rules.len(), ordinary.sum::<u64>())
        };
        assert_eq!(rules(false), (1, 16));
        assert_eq!(rules(true).1, 32);
    }
}
