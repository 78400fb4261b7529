//! Models changes of settings while there are buckets.

use std::{collections::BTreeMap, ops::RangeInclusive};

use limiter_config::Settings;
use num_bigint::BigInt;

use super::{
    Id, Model,
    bucket::{Quota, State, TICKS},
};

/// Bounds on a bucket that was carried over to new quota, until [`Model::settle`] sets its state.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The bucket.
    pub id: Id,
    /// The fullest state.
    pub earliest: State,
    /// The least full state.
    pub latest: State,
}

impl Carried {
    /// True if `state` is within the bounds.
    pub fn may_be(&self, state: State) -> bool {
        match (self.earliest, self.latest, state) {
            (State::FullAt(earliest), State::FullAt(latest), State::FullAt(found)) => {
                (earliest..=latest).contains(&found)
            }
            (
                State::Left { tokens: most, .. },
                State::Left {
                    window,
                    tokens: least,
                },
                State::Left {
                    window: found,
                    tokens,
                },
            ) => found == window && (least..=most).contains(&tokens),
            _ => false,
        }
    }
}

impl Model {
    /// Changes the settings from `nanoseconds` on. A limit with an unchanged name and key keeps its buckets. Returns
    /// the buckets with changed quota: spent tokens stay spent, and the program may count slightly more as spent, never
    /// less.
    pub fn change(
        &mut self,
        settings: &Settings,
        phases: &BTreeMap<String, u64>,
        nanoseconds: u64,
    ) -> Vec<Carried> {
        let now = i128::from(nanoseconds) * TICKS;
        let before = self.limits.clone();
        let shadow_before = self.settings.shadow;
        self.hold(settings, phases);
        // The count of packets over the limit is of dropped packets, or of packets passed in shadow, never of both.
        let shadow = |limits: &[super::Held], all: bool, name: &str| {
            let mut found = limits.iter().filter(|held| held.limit.name == name);
            found.any(|held| all || held.limit.shadow)
        };
        for ((name, _), bucket) in &mut self.buckets {
            let now = shadow(&self.limits, settings.shadow, name);
            if now != shadow(&before, shadow_before, name) {
                bucket.refused = 0;
            }
        }
        let stays = |name: &str| {
            let limit_of = |limits: &[super::Held]| {
                let found = limits.iter().find(|held| held.limit.name == name);
                found.map(|held| (held.limit.key, held.quota))
            };
            let ((old_key, old), (new_key, new)) = (limit_of(&before)?, limit_of(&self.limits)?);
            (old_key == new_key).then_some((old, new))
        };
        if let (Some(new_sources), Some(limit)) = (&mut self.new_sources, &settings.new_sources) {
            let of_names = |name: &str| stays(name).is_some();
            new_sources.change(limit, 1, super::parts(settings), of_names);
            if let Some(second) = &mut self.second_chances {
                second.change(limit, 4, super::parts(settings), of_names);
            }
        }
        if self
            .limits
            .iter()
            .any(|held| stays(&held.limit.name).is_none())
        {
            self.refused.clear();
        }
        self.buckets.retain(|(name, _), _| stays(name).is_some());
        self.figures.retain(|name, _| stays(name).is_some());
        self.scales.retain(|name, _| stays(name).is_some());
        let lists = &settings.lists;
        self.hits
            .retain(|name, _| lists.all().any(|(list, _)| list == name));
        let carried = self.buckets.iter().filter_map(|(id, bucket)| {
            let (old, new) = stays(&id.0)?;
            (old != new).then(|| {
                let (earliest, latest) = carry_over(&old, &new, bucket.state, now);
                Carried {
                    id: id.clone(),
                    earliest,
                    latest,
                }
            })
        });
        carried.collect()
    }

    /// Sets a bucket to its real state, which must be within its bounds.
    pub fn settle(&mut self, id: &Id, state: State) {
        if let Some(bucket) = self.buckets.get_mut(id) {
            bucket.state = state;
        }
    }
}

/// The states on new quota with the least and the most tokens spent.
fn carry_over(old: &Quota, new: &Quota, state: State, since: i128) -> (State, State) {
    let (from, left) = standing(old, state, since);
    let spent = spent(old, new, old.depth - left);
    let full_after = |spent: i128| match new.window {
        None => State::FullAt(from + spent),
        Some(window) => State::Left {
            window: window.number(from),
            tokens: new.depth - spent,
        },
    };
    (full_after(*spent.start()), full_after(*spent.end()))
}

/// The earliest time, `since` or later, at which the state gives a content, and that content. It is later than `since`
/// only if the clock was set back.
fn standing(old: &Quota, state: State, since: i128) -> (i128, i128) {
    let from = match (state, old.window) {
        (State::FullAt(full), _) => since.max(full - old.depth),
        (State::Left { window, .. }, Some(cut)) if window > cut.number(since) => {
            (window * cut.period - cut.phase) * TICKS
        }
        _ => since,
    };
    (from, old.left(state, from))
}

/// Bounds on the spent tokens on the new quota: an equal number of tokens, or an equal share if the units differ. The
/// program may count them in millionths of the old burst, rounded up.
fn spent(old: &Quota, new: &Quota, spent: i128) -> RangeInclusive<i128> {
    let (numerator, denominator) = if old.unit == new.unit {
        let ((new_token, to_shift), (from, from_shift)) = (new.token, old.token);
        // Converts both to units of one power of two.
        (new_token << from_shift, from << to_shift)
    } else {
        (new.depth, old.depth)
    };
    if spent == 0 {
        return 0..=0;
    }
    let on_new = |spent: i128| scaled(spent, numerator, denominator, new.depth);
    let chunk = (old.depth >> 20).max(1);
    let most = on_new(spent + chunk - 1);
    on_new(spent)..=(most + (most >> 38) + 1).min(new.depth)
}

/// `value × numerator / denominator`, rounded up; at most `most`.
fn scaled(value: i128, numerator: i128, denominator: i128, most: i128) -> i128 {
    let [value, numerator, denominator] = [value, numerator, denominator].map(BigInt::from);
    let scaled = (value * numerator + &denominator - 1) / denominator;
    i128::try_from(scaled).map_or(most, |scaled| scaled.min(most))
}
