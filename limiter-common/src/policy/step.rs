//! The steps of the full path for one limit. The kernel program exports each as a global function, so that the verifier
//! checks it once, for any number of limits.

use super::{
    Evaluation, Found, Steps, apply_shadow,
    attempt::Attempt,
    bucket::{Demand, NOT_READ, cost},
    certain, matches, port_holds, second_chance,
};
use crate::{
    abi::{
        Constants,
        rules::{
            Limit, NEEDS_DESTINATION, NEEDS_PACE, NEEDS_PAIR, NEEDS_SCALE, NEEDS_VLAN, NO_LEASES,
            NO_NUMBERS, NO_SHADOW,
        },
    },
    arithmetic::{bucket::TAU_MAX, quota::ADAPTIVE, scale, size},
    open::Place,
    policy::verdict::Reason,
    table::{
        entry::Shared,
        key::{BY_DESTINATION, BY_FLOW, BY_PAIR, NO_NUMBER, SourceKey, VLAN},
        pair,
    },
};

const NEW_SOURCE: u32 = Reason::NewSource as u32;

/// One packet and one limit.
pub struct Step<'a, S: Steps> {
    environment: &'a S,
    evaluation: &'a mut Evaluation,
    index: u32,
    limit: &'a Limit,
}

impl<'a, S: Steps> Step<'a, S> {
    /// Creates a step. None if there is no such limit.
    #[inline(always)]
    pub fn new(environment: &'a S, evaluation: &'a mut Evaluation, index: u32) -> Option<Self> {
        let limit = environment.constants().limit(index)?;
        Some(Self {
            environment,
            evaluation,
            index,
            limit,
        })
    }

    #[inline(always)]
    fn key(&self) -> SourceKey {
        if let Some(plan) = self.evaluation.plan(self.index) {
            return plan.key;
        }
        self.new_key()
    }

    #[inline(always)]
    fn new_key(&self) -> SourceKey {
        let Evaluation { info, pairs, .. } = &*self.evaluation;
        let (mask, slot) = (&self.limit.mask, self.limit.slot);
        let Constants { needs, nat64, .. } = self.environment.constants();
        let number = if self.absent() & NO_NUMBERS != 0 || mask.port == NO_NUMBER {
            0
        } else if needs & NEEDS_VLAN != 0 && mask.port == VLAN {
            self.evaluation.key_vlan()
        } else {
            info.key_port()
        };
        if needs & NEEDS_PAIR != 0
            && mask.by >= BY_PAIR
            && let Some(words) = pairs.get(self.index as usize)
        {
            return SourceKey::of_pair(*words, slot, mask.port_of(number));
        }
        let address = if needs & NEEDS_DESTINATION != 0 && mask.by == BY_DESTINATION {
            &info.destination
        } else {
            &info.source
        };
        mask.key(slot, address, number, nat64)
    }

    #[inline(always)]
    fn absent(&self) -> u32 {
        self.environment.constants().absent
    }

    /// [`Limit::lease`], which is not asked if no limit has one.
    #[inline(always)]
    fn lease(&self) -> u64 {
        if self.absent() & NO_LEASES != 0 {
            return 0;
        }
        self.limit.lease
    }

    /// [`Limit::shadow`], likewise.
    #[inline(always)]
    fn shadow(&self) -> u32 {
        if self.absent() & NO_SHADOW != 0 {
            return 0;
        }
        self.limit.shadow
    }

