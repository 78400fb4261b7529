//! What others ask, and what they are told.

use std::{net::IpAddr, time::Instant};

use super::{
    attached::Attached,
    lists::cuts_off,
    place::{Waiting, printable},
    question::{Answer, Edit, Question, reply},
    run::Agent,
};
use crate::{
    host::{Host, Table},
    status::Fleet,
    store::{self, Error},
    text::show,
};

/// An edit that the store has taken, or not.
pub struct Edited {
    member: u64,
    result: Result<u64, Error>,
    /// Whether more is to come: then nobody waits until this is in force.
    is_part: bool,
    answer: Answer,
}

/// Whether the fleet's list can be changed so.
fn may_edit(
    attached: &Attached<impl Table>,
    list: &str,
    edit: &Edit,
    store_at: &[IpAddr],
) -> Result<(), String> {
    if !attached.about().lists.contains(list) {
        return Err(format!(
            "fleet '{}' does not share the list '{list}' on {}",
            attached.about().fleet,
            attached.about().interface
        ));
    }
    let Edit::Add { prefixes, .. } = edit else {
        return Ok(());
    };
    let in_the_way = prefixes
        .iter()
        .find(|prefix| cuts_off(list, prefix, store_at));
    in_the_way.map_or(Ok(()), |prefix| {
        Err(format!(
            "the store's own address is in {}, and no host would hear that it is taken off again; nothing was changed: deny smaller prefixes, without that address",
            show(prefix)
        ))
    })
}

impl<H: Host> Agent<H> {
    /// Answers a question, now or when it is known.
    pub fn answer(&mut self, question: Question, answer: Answer) {
        let (Question::Fleet(interface)
        | Question::Listed { interface, .. }
        | Question::Edit { interface, .. }) = &question;
        let interval = self.options.interval;
        let at = self.connection.at().to_owned();
        let trouble = self.connection.why();
        let store = self.connection.store();
        let by = printable(&self.options.host);
        let edits = self.edits.clone();
        let found = self
            .places
            .iter_mut()
            .find(|place| place.attached.about().interface == *interface);
        let Some(place) = found else {
            let why = trouble.unwrap_or_else(|| {
                format!("the agent has not found {interface} in a fleet yet: ask again in a second")
            });
            return reply::<()>(answer, Err(why));
        };
        match question {
            Question::Fleet(_) => {
                let now = Instant::now();
                let (staleness, late) = (
                    place.staleness(interval, now),
                    place.lateness(interval, now),
                );
                let conflicts = &place.compared.conflicts;
                reply(
                    answer,
                    Ok(Fleet {
                        name: place.attached.about().fleet.clone(),
                        agent: true,
                        store: Some(at),
                        error: trouble,
                        hosts: place.attached.hosts,
                        staleness_seconds: staleness.map(|staleness| staleness.as_secs_f64()),
                        sources: place.attached.sources() as u64,
                        limits: place.attached.shared(staleness, late, conflicts),
                        missing_limits: conflicts.missing.iter().cloned().collect(),
                    }),
                );
            }
            Question::Listed { list, .. } => {
                let listed = place.known.listed(&list, Instant::now());
                let unread = || "the agent has not read the fleet's lists yet".to_owned();
                reply(answer, listed.ok_or_else(|| trouble.unwrap_or_else(unread)));
            }
            Question::Edit {
                list,
                edit,
                is_part,
                ..
            } => {
                if let Err(why) = may_edit(&place.attached, &list, &edit, &self.store_at) {
                    return reply::<()>(answer, Err(why));
                }
                let Some(mut store) = store else {
                    let why =
                        trouble.unwrap_or_else(|| "the store is not connected yet".to_owned());
                    return reply::<()>(answer, Err(format!("{why}; nothing was changed")));
                };
                let (member, fleet) = (place.attached.id, place.attached.about().fleet.clone());
                tokio::spawn(async move {
                    let edit = match &edit {
                        Edit::Add { prefixes, lasts } => store::Edit::Add {
                            prefixes,
                            by: &by,
                            lasts: *lasts,
                        },
                        Edit::Remove(prefixes) => store::Edit::Remove(prefixes),
                    };
                    let result = store.edit(&fleet, &list, edit).await;
                    // The loop is gone only with the process.
                    let _ = edits.send(Edited {
                        member,
                        result,
                        is_part,
                        answer,
                    });
                });
            }
        }
    }

    /// The store has answered to a change of lists.
    pub fn take_edit(&mut self, edited: Edited) {
        let Edited {
            member,
            result,
            is_part,
            answer,
        } = edited;
        let changed = match result {
            Err(error) => return reply::<()>(answer, Err(error.to_string())),
            Ok(changed) if is_part => return reply(answer, Ok(changed)),
            Ok(changed) => changed,
        };
        // One that is under way may not have it yet.
        self.read_lists(member);
        let is_read = self.connection.store().is_some();
        match self.place(member) {
            Some(place) if is_read => place.waiting.push(Waiting {
                reading: place.reading.begun,
                changed,
                answer,
            }),
            _ => {
                let why = "the store has it; it is in force here as soon as the store answers this host again";
                reply::<()>(answer, Err(why.to_owned()));
            }
        }
    }
}
