//! Transports the lists of a fleet from the commands to the store, and from the store to the interfaces.

use std::time::Instant;

use super::{
    membership::Membership,
    run::Agent,
    shared_lists::{Answer, Held, Lost, Waiting, Wanted, cuts_off, reply},
};
use crate::{
    host::{BANS, Edited, Host},
    status::show,
    store::{Edit, Error, Lists},
};

impl<H: Host + 'static> Agent<H> {
    pub(super) fn edit(&mut self, index: usize, list: String, edit: Edit, answer: Answer) {
        let membership = &self.memberships[index];
        if let Err(why) = self.may_edit(membership, &list, &edit) {
            return reply::<()>(answer, Err(why));
        }
        let store = self.connection.store.clone();
        let Some(mut store) = store.filter(|_| membership.lists.may_change(Instant::now())) else {
            let lists = &mut self.memberships[index].lists;
            return lists.held.push(Held { list, edit, answer });
        };
        let (member, fleet) = (membership.id, membership.fleet());
        let born = membership.lists.known_birth();
        let host = self.options.host.clone();
        let is_ban = list == BANS;
        let edited = async move { store.edit(&fleet, &list, &host, born, &edit).await };
        self.edits
            .push(edited, move |agent, changed| match changed {
                // The store may still have the request, or have lost its answer only.
                Err(error) if error.leaves_open() => {
                    let why = format!(
                        "{error}; the change may still come into force on all hosts: look at the list before you repeat it"
                    );
                    reply::<()>(answer, Err(why));
                }
                Err(error) => reply::<()>(answer, Err(error.to_string())),
                Ok(changed) => {
                    let waiting = Waiting {
                        changed,
                        is_ban,
                        answer,
                    };
                    agent.edited(member, waiting);
                }
            });
    }

    /// Sends the changes that waited until the lists were read, and refuses them without a store. Those of commands that
    /// have given up are dropped.
    pub(super) fn send_held(&mut self) {
        for index in 0..self.memberships.len() {
            let lists = &mut self.memberships[index].lists;
            lists.held.retain(|held| !held.answer.is_closed());
            if self.connection.store.is_some() && !lists.may_change(Instant::now()) {
                continue;
            }
            for Held { list, edit, answer } in std::mem::take(&mut lists.held) {
                if self.connection.store.is_some() {
                    self.edit(index, list, edit, answer);
                    continue;
                }
                let why = self.connection.why_or("the store is not connected yet");
                let here = match list == BANS {
                    true => ": to ban or unban on this host alone, add --origin NAME",
                    false => "",
                };
                reply::<()>(answer, Err(format!("{why}; nothing was changed{here}")));
            }
        }
    }

    fn may_edit(
        &self,
        membership: &Membership<H::Table>,
        list: &str,
        edit: &Edit,
    ) -> Result<(), String> {
        let about = membership.about();
        if !about.lists.contains(list) {
            return Err(format!(
                "fleet '{}' does not share the list '{list}' on {}",
                about.fleet, about.interface
            ));
        }
        let Edit::Add { prefixes, .. } = edit else {
            return Ok(());
        };
        let mut prefixes = prefixes.iter();
        match prefixes.find(|prefix| cuts_off(list, prefix, &self.store_at)) {
            None => Ok(()),
            Some(prefix) => Err(format!(
                "{} contains the store's own address, so no host would hear of its removal; nothing was changed: use smaller prefixes without that address",
                show(prefix)
            )),
        }
    }

    /// Notes that the store has taken a change of lists. The asking command waits until the change is in force.
    fn edited(&mut self, member: u64, waiting: Waiting) {
        let Some(index) = self.index_of(member) else {
            return;
        };
        let lists = &mut self.memberships[index].lists;
        lists.waiting.push(waiting);
        if lists.awaits_reading() {
            self.read_lists(index);
        } else {
            lists.is_pending = true;
        }
    }

    pub(super) fn read_lists(&mut self, index: usize) {
        let membership = &mut self.memberships[index];
        let Some(mut store) = self.connection.store.clone() else {
            return;
        };
        if std::mem::replace(&mut membership.lists.is_reading, true) {
            return;
        }
        let (member, fleet) = (membership.id, membership.fleet());
        let names: Vec<String> = membership.about().lists.iter().cloned().collect();
        let read = async move {
            let lists = store.lists(&fleet, &names).await;
            (names, lists)
        };
        self.requests.push(read, move |agent, (names, lists)| {
            if let Some(index) = agent.index_of(member) {
                agent.take_lists(index, &names, lists);
            }
        });
    }

    fn take_lists(&mut self, index: usize, names: &[String], read: Result<Lists, Error>) {
        let membership = &mut self.memberships[index];
        let shared = membership.about().lists.clone();
        let lists = &mut membership.lists;
        lists.is_reading = false;
        match read {
            Ok(read) => {
                let wrong = lists.take(names, read, &shared);
                wrong.iter().for_each(|text| (self.options.say)(text));
                self.restore(index);
            }
            Err(error) => {
                let why = format!(
                    "this host could not read it back ({error}); it will be when the store answers"
                );
                lists.answer_waiting(&[Err(why.clone()), Err(why)], u64::MAX);
                self.connection.failed(&error);
            }
        }
    }

    /// Puts the entries back that the store has lost, as this agent knows them.
    fn restore(&mut self, index: usize) {
        let membership = &mut self.memberships[index];
        let (member, fleet) = (membership.id, membership.fleet());
        let store = self.connection.store.clone();
        let (Some(mut store), Some(lost)) = (store, &mut membership.lists.lost) else {
            return;
        };
        lost.tried = Some(Instant::now());
        let Lost { known, entries, .. } = lost;
        if *known == 0 {
            return;
        }
        let (known, entries) = (*known, std::mem::take(entries));
        let restored = async move { store.restore(&fleet, known, &entries).await };
        self.requests.push(restored, move |agent, restored| {
            let Some(index) = agent.index_of(member) else {
                return;
            };
            match restored {
                Err(error @ Error::At(..)) => return agent.connection.failed(&error),
                // Another attempt would fail too.
                Err(error) => (agent.options.say)(&error.to_string()),
                Ok(()) => {}
            }
            agent.memberships[index].lists.lost = None;
            agent.read_lists(index);
        });
    }

    pub(super) fn put_lists_in_force(&mut self) {
        let now = Instant::now();
        for membership in &mut self.memberships {
            if !membership.lists.begin(now) {
                continue;
            }
            let (member, revision) = (membership.id, membership.lists.revision);
            let Wanted {
                lists,
                bans,
                left_out,
            } = membership.lists.wanted(&self.store_at);
            let edited = H::edit_lists(membership.about().interface.clone(), lists, bans);
            self.edits.push(edited, move |agent, result| {
                if let Some(index) = agent.index_of(member) {
                    agent.put_in_force(index, revision, result, left_out);
                }
            });
        }
    }

    fn put_in_force(
        &mut self,
        index: usize,
        revision: u64,
        edited: Edited,
        left_out: Option<String>,
    ) {
        let membership = &mut self.memberships[index];
        // The interface has another program now.
        membership.is_outdated |= edited.lists == Ok(true);
        let not_here = edited.bans.clone().ok().flatten();
        let (results, now) = (
            [edited.lists.map(drop), edited.bans.map(drop)],
            Instant::now(),
        );
        let left_out = [left_out, not_here].into_iter().flatten().collect();
        let lines = membership.lists.done(&results, revision, left_out, now);
        for text in lines {
            (self.options.say)(&membership.line(&text));
        }
    }
}