    /// The packet's demand on the limit's bucket, last found in the entry `number`.
    #[inline(always)]
    fn demand<'t, const INLINE: bool>(
        &self,
        key: &'t SourceKey,
        number: u32,
    ) -> Demand<'t, S, INLINE>
    where
        'a: 't,
    {
        let Evaluation { now, budget, .. } = *self.evaluation;
        let mut demand = Demand::new(self.environment, self.limit, key, now, self.cost(), number);
        demand.budget = budget;
        demand
    }

    /// Number of the entry in which the check has found the bucket; 0 if unknown.
    #[inline(always)]
    fn entry_number(&self) -> u32 {
        let plan = self.evaluation.plan(self.index);
        plan.map_or(0, |plan| plan.number)
    }

    /// Charges the bucket as the check has planned. None if nothing is planned, or another CPU has changed the bucket.
    #[inline(always)]
    fn charge_as_planned(&self) -> Option<S::Entry> {
        let plan = self.evaluation.plan(self.index)?;
        if plan.charged == 0 {
            return None;
        }
        let entry = self.environment.entry(plan.number)?;
        entry
            .charge_read(&plan.key, plan.tat, plan.charged)
            .then_some(entry)
    }

    /// True if this CPU's lease pays for the packet.
    #[inline(always)]
    fn has_lease(&self) -> bool {
        let plan = self.evaluation.plans.get(self.index as usize);
        plan.is_some_and(|plan| plan.lease >= self.cost())
    }

    /// True if the packet needs a new lease, and none was refused for it. A packet that costs more is charged by
    /// itself.
    #[inline(always)]
    fn wants_lease(&self) -> bool {
        self.lease() != 0
            && self.cost() <= self.limit.lease
            && self.evaluation.unleased >> self.index & 1 == 0
            && !self.has_lease()
    }

    /// Tries to fill up the lease from the bucket: a CPU never holds more than one. So many CPUs seldom write the
    /// bucket of the interface.
    #[inline(always)]
    fn take_lease(self) {
        let key = self.new_key();
        let mut demand = self.demand::<false>(&key, 0);
        let held = self.evaluation.plans.get(self.index as usize);
        demand.cost = self.limit.lease - held.map_or(0, |plan| plan.lease);
        let taken = matches!(demand.charge(), Attempt::Admitted);
        self.evaluation.now = demand.now;
        let (entry, number) = (demand.found.entry(), demand.number);
        let plan = self.evaluation.plans.get_mut(self.index as usize);
        match (entry, plan) {
            (Some(entry), Some(plan)) if taken => {
                entry.count_passed(plan.pending);
                plan.key = key;
                plan.number = number;
                plan.lease = self.limit.lease;
                plan.pending = 0;
            }
            _ => self.evaluation.unleased |= 1 << self.index,
        }
    }

    /// Pays for the packet from this CPU's lease.
    #[inline(always)]
    fn pay(self) -> Attempt {
        let (bit, cost) = (1 << self.index, self.cost());
        let packets = size::packets(self.size());
        if let Some(plan) = self.evaluation.plans.get_mut(self.index as usize) {
            plan.lease -= cost;
            plan.pending += packets;
        }
        self.evaluation.leased |= bit;
        self.evaluation.charged |= bit;
        self.count(Reason::Admitted);
        Attempt::Admitted
    }

    #[inline(always)]
    fn cost(&self) -> u64 {
        let cost = self.evaluation.costs.get(self.index as usize);
        cost.copied().unwrap_or(TAU_MAX)
    }

    /// The packet's [`size`]. The compiler shall know that it is one packet, where packets are not merged.
    #[inline(always)]
    const fn size(&self) -> u64 {
        let size = self.evaluation.length;
        if S::IN_STACK { size } else { size::bytes(size) }
    }

    /// Stores the packet's cost, which stays the same up to the refund. Returns it.
    #[inline(always)]
    fn price(&mut self) -> u64 {
        let cost = cost(self.environment, self.limit, self.size());
        if let Some(place) = self.evaluation.costs.get_mut(self.index as usize) {
            *place = cost;
        }
        if self.is_adaptive() {
            S::stretch(self.environment, self.evaluation, self.index);
            return self.cost();
        }
        cost
    }

    #[inline(always)]
    fn is_adaptive(&self) -> bool {
        self.environment.constants().needs & NEEDS_SCALE != 0
            && self.limit.quota.flags & ADAPTIVE != 0
    }

    /// Decides when the packet leaves, whose charge has brought the bucket to `tat`. The clock was read for the charge. A
    /// packet that has its tokens leaves at once: if it left later, as its sender asks, others that were charged later would
    /// leave with it.
    #[inline(always)]
    fn delay(&mut self, tat: u64) {
        let quota = &self.limit.quota;
        let Constants { needs, shadow, .. } = *self.environment.constants();
        if S::IN_STACK
            && needs & NEEDS_PACE != 0
            && quota.pace != 0
            && self.limit.shadow == 0
            && shadow == 0
        {
            let delay = quota.delay(tat, self.evaluation.now);
            self.evaluation.delay = self.evaluation.delay.max(delay + 1);
        }
    }

    #[inline(always)]
    fn is_leased(&self) -> bool {
        self.lease() != 0 && self.evaluation.leased >> self.index & 1 != 0
    }

    /// Takes the result for a new source, whose bucket has `tat`.
    #[inline(always)]
    fn enter(mut self, added: Attempt, tat: u64) -> Attempt {
        let reason = match added {
            Attempt::Admitted => {
                self.evaluation.paid = 1;
                self.delay(tat);
                Reason::Admitted
            }
            Attempt::Refused => Reason::Limit,
            Attempt::RefusedNew => Reason::NewSource,
            undecided => return undecided,
        };
        self.take(reason, S::Found::NONE)
    }

    /// Stores the limit's decision, and counts an admitted packet. `entry` counts the packet; none if the source has none,
    /// or the packet is already counted.
    #[inline(always)]
    fn take(self, reason: Reason, entry: S::Found) -> Attempt {
        let bit = 1 << self.index;
        if !matches!(reason, Reason::Admitted) {
            if self.shadow() == 0 {
                return self.refuse(reason, entry);
            }
            if self.evaluation.would_drop == 0 {
                self.evaluation.note(self.index, reason);
            }
            self.evaluation.would_drop |= bit;
            return Attempt::Admitted;
        }
        self.evaluation.charged |= bit;
        if let Some(entry) = entry.entry() {
            entry.count(Reason::Admitted, self.size());
        }
        self.count(Reason::Admitted);
        Attempt::Admitted
    }

    /// Stores that the limit refuses the packet, and counts it if the bucket was found.
    #[inline(always)]
    fn refuse(self, reason: Reason, entry: S::Found) -> Attempt {
        self.evaluation.note(self.index, reason);
        if let Some(entry) = entry.entry() {
            let reason = apply_shadow(self.environment, Reason::Limit);
            entry.count(reason, self.size());
            self.evaluation.counted = 1;
            self.count(reason);
        }
        match reason {
            Reason::NewSource => Attempt::RefusedNew,
            _ => Attempt::Refused,
        }
    }

    /// Counts the packet for the limit.
    #[inline(always)]
    fn count(&self, reason: Reason) {
        let slot = self.limit.slot;
        self.environment.count_limit(slot, reason, self.size());
    }

    /// Removes the limit from the matching ones if it does not match the packet.
    #[inline(always)]
    pub fn confirm(self) {
        if !matches(
            self.limit,
            self.environment.constants().needs,
            self.evaluation,
        ) {
            self.evaluation.matching &= !(1 << self.index);
        }
    }

    /// True if the limit matches the packet, whatever the fields that cannot be seen.
    #[inline(always)]
    pub fn is_certain(self) -> bool {
        let constants = self.environment.constants();
        // Once more, so that programs without the call do not have the function.
        constants.candidates.of_rest != 0 && certain(self.limit, constants.needs, self.evaluation)
    }

    /// Stores the words of the packet's key, of two addresses.
    #[inline(always)]
    pub fn pair(self) {
        let mask = &self.limit.mask;
        if mask.by < BY_PAIR {
            return;
        }
        let info = &self.evaluation.info;
        let flow = if mask.by == BY_FLOW { info.flow() } else { 0 };
        let Constants { seed, nat64, .. } = self.environment.constants();
        let words = pair::words(mask, &info.source, &info.destination, flow, seed, nat64);
        if let Some(place) = self.evaluation.pairs.get_mut(self.index as usize) {
            *place = words;
        }
    }

    /// Stretches the packet's cost under an adaptive limit.
    #[inline(always)]
    pub fn stretch(self) {
        if let Some(place) = self.evaluation.costs.get_mut(self.index as usize) {
            let word = self.environment.scale(self.limit.slot);
            *place = scale::cost(*place, scale::stretch(word, || self.environment.now()));
        }
    }

    /// Checks whether the limit would refuse the packet. Returns [`Attempt::Refused`], [`Attempt::Stale`] or
    /// [`Attempt::Admitted`]. Stores a plan of the charge.
    #[inline(always)]
    pub fn check(mut self) -> Attempt {
        self.price();
        if self.lease() != 0 {
            if self.has_lease() {
                return Attempt::Admitted;
            }
            if self.wants_lease() {
                return Attempt::Stale;
            }
        }
        let key = self.new_key();
        // The bucket of the interface is where the last packet has found it.
        let last = match self.evaluation.plans.get(self.index as usize) {
            Some(plan) if self.limit.mask.interface != 0 => plan.number,
            _ => 0,
        };
        let mut demand = self.demand::<true>(&key, last);
        let checked = demand.check();
        self.evaluation.now = demand.now;
        if let Some(plan) = self.evaluation.plans.get_mut(self.index as usize) {
            plan.key = key;
            plan.number = demand.number;
            plan.charged = 0;
            if matches!(checked, Attempt::Admitted) {
                (plan.tat, plan.charged) = (demand.read, demand.charged);
            }
        }
        match checked {
            Attempt::Refused if self.shadow() == 0 => self.refuse(Reason::Limit, demand.found),
            Attempt::New => {
                self.evaluation.new |= 1 << self.index;
                // If a bucket cannot be made, the first limit that needs a new one refuses the packet.
                if self.shadow() == 0 && self.evaluation.refused != NEW_SOURCE {
                    self.evaluation.note(self.index, Reason::NewSource);
                }
                Attempt::Admitted
            }
            Attempt::Stale => Attempt::Stale,
            _ => Attempt::Admitted,
        }
    }

    /// True if the limit has no new-source token or no room for a new bucket, and is not in shadow. The token stays in the
    /// lease until the packet is charged.
    #[inline(always)]
    pub fn lacks_bucket(self) -> bool {
        if self.shadow() != 0 {
            return false;
        }
        // Refusals are remembered by the peer, whatever the keys of the limits are: others of its network are not it.
        let Constants { egress, nat64, .. } = self.environment.constants();
        let peer = self.evaluation.info.peer(*egress);
        let known_as = second_chance::SOURCE.key(0, peer, 0, nat64);
        let key = self.key();
        let mut demand = self.demand::<false>(&key, 0);
        let can_be_made = demand.can_be_made(&known_as);
        self.evaluation.now = demand.now;
        self.evaluation.budget = demand.budget;
        if !can_be_made {
            self.evaluation.refused_by = self.index;
        }
        !can_be_made
    }

    /// The first attempt to charge the packet to the only limit that matches it: nothing was checked before, and the clock
    /// not read.
    #[inline(always)]
    pub fn charge_alone(mut self) -> Attempt {
        let cost = self.price();
        if self.lease() != 0 {
            if self.has_lease() {
                return self.pay();
            }
            if self.wants_lease() {
                return Attempt::Stale;
            }
        }
        let key = self.new_key();
        let mut demand: Demand<'_, S, true> =
            Demand::new(self.environment, self.limit, &key, NOT_READ, cost, 0);
        let charged = demand.charge();
        self.charged(charged, &demand)
    }

    /// Tries once to charge the packet to the limit.
    #[inline(always)]
    pub fn charge(mut self) -> Attempt {
        if self.evaluation.checked == 0 {
            self.price();
        }
        if self.lease() != 0 {
            if self.has_lease() {
                return self.pay();
            }
            if self.wants_lease() {
                return Attempt::Stale;
            }
        }
        if let Some(entry) = self.charge_as_planned() {
            let planned = self.evaluation.plan(self.index).map(|plan| plan.charged);
            self.delay(planned.unwrap_or(0));
            return self.take(Reason::Admitted, entry.into());
        }
        let key = self.key();
        let mut demand = self.demand::<true>(&key, self.entry_number());
        let charged = demand.charge();
        self.charged(charged, &demand)
    }

    /// Takes the result of an attempt to charge the bucket.
    #[inline(always)]
    fn charged(mut self, charged: Attempt, demand: &Demand<'_, S, true>) -> Attempt {
        self.evaluation.now = demand.now;
        let reason = match charged {
            Attempt::Admitted => {
                self.delay(demand.charged);
                Reason::Admitted
            }
            Attempt::Refused => Reason::Limit,
            undecided => return undecided,
        };
        self.take(reason, demand.found)
    }

    /// [`super::bucket::refresh`] for the limit's bucket, or a new lease if the packet needs one.
    #[inline(always)]
    pub fn refresh(self) {
        if self.wants_lease() {
            self.take_lease();
        } else {
            S::refresh_bucket(self.environment, &self.key(), self.index);
        }
    }

    /// Makes the bucket and charges it. The packet's first new bucket takes the new-source token.
    #[inline(always)]
    pub fn add(self) -> Attempt {
        let key = self.key();
        let mut demand = self.demand::<false>(&key, 0);
        let added = demand.charge_new(self.evaluation.paid == 0);
        self.evaluation.now = demand.now;
        let charged = demand.charged;
        self.enter(added, charged)
    }

    /// Makes the bucket in the place of a quiet source by this budget, after [`Self::add`].
    #[inline(always)]
    pub fn replace(self, budget: u32) -> Attempt {
        let key = self.key();
        let mut demand = self.demand::<false>(&key, 0);
        demand.budget = budget;
        let added = demand.replace();
        let charged = demand.charged;
        self.enter(added, charged)
    }

    /// Refuses the packet after all attempts were lost, or notes it in shadow mode.
    #[inline(always)]
    pub fn contended(self) -> Attempt {
        self.take(Reason::Contended, S::Found::NONE)
    }

    /// Tries once to refund the charge of [`Self::charge`] or [`Self::add`]. Returns false if another CPU was faster.
    #[inline(always)]
    pub fn refund(self) -> bool {
        if self.is_leased() {
            let (cost, packets) = (self.cost(), size::packets(self.size()));
            if let Some(plan) = self.evaluation.plans.get_mut(self.index as usize) {
                plan.lease += cost;
                plan.pending -= packets;
            }
            return true;
        }
        let key = self.key();
        let mut demand = self.demand::<false>(&key, self.entry_number());
        demand.refund()
    }

    /// Uncounts the packet that the limit had admitted, after [`Self::refund`].
    #[inline(always)]
    pub fn uncount(self) {
        if !self.is_leased()
            && let Some(entry) = self.find()
        {
            // A new entry has counted one.
            let is_known = self.evaluation.new >> self.index & 1 == 0;
            let packets = size::packets(self.size());
            entry.uncount(if S::IN_STACK && is_known { packets } else { 1 });
        }
        self.environment.uncount_limit(self.limit.slot, self.size());
    }

    /// The entry of the bucket.
    #[inline(always)]
    fn find(&self) -> Option<S::Entry> {
        self.demand::<false>(&self.key(), self.entry_number())
            .find()
    }

    /// Tries once to hold the bucket of the limit that has refused the packet. Returns false if another CPU was faster.
    #[inline(always)]
    pub fn hold(self) -> bool {
        let key = self.key();
        let mut demand = self.demand::<false>(&key, self.entry_number());
        self.limit.quota.hold == 0 || demand.hold()
    }

    /// Counts the packet for a limit that it is over: as dropped, or as passed because of shadow.
    #[inline(always)]
    pub fn count_over(self) {
        let reason = if self.evaluation.passed != 0 {
            Reason::WouldDrop
        } else {
            Reason::Limit
        };
        if let Some(entry) = self.find() {
            entry.count(reason, self.size());
        }
        self.count(reason);
    }

    /// True if the packet may open a connection that the limit counts, and its key has as many as the limit allows. Flags
    /// of the match are not asked: the segment that completes a handshake is no SYN.
    #[inline(always)]
    pub fn is_full(self) -> bool {
        let constants = self.environment.constants();
        let bounds = &constants.bounds;
        // Once more, so that programs without the call do not have the function.
        if bounds.limits == 0 {
            return false;
        }
        let Evaluation { info, lists, .. } = &*self.evaluation;
        let wanted = &self.limit.matches;
        let counts = (wanted.family == 0 || wanted.family == info.source.family)
            && (wanted.lists == 0 || wanted.lists & lists != 0)
            && wanted.unless & lists == 0
            && port_holds(wanted, info.destination_port);
        let Some(bound) = bounds.of_limits.get(self.index as usize) else {
            return false;
        };
        if !counts {
            return false;
        }
        let key = self.new_key();
        let place = Place::of(&constants.seed, &key, *bound, bounds.lines);
        self.environment.open_connections(place.line, place.tag) >= u64::from(bound.most)
    }
}
