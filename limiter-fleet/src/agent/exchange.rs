//! Exchanges rounds and heartbeats with the store.

use std::time::Instant;

use super::{
    freshness::BEAT,
    run::{ALIVE, Agent},
};
use crate::{
    conflicts::Held,
    host::Host,
    ledger::Record,
    member::Round,
    store::{Beat, Error, Fault, Lists},
    text::counted,
};

impl<H: Host + 'static> Agent<H> {
    /// Scans the table of a member, unless a long scan would delay answers under way.
    pub(super) fn scan(&mut self, at: usize, now: Instant) -> Result<(), String> {
        let membership = &mut self.memberships[at];
        let late = membership.freshness.lateness(self.options.interval, now);
        let is_awaiting = self.connection.store().is_some() && self.under_way.of(membership.id) > 0;
        if is_awaiting && !membership.freshness.may_scan(now) {
            return Ok(());
        }
        let begin = Instant::now();
        for group in membership.scan(late, self.host.now()?) {
            membership.freshness.sent.insert(group, now);
        }
        membership.freshness.scanned(now, begin.elapsed());
        Ok(())
    }

    pub(super) fn send(&mut self, at: usize, now: Instant) {
        let membership = &mut self.memberships[at];
        let Some(store) = self.connection.store().filter(|_| membership.is_counted) else {
            return;
        };
        let late = membership.freshness.lateness(self.options.interval, now);
        let fleet = membership.state(late);
        for round in self.under_way.take(membership) {
            let (mut store, name, id) = (store.clone(), membership.fleet(), membership.id);
            let sent = Instant::now();
            let exchanged = async move {
                let records = store.exchange(&name, id, &round, fleet).await;
                (round, records)
            };
            self.asked.push(exchanged, move |agent, (round, records)| {
                agent.exchanged(id, &round, sent, records);
            });
        }
    }

    /// Takes the result of a round that was sent at `sent`.
    fn exchanged(
        &mut self,
        member: u64,
        round: &Round,
        sent: Instant,
        records: Result<Vec<Record>, Error>,
    ) {
        let is_late = matches!(records, Err(Error::At(_, Fault::Timeout(..))));
        let took = (!is_late).then(|| sent.elapsed());
        self.under_way.ended(member, round.group, took);
        let records = match records {
            Ok(records) => records,
            Err(error) => return self.connection.failed(&error),
        };
        // If the clock cannot be read, the next scan ends the agent.
        if let (Some(at), Ok(ticks)) = (self.at(member), self.host.now()) {
            let membership = &mut self.memberships[at];
            membership.answer(round.number, round.group, &records, ticks);
            membership.freshness.sent.remove(&round.group);
            membership.freshness.answered(sent);
            // Send rounds that waited for this answer.
            self.send(at, Instant::now());
        }
        self.works();
    }

    pub(super) fn beat(&mut self, at: usize, now: Instant) {
        let membership = &mut self.memberships[at];
        let Some(mut store) = self.connection.store() else {
            return;
        };
        if now < membership.next_beat || membership.is_beating {
            return;
        }
        (membership.next_beat, membership.is_beating) = (now + BEAT, true);
        let (id, fleet, label) = (membership.id, membership.fleet(), membership.label.clone());
        let held = membership.held();
        let beat = async move {
            let beat = store.heartbeat(&fleet, id, &label, &held, ALIVE).await;
            (held, beat)
        };
        self.asked.push(beat, move |agent, (held, beat)| {
            agent.beaten(id, now, &held, beat);
        });
    }

    /// Takes the result of a member's heartbeat. `held`: the limits that it announced. `sent`: the time it was sent.
    fn beaten(&mut self, member: u64, sent: Instant, held: &[Held], beat: Result<Beat, Error>) {
        let at = self.at(member);
        if let Some(at) = at {
            self.memberships[at].is_beating = false;
        }
        let beat = match beat {
            Ok(beat) => beat,
            Err(error) => return self.connection.failed(&error),
        };
        self.works();
        let (Some(at), say, now) = (at, self.options.say, Instant::now()) else {
            return;
        };
        let membership = &mut self.memberships[at];
        let fleet = membership.fleet();
        membership.freshness.answered(sent);
        membership.is_counted = true;
        membership.freshness.oldest_is(beat.oldest);
        for text in membership.conflicts.update(held, &beat.held, &fleet, now) {
            say(&membership.line(&text));
        }
        // A store that has just come back knows of no members. The first member to come back is not alone.
        let may_miss = now < membership.returning;
        let hosts = membership.hosts;
        if hosts < beat.hosts || (hosts > beat.hosts && !may_miss) {
            let hosts = counted(beat.hosts.into(), "host");
            say(&membership.line(&format!("fleet '{fleet}' has {hosts} now")));
            membership.hosts = beat.hosts;
        }
        let is_new = membership.known.revision != Some(beat.revision);
        if is_new && membership.about().lists.is_empty() {
            let none = Lists {
                revision: beat.revision,
                lists: Vec::new(),
            };
            membership.known.take(&[], none, now);
        } else if membership.awaits_reading() || (is_new && membership.force.is_rested(now)) {
            self.read_lists(at);
        }
    }
}
