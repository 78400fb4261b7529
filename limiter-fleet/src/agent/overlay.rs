//! Transports the lists of a fleet: from the store to the interfaces, and lost entries back to the store.

use std::time::{Duration, Instant};

use super::run::Agent;
use crate::{
    host::{Host, Refused},
    store::{Edit, Error, Lists},
    text::counted,
};

impl<H: Host + 'static> Agent<H> {
    pub(super) fn read_lists(&mut self, at: usize) {
        let place = &mut self.places[at];
        let Some(mut store) = self.connection.store() else {
            return;
        };
        if place.reading.is_some() {
            return;
        }
        place.reading = Some(Instant::now());
        let (member, fleet) = (place.id, place.fleet());
        let names: Vec<String> = place.about().lists.iter().cloned().collect();
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
        let place = &mut self.places[at];
        let begun = place.reading.take();
        place.read_took = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        match lists {
            Ok(lists) => {
                let wrong = place.known.take(names, lists, Instant::now());
                wrong.iter().for_each(|text| (self.options.say)(text));
            }
            Err(error) => {
                self.connection.failed(&error);
                let why = format!(
                    "the store has the change, but this host could not read it back ({error}): it will be in force when the store answers"
                );
                place.answer_waiting(&Err(why), true);
            }
        }
    }

    /// Puts the fleet's lists in force on the interfaces.
    pub(super) async fn put_lists_in_force(&mut self) {
        for place in &mut self.places {
            let start = Instant::now();
            let is_due = place.force.is_due(start, place.is_awaited());
            if !place.known.is_pending || !is_due {
                continue;
            }
            place.known.is_pending = false;
            let (wanted, left_out) = place.known.wanted(&self.store_at);
            let interface = &place.about().interface;
            let result = self.host.edit_lists(interface, wanted).await;
            if matches!(result, Err(Refused::Busy)) && place.force.waits(start) {
                place.known.is_pending = true;
                continue;
            }
            let took = start.elapsed() + place.read_took;
            // The interface has another program now.
            place.is_outdated |= matches!(result, Ok(true));
            let result = result.map(drop).map_err(|refused| match refused {
                Refused::Busy => "another limiter command is changing the interface".to_owned(),
                Refused::Failed(why) => why,
            });
            // The cause may be temporary.
            place.known.is_pending |= result.is_err();
            for text in place.force.done(&result, left_out, took) {
                (self.options.say)(&place.line(&text));
            }
            place.answer_waiting(&result, false);
        }
    }

    /// Restores entries that the store has lost, if it is time.
    pub(super) fn restore_lists(&mut self, at: usize, now: Instant) {
        let place = &mut self.places[at];
        let lost = place.known.lost(now);
        let Some(mut store) = self.connection.store().filter(|_| !lost.is_empty()) else {
            return;
        };
        let (member, fleet) = (place.id, place.fleet());
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
        let place = &mut self.places[at];
        place.known.restored();
        if prefixes > 0 {
            let (prefixes, fleet) = (counted(prefixes, "prefix"), place.fleet());
            let back = format!("put {prefixes} back on the lists of fleet '{fleet}'");
            (self.options.say)(&place.line(&back));
        }
    }
}
