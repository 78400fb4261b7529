//! Answers the questions of other commands.

use std::{net::IpAddr, time::Instant};

use super::{
    lists::cuts_off,
    membership::{Membership, Waiting, printable},
    question::{Answer, Question, Subject, reply},
    run::Agent,
};
use crate::{
    host::{Host, Table},
    status::Fleet,
    store::Edit,
    text::show,
};

/// Checks that this change of the fleet's list is allowed.
fn may_edit(
    membership: &Membership<impl Table>,
    list: &str,
    edit: &Edit,
    store_at: &[IpAddr],
) -> Result<(), String> {
    if !membership.about().lists.contains(list) {
        return Err(format!(
            "fleet '{}' does not share the list '{list}' on {}",
            membership.about().fleet,
            membership.about().interface
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
            "{} contains the store's own address, so no host would hear of its removal; nothing was changed: deny smaller prefixes without that address",
            show(prefix)
        ))
    })
}

impl<H: Host + 'static> Agent<H> {
    /// Answers a question, at once or when the answer is known.
    pub fn answer(&mut self, question: Question, answer: Answer) {
        let Question { interface, about } = question;
        let is_of = |membership: &Membership<_>| membership.about().interface == interface;
        let Some(at) = self.memberships.iter().position(is_of) else {
            let unknown = format!(
                "the agent has not found {interface} in a fleet yet: try again in a second"
            );
            return reply::<()>(answer, Err(self.connection.why_or(&unknown)));
        };
        match about {
            Subject::Fleet => reply(answer, Ok(self.fleet(at))),
            Subject::Listed(list) => {
                let listed = self.memberships[at].known.listed(&list, Instant::now());
                let unread = "the agent has not read the fleet's lists yet";
                reply(answer, listed.ok_or_else(|| self.connection.why_or(unread)));
            }
            Subject::Edit(list, edit) => self.edit(at, list, edit, answer),
        }
    }

    fn fleet(&mut self, at: usize) -> Fleet {
        let membership = &mut self.memberships[at];
        let (interval, now) = (self.options.interval, Instant::now());
        let staleness = membership.freshness.staleness(interval, now);
        let late = membership.freshness.lateness(interval, now);
        Fleet {
            name: membership.fleet(),
            agent: true,
            store: Some(self.connection.at()),
            error: self.connection.why(),
            hosts: membership.hosts,
            staleness_seconds: staleness.map(|staleness| staleness.as_secs_f64()),
            sources: membership.sources() as u64,
            limits: membership.shared(staleness, late),
            missing_limits: membership.conflicts.missing(),
        }
    }

    fn edit(&mut self, at: usize, list: String, edit: Edit, answer: Answer) {
        let membership = &self.memberships[at];
        if let Err(why) = may_edit(membership, &list, &edit, &self.store_at) {
            return reply::<()>(answer, Err(why));
        }
        let Some(mut store) = self.connection.store() else {
            let why = self.connection.why_or("the store is not connected yet");
            return reply::<()>(answer, Err(format!("{why}; nothing was changed")));
        };
        let (member, fleet) = (membership.id, membership.fleet());
        let by = printable(&self.options.host);
        let edited = async move { store.edit(&fleet, &list, &by, &edit).await };
        self.edits
            .push(edited, move |agent, changed| match changed {
                Err(error) => reply::<()>(answer, Err(error.to_string())),
                Ok(changed) => agent.edited(member, Waiting { changed, answer }),
            });
    }

    /// Notes that the store has taken a change of lists. The asking command waits until the change is in force.
    fn edited(&mut self, member: u64, waiting: Waiting) {
        match self.at(member) {
            Some(at) if self.connection.store().is_some() => {
                self.memberships[at].waiting.push(waiting);
                if self.memberships[at].awaits_reading() {
                    self.read_lists(at);
                } else {
                    self.memberships[at].known.is_pending = true;
                }
            }
            _ => {
                let why = "the store has the change; it is in force here as soon as the store answers this host again";
                reply::<()>(waiting.answer, Err(why.to_owned()));
            }
        }
    }
}
