//! Exchanges rounds and heartbeats with the store.

use std::{sync::Arc, time::Instant};

use super::{
    freshness::BEAT,
    run::{ALIVE, Agent},
};
use crate::{
    conflicts::Held,
    host::Host,
    ledger::Record,
    member::Round,
    store::{Beat, Error},
};

impl<H: Host + 'static> Agent<H> {
    /// Sends a member's next round. One is under way at a time, so that a slow store gets fewer.
    pub(super) fn send(&mut self, index: usize, now: Instant) {
        let membership = &mut self.memberships[index];
        let may_send = membership.is_counted && !membership.is_sending;
        let store = self.connection.store.clone().filter(|_| may_send);
        let (Some(mut store), Some(round)) = (store, membership.next_round()) else {
            return;
        };
        membership.is_sending = true;
        membership.freshness.began.get_or_insert(now);
        let (fleet, name, id) = (membership.state(now), membership.fleet(), membership.id);
        let exchanged = async move {
            let records = store.exchange(&name, id, &round, fleet).await;
            (round, records)
        };
        self.requests
            .push(exchanged, move |agent, (round, records)| {
                agent.exchanged(id, &round, records);
            });
    }

    fn exchanged(&mut self, member: u64, round: &Arc<Round>, records: Result<Vec<Record>, Error>) {
        let index = self.index_of(member);
        if let Some(index) = index {
            self.memberships[index].is_sending = false;
        }
        let records = match records {
            Ok(records) => records,
            Err(error) => return self.connection.failed(&error),
        };
        // If the clock cannot be read, the next scan ends the agent.
        if let (Some(index), Ok(ticks)) = (index, self.host.now()) {
            self.memberships[index].answer(round, &records, ticks);
            self.send(index, Instant::now());
        }
        self.connection.works();
    }

    pub(super) fn beat(&mut self, index: usize, now: Instant) {
        let membership = &mut self.memberships[index];
        let Some(mut store) = self.connection.store.clone() else {
            return;
        };
        if now < membership.next_beat || membership.is_beating {
            return;
        }
        (membership.next_beat, membership.is_beating) = (now + BEAT, true);
        let (id, fleet, label) = (membership.id, membership.fleet(), membership.label.clone());
        let held = membership.held();
        let lists: Vec<_> = membership.about().lists.iter().cloned().collect();
        let beat = async move {
            let beat = store
                .heartbeat(&fleet, id, &label, &held, &lists, ALIVE)
                .await;
            (held, beat)
        };
        self.requests.push(beat, move |agent, (held, beat)| {
            agent.beaten(id, now, &held, beat);
        });
    }

    /// Takes the result of a member's heartbeat. `held`: the limits that it announced. `sent`: the time it was sent.
    fn beaten(&mut self, member: u64, sent: Instant, held: &[Held], beat: Result<Beat, Error>) {
        let index = self.index_of(member);
        if let Some(index) = index {
            self.memberships[index].is_beating = false;
        }
        let beat = match beat {
            Ok(beat) => beat,
            Err(error) => return self.connection.failed(&error),
        };
        self.connection.works();
        let (Some(index), say, now) = (index, self.options.say, Instant::now()) else {
            return;
        };
        let membership = &mut self.memberships[index];
        let fleet = membership.fleet();
        membership.freshness.beaten(sent, beat.oldest);
        for text in membership.conflicts.update(held, &beat.held, &fleet, now) {
            say(&membership.line(&text));
        }
        if membership.count(beat.hosts, now) {
            let hosts = match beat.hosts {
                1 => "1 host".to_owned(),
                hosts => format!("{hosts} hosts"),
            };
            say(&membership.line(&format!("fleet '{fleet}' has {hosts} now")));
        }
        let shares_lists = !membership.about().lists.is_empty();
        if shares_lists && membership.lists.is_due(beat.revision, beat.is_short, now) {
            self.read_lists(index);
        }
    }
}
