//! Which attachments of this host are in a fleet.

use std::{
    mem,
    time::{Duration, Instant},
};

use super::{attached::Attached, place::Place};
use crate::host::{Found, Host, Table};

/// How often they are looked for.
const EVERY: Duration = Duration::from_secs(1);

/// What was seen the last time.
pub struct Survey {
    /// When to look again.
    pub next: Instant,
    /// What was said about attachments that cannot be read.
    unreadable: Vec<String>,
    is_waiting: bool,
    say: fn(&str),
}

impl Survey {
    /// Nothing was seen yet.
    pub fn new(say: fn(&str)) -> Self {
        Self {
            next: Instant::now(),
            unreadable: Vec::new(),
            is_waiting: false,
            say,
        }
    }

    /// Brings `places` up to date: members of `host` that are attached now. Returns those that are no more.
    pub async fn look<H: Host>(
        &mut self,
        host: &mut H,
        places: &mut Vec<Place<H::Table>>,
        in_shards: bool,
        name: &str,
    ) -> Vec<Place<H::Table>> {
        let now = Instant::now();
        self.next = now + EVERY;
        let Found { tables, errors } = host.attachments().await;
        self.say_new(errors);
        let Some(tables) = tables else {
            return Vec::new();
        };
        let mut gone = Vec::new();
        let mut before = mem::take(places);
        for table in tables {
            let about = table.about();
            let same = |place: &Place<_>| place.attached.about().index == about.index;
            if let Some(at) = before.iter().position(same) {
                let mut place = before.swap_remove(at);
                if place.attached.is_of(&table) {
                    place.follow(table);
                    places.push(place);
                    continue;
                }
                // Another table, or another fleet: another member.
                gone.push(place);
            }
            (self.say)(&format!(
                "{}: shares the limits of fleet '{}'",
                about.interface, about.fleet
            ));
            places.push(Place::new(Attached::new(table, in_shards), name, now));
        }
        gone.append(&mut before);
        self.say_gone(&gone, places);
        gone
    }

    fn say_gone<T: Table>(&mut self, gone: &[Place<T>], places: &[Place<T>]) {
        for gone in gone.iter().map(|place| place.attached.about()) {
            let is_same = |place: &Place<T>| {
                let about = place.attached.about();
                about.index == gone.index && about.fleet == gone.fleet
            };
            if !places.iter().any(is_same) {
                (self.say)(&format!(
                    "{}: no longer in fleet '{}'",
                    gone.interface, gone.fleet
                ));
            }
        }
        if places.is_empty() && !self.is_waiting {
            (self.say)(
                "no interface here is in a fleet: waits for one (`limiter attach IFACE --fleet NAME`, or fleet = \"NAME\" in its file)",
            );
        }
        self.is_waiting = places.is_empty();
    }

    fn say_new(&mut self, errors: Vec<String>) {
        let new = errors
            .iter()
            .filter(|&text| !self.unreadable.contains(text));
        new.for_each(|text| (self.say)(text));
        self.unreadable = errors;
    }
}
