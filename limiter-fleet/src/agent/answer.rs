//! Questions of other commands to the agent, and their answers.

use std::time::Instant;

use super::{
    membership::Membership,
    run::Agent,
    shared_lists::{Answer, reply},
};
use crate::{
    host::Host,
    question::{Question, Subject},
    status::Fleet,
};

impl<H: Host + 'static> Agent<H> {
    /// Answers a question, at once or when the answer is known.
    pub(super) fn answer(&mut self, question: Question, answer: Answer) {
        let Question { interface, about } = question;
        if matches!(about, Subject::Store) {
            return reply(answer, Ok(&self.store_at));
        }
        let is_of = |membership: &Membership<_>| membership.about().interface == interface;
        let Some(index) = self.memberships.iter().position(is_of) else {
            let unknown = format!(
                "the agent has not found {interface} in a fleet yet: try again in a second"
            );
            return reply::<()>(answer, Err(self.connection.why_or(&unknown)));
        };
        match about {
            Subject::Fleet => reply(answer, Ok(self.fleet(index))),
            Subject::Listed(list) => {
                let listed = self.memberships[index].lists.listed(&list, Instant::now());
                let unread = "the agent has not read the fleet's lists yet";
                reply(answer, listed.ok_or_else(|| self.connection.why_or(unread)));
            }
            Subject::Edit(list, edit) => self.edit(index, list, edit, answer),
            Subject::Store => {}
        }
    }

    fn fleet(&mut self, index: usize) -> Fleet {
        let (membership, now) = (&mut self.memberships[index], Instant::now());
        let staleness = membership.freshness.staleness(now);
        let late = membership.freshness.lateness(now);
        Fleet {
            name: membership.fleet(),
            agent: true,
            store: Some(self.connection.target.at.clone()),
            error: self.connection.why.clone(),
            hosts: membership.hosts,
            staleness_seconds: staleness.map(|staleness| staleness.as_secs_f64()),
            sources: membership.member.sources() as u64,
            limits: membership.shared(staleness, late),
            missing_limits: membership.conflicts.missing(),
            left_out: membership.lists.left_out.clone(),
        }
    }
}
