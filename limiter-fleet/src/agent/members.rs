//! Finds the attachments of this host that are members of a fleet.

use std::{
    mem,
    time::{Duration, Instant},
};

use super::{membership::Membership, run::Agent};
use crate::host::{Host, Table};

/// Time between two searches.
const EVERY: Duration = Duration::from_secs(1);

const NONE: &str = "no interface here is in a fleet: waiting for one (`limiter attach IFACE --fleet NAME`, or fleet = \"NAME\" in its file)";

impl<H: Host + 'static> Agent<H> {
    /// Updates the members if it is time, even while the store is away. Attachments that are made meanwhile are
    /// tracked from then on.
    pub(super) async fn find_members(&mut self, now: Instant) {
        let mut memberships = self.memberships.iter();
        let is_outdated = memberships.any(|membership| membership.is_outdated);
        if now < self.next_search && !is_outdated {
            return;
        }
        self.next_search = now + EVERY;
        let (tables, mut notes) = match self.host.attachments().await {
            Ok(found) => (Some(found.tables), found.errors),
            Err(error) => (None, vec![error]),
        };
        if tables.as_ref().is_some_and(Vec::is_empty) {
            notes.push(NONE.to_owned());
        }
        let new = notes.iter().filter(|text| !self.notes.contains(text));
        new.for_each(|text| (self.options.say)(text));
        self.notes = notes;
        if let Some(tables) = tables {
            self.set_members(tables, now);
        }
    }

    fn set_members(&mut self, tables: Vec<H::Table>, now: Instant) {
        let mut before = mem::take(&mut self.memberships);
        for table in tables {
            let about = table.about();
            let own = |membership: &Membership<_>| {
                let known = membership.about();
                known.index == about.index
                    && known.table == about.table
                    && known.fleet == about.fleet
            };
            if let Some(index) = before.iter().position(own) {
                let mut membership = before.swap_remove(index);
                membership.refresh(table);
                self.memberships.push(membership);
                continue;
            }
            let new = Membership::new(table, &self.options, now);
            let shares = format!("shares the limits of fleet '{}'", new.fleet());
            (self.options.say)(&new.line(&shares));
            self.memberships.push(new);
        }
        // The other hosts notice when a member is silent.
        for gone in before {
            let about = gone.about();
            let mut here = self.memberships.iter().map(Membership::about);
            let is_here = here.any(|here| here.index == about.index && here.fleet == about.fleet);
            if !is_here {
                let line = format!("no longer in fleet '{}'", about.fleet);
                (self.options.say)(&gone.line(&line));
            }
        }
    }
}
