//! Finds the attachments of this host that are members of a fleet.

use std::{
    mem,
    time::{Duration, Instant},
};

use super::{place::Place, run::Agent};
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
        let is_outdated = self.places.iter().any(|place| place.is_outdated);
        let is_due = self.seen.next.is_none_or(|next| now >= next);
        let Some(in_shards) = self.connection.in_shards.filter(|_| is_due || is_outdated) else {
            return;
        };
        self.seen.next = Some(now + EVERY);
        let Found { tables, errors } = self.host.attachments().await;
        let is_new = |text: &&String| !self.seen.unreadable.contains(text);
        let new = errors.iter().filter(is_new);
        new.for_each(|text| (self.options.say)(text));
        self.seen.unreadable = errors;
        let Some(tables) = tables else {
            return;
        };
        let mut before = mem::take(&mut self.places);
        let mut gone = Vec::new();
        for table in tables {
            let index = table.about().index;
            let same = |place: &Place<_>| place.about().index == index;
            if let Some(at) = before.iter().position(same) {
                let mut place = before.swap_remove(at);
                let (own, new) = (place.about(), table.about());
                if own.fleet == new.fleet && own.table == new.table {
                    place.refresh(table);
                    self.places.push(place);
                    continue;
                }
                // Another table or another fleet needs another member.
                gone.push(place);
            }
            let place = Place::new(table, in_shards, &self.options.host, now);
            let shares = format!("shares the limits of fleet '{}'", place.fleet());
            (self.options.say)(&place.line(&shares));
            self.places.push(place);
        }
        gone.append(&mut before);
        gone.into_iter().for_each(|place| self.take_leave_of(place));
        if self.places.is_empty() && !self.seen.is_waiting {
            (self.options.say)(
                "no interface here is in a fleet: waiting for one (`limiter attach IFACE --fleet NAME`, or fleet = \"NAME\" in its file)",
            );
        }
        self.seen.is_waiting = self.places.is_empty();
    }

    /// Reports that a member has gone, so that the others need not wait until they notice.
    fn take_leave_of(&self, gone: Place<H::Table>) {
        let (fleet, id) = (gone.fleet(), gone.id);
        let is_same = |place: &Place<_>| {
            let (about, gone) = (place.about(), gone.about());
            about.index == gone.index && about.fleet == gone.fleet
        };
        if !self.places.iter().any(is_same) {
            let line = gone.line(&format!("no longer in fleet '{fleet}'"));
            (self.options.say)(&line);
        }
        if let Some(mut store) = self.connection.store() {
            tokio::spawn(async move {
                // The other hosts notice in any case.
                let _ = store.leave(&fleet, id, &gone.label).await;
            });
        }
    }

    /// Reports that all members have gone.
    pub(super) async fn leave(self) {
        let Some(mut store) = self.connection.store() else {
            return;
        };
        for place in &self.places {
            let fleet = place.fleet();
            let left = store.leave(&fleet, place.id, &place.label);
            // The other hosts notice in any case.
            let _ = tokio::time::timeout(Duration::from_millis(500), left).await;
        }
    }
}
