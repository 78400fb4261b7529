//! One attachment as a member of its fleet.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::Duration,
};

use limiter_common::{
    bucket::ticks as ticks_of,
    entry::epoch_in,
    key::{SLOTS, SourceKey},
    layout::Source,
};

use crate::{
    config::Scope,
    fleet::{
        account::Record,
        differences::{Differences, Held},
        member::{Group, Member, Round, Sighting},
        meter,
        meter::Look,
        store::shard,
        terms,
        terms::{Fleet, Terms},
    },
    kernel::{
        Attachment,
        error::Result,
        program::maps::{Charge, Tables},
        sys::clock,
    },
    stats::{collect, fleet::SharedLimit, source::Reader},
};

/// A member.
#[derive(Debug)]
pub struct Attached {
    /// Name of the interface.
    pub interface: String,
    /// Its index.
    pub index: u32,
    /// Name of the fleet.
    pub fleet: String,
    /// The lists that the fleet shares there.
    pub lists: BTreeSet<String>,
    /// Tells it from all other members, as long as it lives.
    pub id: u64,
    tables: Tables,
    /// Id of its program.
    pub program_id: u32,
    limits: Arc<Limits>,
    /// As they were when the latest round of a group was made, which is repeated as it is.
    told_as: HashMap<Group, Arc<Limits>>,
    member: Member,
    /// Members that there are.
    pub hosts: u32,
    /// Whether the configuration has changed since it was read.
    pub is_outdated: bool,
}

/// The limits that are shared, by their slots.
#[derive(Debug)]
struct Limits([Option<Shared>; SLOTS as usize]);

#[derive(Debug)]
struct Shared {
    reader: Reader,
    terms: Terms,
    held: Held,
}

impl Limits {
    fn of(attachment: &Attachment) -> Result<Self> {
        let mut limits = [const { None }; SLOTS as usize];
        for (limit, seat, reader) in collect::readers(&attachment.record)? {
            if limit.scope != Scope::Fleet {
                continue;
            }
            let kernel = &reader.terms.in_kernel;
            let terms = Terms {
                tau: kernel.tau,
                cost: kernel.cost.max(1),
                epoch: seat.epoch,
            };
            let burst = limit.burst(attachment.record.frame_max)?;
            let held = Held {
                name: limit.name.clone(),
                key: limit.key.to_string(),
                cost: terms.cost,
                tau: terms.tau,
                words: format!("{}, burst {burst}, per {}", limit.rate, limit.key),
            };
            if let Some(place) = limits.get_mut(seat.slot as usize) {
                *place = Some(Shared {
                    reader,
                    terms,
                    held,
                });
            }
        }
        Ok(Self(limits))
    }

    fn get(&self, key: &SourceKey) -> Option<&Shared> {
        self.0.get(key.slot() as usize)?.as_ref()
    }

    fn terms(&self) -> [Option<Terms>; SLOTS as usize] {
        std::array::from_fn(|slot| self.0[slot].as_ref().map(|shared| shared.terms))
    }
}

/// How a bucket stands to the terms that are known here.
enum Standing {
    /// On them.
    Present,
    /// On earlier ones.
    Past,
    /// On later ones: they have changed.
    Coming,
}

impl Shared {
    fn standing(&self, source: &Source) -> Standing {
        let behind = self
            .terms
            .epoch
            .wrapping_sub(epoch_in(source.over, self.terms.epoch));
        match behind.cast_signed() {
            0 => Standing::Present,
            1.. => Standing::Past,
            _ => Standing::Coming,
        }
    }

    /// `now` in ticks. Nothing where the terms have changed.
    fn sighting(
        &self,
        number: usize,
        key: &SourceKey,
        source: &Source,
        now: u64,
    ) -> Option<Sighting> {
        let word = match self.standing(source) {
            Standing::Present => source.tat,
            Standing::Past => self.reader.word(source),
            Standing::Coming => return None,
        };
        let over = if self.reader.shadow {
            source.refused
        } else {
            0
        };
        Some(Sighting {
            number,
            key: *key,
            look: Look {
                word,
                epoch: self.terms.epoch,
                now,
            },
            admitted: source.passed.saturating_sub(over),
        })
    }
}

