//! The steps of the full path for one limit. The kernel program exports each as a global function, so that the verifier
//! checks it once, for any number of limits.

use super::{
    Engine, Evaluation, Found, apply_shadow,
    bucket::{Charged, DONE, Demand, FULL, LOST, NEW, REFUSED, STALE, may_replace},
    fast, matches, second_chance,
};
use crate::{
    abi::{
        Config,
        rules::{Limit, NEEDS_DESTINATION, NEEDS_PACE, NEEDS_PAIR, NEEDS_SCALE},
    },
    arithmetic::{bucket::TAU_MAX, quota::ADAPTIVE, scale, size},
    policy::verdict::Reason,
    table::{
        entry::Shared,
        key::{BY_DESTINATION, BY_FLOW, BY_PAIR, SourceKey},
        pair,
    },
};

const NEW_SOURCE: u32 = Reason::NewSource as u32;

/// One packet and one limit. Public functions return codes of [`super::bucket`].
pub struct Step<'a, E: Engine> {
    engine: &'a E,
    evaluation: &'a mut Evaluation,
    index: u32,
    limit: &'a Limit,
}

impl<'a, E: Engine> Step<'a, E> {
    /// Creates a step. None if there is no such limit: then the caller returns [`DONE`].
    #[inline(always)]
    pub fn new(engine: &'a E, evaluation: &'a mut Evaluation, index: u32) -> Option<Self> {
        let limit = engine.config().limit(index)?;
        Some(Self {
            engine,
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
        let needs = self.engine.config().needs;
        if needs & NEEDS_PAIR != 0
            && mask.by >= BY_PAIR
            && let Some(words) = pairs.get(self.index as usize)
        {
            return SourceKey::of_pair(*words, slot, mask.port_of(info.key_port()));
        }
        let address = if needs & NEEDS_DESTINATION != 0 && mask.by == BY_DESTINATION {
            &info.destination
        } else {
            &info.source
        };
        mask.key(slot, address, info.key_port())
    }

    /// The packet's demand on the limit's bucket, last found in the entry `number`.
    #[inline(always)]
    fn demand<'t, const INLINE: bool>(
        &self,
        key: &'t SourceKey,
        number: u32,
    ) -> Demand<'t, E, INLINE>
    where
        'a: 't,
    {
        let Evaluation { now, budget, .. } = *self.evaluation;
        let mut demand = Demand::new(self.engine, self.limit, key, now, self.cost(), number);
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
    fn charge_as_planned(&self) -> Option<E::Entry> {
        let plan = self.evaluation.plan(self.index)?;
        if plan.charged == 0 {
            return None;
        }
        let entry = self.engine.entry(plan.number)?;
        entry
            .charge(&plan.key, plan.tat, plan.charged)
            .then_some(entry)
    }

    /// Whether this CPU's lease pays for the packet.
    #[inline(always)]
    fn has_lease(&self) -> bool {
        let plan = self.evaluation.plans.get(self.index as usize);
        plan.is_some_and(|plan| plan.lease >= self.cost())
    }

    /// True if the packet needs a new lease, and none was refused for it. A packet that costs more is charged by
    /// itself.
    #[inline(always)]
    fn wants_lease(&self) -> bool {
        self.limit.lease != 0
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
        let taken = demand.charge() == DONE;
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
    fn pay(self) -> u32 {
        let (bit, cost) = (1 << self.index, self.cost());
        let packets = size::packets(self.size());
        if let Some(plan) = self.evaluation.plans.get_mut(self.index as usize) {
            plan.lease -= cost;
            plan.pending += packets;
        }
        self.evaluation.leased |= bit;
        self.evaluation.charged |= bit;
        self.count(Reason::Admitted)
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
        if E::IN_STACK { size } else { size::bytes(size) }
    }

    /// Stores the packet's cost, which stays the same up to the refund.
    #[inline(always)]
    fn price(&mut self) {
        let cost = fast::cost::<E>(self.limit, self.size());
        if let Some(place) = self.evaluation.costs.get_mut(self.index as usize) {
            *place = cost;
        }
        if self.is_adaptive() {
            self.engine.stretch(self.evaluation, self.index);
        }
    }

    #[inline(always)]
    fn is_adaptive(&self) -> bool {
        self.engine.config().needs & NEEDS_SCALE != 0 && self.limit.quota.flags & ADAPTIVE != 0
    }

    /// Decides when the packet leaves, whose charge has brought the bucket to `tat`. The clock was read for the charge. A
    /// packet that has its tokens leaves at once: if it left later, as its sender asks, others that were charged later would
    /// leave with it.
    #[inline(always)]
    fn delay(&mut self, tat: u64) {
        let quota = &self.limit.quota;
        let Config { needs, shadow, .. } = *self.engine.config();
        if E::IN_STACK
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
    const fn is_leased(&self) -> bool {
        self.limit.lease != 0 && self.evaluation.leased >> self.index & 1 != 0
    }

    /// Takes the decision about a new source, whose bucket has `tat`; none if another CPU has made the bucket.
    #[inline(always)]
    fn enter(mut self, added: Option<Reason>, tat: u64) -> u32 {
        let Some(reason) = added else {
            return LOST;
        };
        if matches!(reason, Reason::Admitted) {
            self.evaluation.paid = 1;
            self.delay(tat);
        }
        self.take((reason, E::Found::NONE))
    }

    /// Stores the limit's decision, and counts an admitted packet.
    #[inline(always)]
    fn take(self, (reason, entry): Charged<E::Found>) -> u32 {
        let bit = 1 << self.index;
        if !matches!(reason, Reason::Admitted) {
            if self.limit.shadow == 0 {
                return self.refuse((reason, entry));
            }
            if self.evaluation.would_drop == 0 {
                self.evaluation.note(self.index, reason);
            }
            self.evaluation.would_drop |= bit;
            return DONE;
        }
        self.evaluation.charged |= bit;
        if let Some(entry) = entry.entry() {
            entry.count(Reason::Admitted, self.size());
        }
        self.count(Reason::Admitted)
    }

    /// Stores that the limit refuses the packet, and counts it if the bucket was found.
    #[inline(always)]
    fn refuse(self, (reason, entry): Charged<E::Found>) -> u32 {
        self.evaluation.note(self.index, reason);
        if let Some(entry) = entry.entry() {
            let reason = apply_shadow(self.engine, Reason::Limit);
            entry.count(reason, self.size());
            self.evaluation.counted = 1;
            self.count(reason);
        }
        REFUSED
    }

    /// Counts the packet for the limit.
    #[inline(always)]
    fn count(self, reason: Reason) -> u32 {
        let slot = self.limit.slot;
        self.engine.count_limit(slot, reason, self.size());
        DONE
    }

    /// Removes the limit from the matching ones if it does not match the packet. Returns [`DONE`].
    #[inline(always)]
    pub fn confirm(self) -> u32 {
        if !matches(self.limit, self.engine.config().needs, self.evaluation) {
            self.evaluation.matching &= !(1 << self.index);
        }
        DONE
    }

    /// Stores the words of the packet's key, of two addresses. Returns [`DONE`].
    #[inline(always)]
    pub fn pair(self) -> u32 {
        let mask = &self.limit.mask;
        if mask.by < BY_PAIR {
            return DONE;
        }
        let info = &self.evaluation.info;
        let flow = if mask.by == BY_FLOW { info.flow() } else { 0 };
        let seed = &self.engine.config().seed;
        let words = pair::words(mask, &info.source, &info.destination, flow, seed);
        if let Some(place) = self.evaluation.pairs.get_mut(self.index as usize) {
            *place = words;
        }
        DONE
    }

    /// Stretches the packet's cost under an adaptive limit. Returns [`DONE`].
    #[inline(always)]
    pub fn stretch(self) -> u32 {
        if let Some(place) = self.evaluation.costs.get_mut(self.index as usize) {
            let word = self.engine.scale(self.limit.slot);
            *place = scale::cost(*place, scale::stretch(word, || self.engine.now()));
        }
        DONE
    }

    /// Checks whether the limit would refuse the packet. Returns [`REFUSED`], [`STALE`] or [`DONE`]. Stores a plan of
    /// the charge.
    #[inline(always)]
    pub fn check(mut self) -> u32 {
        self.price();
        if self.limit.lease != 0 {
            if self.has_lease() {
                return DONE;
            }
            if self.wants_lease() {
                return STALE;
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
            if checked == DONE {
                (plan.tat, plan.charged) = demand.planned;
            }
        }
        match checked {
            STALE => STALE,
            REFUSED if self.limit.shadow == 0 => self.refuse((Reason::Limit, demand.found)),
            NEW => {
                self.evaluation.new |= 1 << self.index;
                // If a bucket cannot be made, the first limit that needs a new one refuses the packet.
                if self.limit.shadow == 0 && self.evaluation.refused != NEW_SOURCE {
                    self.evaluation.note(self.index, Reason::NewSource);
                }
                DONE
            }
            _ => DONE,
        }
    }

    /// Checks that the limit has a new-source token and room for a new bucket, or is in shadow. Returns [`REFUSED`] or
    /// [`DONE`]. The token stays in the lease until the packet is charged.
    #[inline(always)]
    pub fn reserve(self) -> u32 {
        if self.limit.shadow != 0 {
            return DONE;
        }
        // Refusals are remembered by the peer, whatever the keys of the limits are: others of its network are not it.
        let peer = self.evaluation.info.peer(self.engine.config().egress);
        let known_as = second_chance::SOURCE.key(0, peer, 0);
        let key = self.key();
        let mut demand = self.demand::<false>(&key, 0);
        let can_be_made = demand.can_be_made(&known_as);
        self.evaluation.now = demand.now;
        self.evaluation.budget = demand.budget;
        if can_be_made {
            return DONE;
        }
        self.evaluation.refused_by = self.index;
        REFUSED
    }

    /// Tries once to charge the packet to the limit. Returns any code of [`super::bucket`].
    #[inline(always)]
    pub fn charge(mut self) -> u32 {
        if self.evaluation.checked == 0 {
            self.price();
        }
        if self.limit.lease != 0 {
            if self.has_lease() {
                return self.pay();
            }
            if self.wants_lease() {
                return STALE;
            }
        }
        if let Some(entry) = self.charge_as_planned() {
            let planned = self.evaluation.plan(self.index).map(|plan| plan.charged);
            self.delay(planned.unwrap_or(0));
            return self.take((Reason::Admitted, entry.into()));
        }
        let key = self.key();
        let mut demand = self.demand::<true>(&key, self.entry_number());
        let charged = demand.charge();
        self.evaluation.now = demand.now;
        let reason = match charged {
            DONE => {
                self.delay(demand.charged);
                Reason::Admitted
            }
            REFUSED => Reason::Limit,
            code => return code,
        };
        self.take((reason, demand.found))
    }

    /// [`super::bucket::refresh`] for the limit's bucket, or a new lease if the packet needs one. Returns [`DONE`].
    #[inline(always)]
    pub fn refresh(self) -> u32 {
        if self.wants_lease() {
            self.take_lease();
        } else {
            self.engine.refresh_bucket(&self.key(), self.index);
        }
        DONE
    }

    /// Makes the bucket and charges it. Returns [`DONE`], [`REFUSED`], or [`LOST`] if another CPU has made it. The
    /// packet's first new bucket takes the new-source token.
    #[inline(always)]
    pub fn add(self) -> u32 {
        let key = self.key();
        let mut demand = self.demand::<false>(&key, 0);
        let added = demand.charge_new(self.evaluation.paid == 0);
        self.evaluation.now = demand.now;
        self.evaluation.tried = demand.budget;
        if demand.found_no_room && may_replace(self.engine) {
            return FULL;
        }
        let charged = demand.charged;
        self.enter(added, charged)
    }

    /// Makes the bucket in the place of a quiet source, after [`Self::add`]. Returns its codes.
    #[inline(always)]
    pub fn replace(self) -> u32 {
        let key = self.key();
        let mut demand = self.demand::<false>(&key, 0);
        demand.budget = self.evaluation.tried;
        let added = demand.replace();
        let charged = demand.charged;
        self.enter(added, charged)
    }

    /// Refuses the packet after all attempts were lost. Returns [`REFUSED`], or [`DONE`] in shadow mode.
    #[inline(always)]
    pub fn contended(self) -> u32 {
        self.take((Reason::Contended, E::Found::NONE))
    }

    /// Tries once to refund the charge of [`Self::charge`] or [`Self::add`]. Returns [`LOST`] if another CPU was
    /// faster, or [`DONE`].
    #[inline(always)]
    pub fn refund(self) -> u32 {
        if self.is_leased() {
            let (cost, packets) = (self.cost(), size::packets(self.size()));
            if let Some(plan) = self.evaluation.plans.get_mut(self.index as usize) {
                plan.lease += cost;
                plan.pending -= packets;
            }
            return DONE;
        }
        let key = self.key();
        let mut demand = self.demand::<false>(&key, self.entry_number());
        if demand.refund() { DONE } else { LOST }
    }

    /// Uncounts the packet that the limit had admitted, after [`Self::refund`]. Returns [`DONE`].
    #[inline(always)]
    pub fn uncount(self) -> u32 {
        if !self.is_leased()
            && let Some(entry) = self.find()
        {
            // A new entry has counted one.
            let is_known = self.evaluation.new >> self.index & 1 == 0;
            let packets = size::packets(self.size());
            entry.uncount(if E::IN_STACK && is_known { packets } else { 1 });
        }
        self.engine.uncount_limit(self.limit.slot, self.size());
        DONE
    }

    /// The entry of the bucket.
    #[inline(always)]
    fn find(&self) -> Option<E::Entry> {
        self.demand::<false>(&self.key(), self.entry_number())
            .find()
    }

    /// Tries once to hold the bucket of the limit that has refused the packet. Returns [`LOST`] if another CPU was
    /// faster, or [`DONE`].
    #[inline(always)]
    pub fn hold(self) -> u32 {
        let key = self.key();
        let mut demand = self.demand::<false>(&key, self.entry_number());
        if self.limit.quota.hold == 0 || demand.hold() {
            DONE
        } else {
            LOST
        }
    }

    /// Counts the packet for a limit that it is over: as dropped, or as passed because of shadow. Returns [`DONE`].
    #[inline(always)]
    pub fn count_over(self) -> u32 {
        let reason = if self.evaluation.passed != 0 {
            Reason::WouldDrop
        } else {
            Reason::Limit
        };
        if let Some(entry) = self.find() {
            entry.count(reason, self.size());
        }
        self.count(reason)
    }
}
