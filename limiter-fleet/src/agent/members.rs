//! Finds the attachments of this host that are members of a fleet.

use std::{
    mem,
    time::{Duration, Instant},
};

use super::{membership::Membership, run::Agent};
use crate::host::{Found, Host, Table};

const EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Seen {
    pub next: Option<Instant>,
    /// Errors already reported about attachments that cannot be read.
    unreadable: Vec<String>,
    is_waiting: bool,
}

impl<H: Host + 'static> Agent<H> {
    /// Updates the members if it is time, even while the store is away. Attachments that are made meanwhile are
    /// tracked from then on.
    pub(super) async fn find_members(&mut self, now: Instant) {
        let is_outdated = self
            .memberships
            .iter()
            .any(|membership| membership.is_outdated);
        let is_due = self.seen.next.is_none_or(|next| now >= next);
        if !is_due && !is_outdated {
            return;
        }
        self.seen.next = Some(now + EVERY);
        let Found { tables, errors } = self.host.attachments().await;
        let is_new = |text: &&String| !self.seen.unreadable.contains(text);
        let new = errors.iter().filter(is_new);
        new.for_each(|text| (self.options.say)(text));
        self.seen.unreadable = errors;
        let Some(tables) = tables else {
            return;
        };
        let mut before = mem::take(&mut self.memberships);
        let mut gone = Vec::new();
        for table in tables {
            let index = table.about().index;
            let same = |membership: &Membership<_>| membership.about().index == index;
            if let Some(at) = before.iter().position(same) {
                let mut membership = before.swap_remove(at);
                let (own, new) = (membership.about(), table.about());
                if own.fleet == new.fleet && own.table == new.table {
                    membership.refresh(table);
                    self.memberships.push(membership);
                    continue;
                }
                // Another table or another fleet needs another member.
                gone.push(membership);
            }
            let membership = Membership::new(table, &self.options.host, now);
            let shares = format!("shares the limits of fleet '{}'", membership.fleet());
            (self.options.say)(&membership.line(&shares));
            self.memberships.push(membership);
        }
        gone.append(&mut before);
        gone.iter().for_each(|gone| self.take_leave_of(gone));
        if self.memberships.is_empty() && !self.seen.is_waiting {
            (self.options.say)(
                "no interface here is in a fleet: waiting for one (`limiter attach IFACE --fleet NAME`, or fleet = \"NAME\" in its file)",
            );
        }
        self.seen.is_waiting = self.memberships.is_empty();
    }

    /// Reports that an interface is no longer in a fleet. The other hosts notice when the member is silent.
    fn take_leave_of(&self, gone: &Membership<H::Table>) {
        let is_same = |membership: &Membership<_>| {
            let (about, gone) = (membership.about(), gone.about());
            about.index == gone.index && about.fleet == gone.fleet
        };
        if !self.memberships.iter().any(is_same) {
            let line = format!("no longer in fleet '{}'", gone.fleet());
            (self.options.say)(&gone.line(&line));
        }
    }
}