impl Attached {
    /// Of an attachment whose settings name a fleet; nothing where they do not.
    ///
    /// # Errors
    /// Where its limits cannot be read.
    pub fn new(attachment: Attachment, in_shards: bool) -> Result<Option<Self>> {
        let settings = &attachment.record.settings;
        let Some(fleet) = settings.fleet.clone() else {
            return Ok(None);
        };
        let entries = usize::try_from(attachment.tables.capacity()).unwrap_or(usize::MAX);
        Ok(Some(Self {
            interface: attachment.interface.name.clone(),
            index: attachment.interface.index,
            fleet,
            lists: settings.fleet_lists.clone(),
            id: id(),
            limits: Arc::new(Limits::of(&attachment)?),
            told_as: HashMap::new(),
            program_id: attachment.program_id,
            member: Member::new(entries, in_shards),
            tables: attachment.tables,
            hosts: 1,
            is_outdated: false,
        }))
    }

    /// Takes in what has changed. Returns whether it is still the same member: another table, or another fleet, is
    /// another one.
    ///
    /// # Errors
    /// Where its limits cannot be read.
    pub fn refresh(&mut self, attachment: &Attachment) -> Result<bool> {
        let settings = &attachment.record.settings;
        if settings.fleet.as_ref() != Some(&self.fleet)
            || attachment.tables.id() != self.tables.id()
        {
            return Ok(false);
        }
        self.interface.clone_from(&attachment.interface.name);
        if attachment.program_id != self.program_id {
            self.limits = Arc::new(Limits::of(attachment)?);
            self.lists.clone_from(&settings.fleet_lists);
            self.program_id = attachment.program_id;
        }
        self.is_outdated = false;
        Ok(true)
    }

    /// What is known of the fleet at this moment.
    #[must_use]
    pub fn state(&self, staleness: Duration) -> Fleet {
        Fleet {
            hosts: self.hosts,
            staleness,
        }
    }

    /// Looks at the table. Returns the rounds that are due.
    ///
    /// # Errors
    /// Where the clock cannot be read.
    pub fn scan(&mut self, staleness: Duration) -> Result<Vec<Round>> {
        let (state, now) = (self.state(staleness), ticks_of(clock::now()?));
        let Self {
            tables,
            limits,
            told_as,
            member,
            is_outdated,
            ..
        } = self;
        member.begin(limits.terms(), state);
        tables.look_through(|number, key, source| {
            let Some(shared) = limits.get(key) else {
                return;
            };
            match shared.sighting(number, key, source, now) {
                Some(sighting) => member.sight(&sighting),
                None => {
                    member.pass_over(key);
                    *is_outdated = true;
                }
            }
        });
        let rounds = member.end(|key| {
            limits
                .get(key)
                .map_or(0, |shared| shard(&shared.reader.name, key))
        });
        let made = |round: &Round| (round.group, Arc::clone(limits));
        told_as.extend(rounds.iter().map(made));
        Ok(rounds)
    }

    /// Name and terms of a source's limit, as they were when the round of this group was made: it may be gone by now, or
    /// another one may have its slot.
    #[must_use]
    pub fn limit(&self, group: Group, key: &SourceKey) -> Option<(String, Terms)> {
        let shared = self.told_as.get(&group)?.get(key)?;
        Some((shared.reader.name.clone(), shared.terms))
    }

    /// Rounds that have not been answered.
    pub fn unanswered(&self) -> impl Iterator<Item = &Round> {
        self.member.unanswered()
    }

