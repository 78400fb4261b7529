//! Transports the lists of a fleet from the store to the interfaces.

use std::time::Instant;

use ipnet::IpNet;

use super::run::Agent;
use crate::{
    host::Host,
    store::{Error, Lists},
};

impl<H: Host + 'static> Agent<H> {
    pub(super) fn read_lists(&mut self, at: usize) {
        let membership = &mut self.memberships[at];
        let Some(mut store) = self.connection.store() else {
            return;
        };
        if std::mem::replace(&mut membership.is_reading, true) {
            return;
        }
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
        membership.is_reading = false;
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
        let now = Instant::now();
        for membership in &mut self.memberships {
            let is_awaited = membership.is_awaited();
            if !membership.known.is_pending || !membership.force.begin(now, is_awaited) {
                continue;
            }
            membership.known.is_pending = false;
            let (member, revision) = (membership.id, membership.known.revision);
            let (wanted, left_out) = membership.known.wanted(&self.store_at);
            let edited = H::edit_lists(membership.about().interface.clone(), wanted);
            self.edits.push(edited, move |agent, result| {
                if let Some(at) = agent.at(member) {
                    agent.put_in_force(at, revision, &result, left_out);
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
    ) {
        let membership = &mut self.memberships[at];
        // The interface has another program now.
        membership.is_outdated |= *result == Ok(true);
        // The cause of an error may be temporary.
        membership.known.is_pending |= result.is_err();
        let result = result.clone().map(drop);
        let lines = membership.force.done(&result, left_out, Instant::now());
        for text in lines {
            (self.options.say)(&membership.line(&text));
        }
        membership.answer_waiting(&result, revision);
    }
}
