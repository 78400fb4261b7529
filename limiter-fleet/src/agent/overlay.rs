//! Transports the lists of a fleet: from the store to the interfaces, and lost entries back to the store.

use std::time::{Duration, Instant};

use ipnet::IpNet;

use super::run::Agent;
use crate::{
    host::Host,
    store::{Edit, Error, Lists},
    text::counted,
};

impl<H: Host + 'static> Agent<H> {
    pub(super) fn read_lists(&mut self, at: usize) {
        let membership = &mut self.memberships[at];
        let Some(mut store) = self.connection.store() else {
            return;
        };
        if membership.reading.is_some() {
            return;
        }
        membership.reading = Some(Instant::now());
        let (member, fleet) = (membership.id, membership.fleet());
        let names: Vec<String> = membership.about().lists.iter().cloned().collect();
        let read = async move {
            let lists = store.lists(&fleet, &names).await;
            (names, lists)
        };
        self.asked.push(read, move |agent, (names, lists)| {
            if let Some(at) = agent.at(member) {
                agent.take_lists(at, &names, lists);
            }
        });
    }

    fn take_lists(&mut self, at: usize, names: &[String], lists: Result<Lists, Error>) {
        let membership = &mut self.memberships[at];
        let begun = membership.reading.take();
        membership.read_took = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        match lists {
            Ok(lists) => {
                let wrong = membership.known.take(names, lists, Instant::now());
                wrong.iter().for_each(|text| (self.options.say)(text));
            }
            Err(error) => {
                self.connection.failed(&error);
                let why = format!(
                    "the store has the change, but this host could not read it back ({error}): it will be in force when the store answers"
                );
                membership.answer_waiting(&Err(why), Some(u64::MAX));
            }
        }
    }

    /// Puts the fleet's lists in force on the interfaces.
    pub(super) fn put_lists_in_force(&mut self) {
        let start = Instant::now();
        for membership in &mut self.memberships {
            let is_due = membership.force.is_due(start, membership.is_awaited());
            if !membership.known.is_pending || !is_due {
                continue;
            }
            membership.known.is_pending = false;
            membership.force.begin();
            let (member, revision) = (membership.id, membership.known.revision);
            let (wanted, left_out) = membership.known.wanted(&self.store_at);
            let edited = H::edit_lists(membership.about().interface.clone(), wanted);
            self.edits.push(edited, move |agent, (result, took)| {
                if let Some(at) = agent.at(member) {
                    agent.put_in_force(at, revision, &result, left_out, took);
                }
            });
        }
    }

    /// Notes that the lists of this revision are in force, or why not.
    fn put_in_force(
        &mut self,
        at: usize,
        revision: Option<u64>,
        result: &Result<bool, String>,
        left_out: Vec<IpNet>,
        took: Duration,
    ) {
        let membership = &mut self.memberships[at];
        // The interface has another program now.
        membership.is_outdated |= *result == Ok(true);
        // The cause of an error may be temporary.
        membership.known.is_pending |= result.is_err();
        let result = result.clone().map(drop);
        let took = took + membership.read_took;
        for text in membership.force.done(&result, left_out, took) {
            (self.options.say)(&membership.line(&text));
        }
        membership.answer_waiting(&result, revision);
    }

    /// Restores entries that the store has lost, if it is time.
    pub(super) fn restore_lists(&mut self, at: usize, now: Instant) {
        let membership = &mut self.memberships[at];
        let lost = membership.known.lost(now);
        let Some(mut store) = self.connection.store().filter(|_| !lost.is_empty()) else {
            return;
        };
        let (member, fleet) = (membership.id, membership.fleet());
        let restored = async move {
            let mut prefixes = 0;
            for (list, entries) in lost {
                let edit = Edit::Restore(entries);
                prefixes += store.edit(&fleet, &list, &edit).await?.prefixes;
            }
            Ok(prefixes)
        };
        self.asked
            .push(restored, move |agent, restored| match restored {
                Ok(prefixes) => agent.restored(member, prefixes),
                Err(error) => agent.connection.failed(&error),
            });
    }

    /// Notes that entries were restored. `prefixes`: the ones that no other host had restored before.
    fn restored(&mut self, member: u64, prefixes: u64) {
        let Some(at) = self.at(member) else {
            return;
        };
        let membership = &mut self.memberships[at];
        membership.known.restored();
        if prefixes > 0 {
            let (prefixes, fleet) = (counted(prefixes, "prefix"), membership.fleet());
            let back = format!("put {prefixes} back on the lists of fleet '{fleet}'");
            (self.options.say)(&membership.line(&back));
        }
    }
}