    /// Takes in the store's answer to a round, and charges what others have let through.
    ///
    /// # Errors
    /// Where the clock cannot be read.
    pub fn answer(&mut self, number: u64, group: Group, records: &[Record]) -> Result<()> {
        let now = ticks_of(clock::now()?);
        let Self {
            tables,
            limits,
            member,
            ..
        } = self;
        let charges = member.answer(number, group, records, |number, key| {
            let source = tables.source_in(number, key)?;
            limits.get(key)?.sighting(number, key, &source, now)
        });
        for charge in charges {
            let (Some(shared), Some(number)) =
                (limits.get(&charge.key), member.number(&charge.key))
            else {
                continue;
            };
            let mut added = 0;
            let change = |source: &Source| match shared.standing(source) {
                Standing::Past => Charge::Convert(shared.reader.word(source)),
                Standing::Coming => Charge::Nothing,
                Standing::Present => {
                    match meter::charged(source.tat, now, charge.ticks, charge.most) {
                        Some((word, ticks)) => {
                            added = ticks;
                            Charge::To(word)
                        }
                        None => Charge::Nothing,
                    }
                }
            };
            if tables.charge(number, &charge.key, shared.terms.epoch, change) {
                member.added(&charge.key, added);
            }
        }
        Ok(())
    }

    /// The limits that are shared, as others are told of them.
    #[must_use]
    pub fn held(&self) -> Vec<Held> {
        let limits = self.limits.0.iter().flatten();
        limits.map(|shared| shared.held.clone()).collect()
    }

    /// Sources that account is kept of.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.member.sources()
    }

    /// The limits that are shared, what the whole fleet lets through of one source beyond each, and how others hold them.
    #[must_use]
    pub fn shared(
        &self,
        staleness: Option<Duration>,
        credit: Duration,
        differences: &Differences,
    ) -> Vec<SharedLimit> {
        let limits = self.limits.0.iter().flatten();
        limits
            .map(|Shared { reader, terms, .. }| {
                let beyond = |staleness| overshoot(terms, self.hosts, staleness, credit);
                let otherwise = differences.otherwise.get(&reader.name);
                SharedLimit {
                    name: reader.name.clone(),
                    overshoot_packets: staleness.map(beyond),
                    otherwise: otherwise.into_iter().flatten().cloned().collect(),
                }
            })
            .collect()
    }
}

/// Of the system's random numbers: what one may get by a clock alone, hosts that boot from one image at the same time
/// get too, and the store would take one's rounds for the other's.
fn id() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Packets of one source that the fleet lets through beyond its limit, at most, but for a share that goes untold: each
/// of the other hosts a burst, what refills before it has heard of this one, and a packet that it keeps to itself; and
/// once what a bucket that was full is given credit for.
fn overshoot(terms: &Terms, hosts: u32, staleness: Duration, credit: Duration) -> u64 {
    let others = u64::from(hosts.saturating_sub(1));
    let each = terms.tau.saturating_add(terms::ticks(staleness)) / terms.cost + 1;
    let once = terms::ticks(credit) / terms.cost;
    each.saturating_mul(others)
        .saturating_add(once.saturating_mul(others.min(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_not_made_of_what_another_host_may_have_too() {
        let id_of_seed = || {
            fastrand::seed(7);
            id()
        };
        assert_ne!(id_of_seed(), id_of_seed());
    }

    #[test]
    fn beyond_the_limit_is_a_burst_and_the_staleness_of_each_other_host() {
        let second = terms::ticks(Duration::from_secs(1));
        // 20/s, burst 10.
        let terms = Terms {
            tau: second / 2,
            cost: second / 20,
            epoch: 0,
        };
        let millis = Duration::from_millis;
        let beyond = |hosts, stale| overshoot(&terms, hosts, millis(stale), millis(stale));
        assert_eq!(beyond(1, 10_000), 0, "alone");
        assert_eq!(beyond(3, 0), 22);
        assert_eq!(beyond(3, 500), 2 * (10 + 10 + 1) + 10);
        assert_eq!(beyond(0, 500), 0);
    }
}
