//! The lists of a fleet on their way: from the store to the interfaces, and what is lost back to the store.

use std::time::{Duration, Instant};

use ipnet::IpNet;

use super::run::Agent;
use crate::{
    host::{DENY, Host, Refused},
    store::{Edit, Error, Lists},
    text::{counted, show},
};

/// Putting lists in force: not more often than it is worth, whatever the store says.
#[derive(Debug)]
pub struct Force {
    rested: Instant,
    /// Since when another command has been in the way.
    busy: Option<Instant>,
    /// What was said of the last time.
    error: Option<String>,
    left_out: Vec<IpNet>,
}

impl Force {
    /// How long until what has failed is tried again.
    const AGAIN: Duration = Duration::from_secs(5);
    /// How long until it is tried again while another command is at work, and for how long that is nothing to be said.
    const BUSY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(8));
    /// What takes no longer than this is done as often as there is something to do.
    const SHORT: Duration = Duration::from_millis(250);

    /// Nothing has been done yet.
    pub fn new(now: Instant) -> Self {
        Self {
            rested: now,
            busy: None,
            error: None,
            left_out: Vec::new(),
        }
    }

    /// Whether it is time for more, where nobody waits.
    pub fn is_rested(&self, now: Instant) -> bool {
        now >= self.rested
    }

    /// The same, where somebody may wait: then only another command is in the way.
    pub fn is_due(&self, now: Instant, is_awaited: bool) -> bool {
        self.is_rested(now) || (is_awaited && self.busy.is_none())
    }

    /// Whether it may wait for another command to be done: the exchange goes on meanwhile.
    pub fn waits(&mut self, now: Instant) -> bool {
        let (again, patience) = Self::BUSY;
        self.rested = now + again;
        now.saturating_duration_since(*self.busy.get_or_insert(now)) < patience
    }

    /// It was tried. Returns what is to be said.
    pub fn done(
        &mut self,
        result: &Result<(), String>,
        left_out: Vec<IpNet>,
        took: Duration,
    ) -> Vec<String> {
        let mut said = Vec::new();
        // Half of the time at most goes into long lists that change all the time.
        let mut rest = (2 * took).saturating_sub(Self::SHORT);
        let error = result.as_ref().err();
        if let Some(error) = error {
            rest = rest.max(Self::AGAIN);
            if self.error.as_ref() != Some(error) {
                said.push(format!("the fleet's lists are not in force: {error}"));
            }
        }
        self.error = error.cloned();
        self.busy = None;
        self.rested = Instant::now() + rest;
        if let Some(first) = left_out.first().filter(|_| self.left_out != left_out) {
            let more = match left_out.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            said.push(format!(
                "{}{more} on the fleet's {DENY} is not in force here: the store's own address is in it, and this host would not hear that it is taken off again",
                show(first)
            ));
        }
        self.left_out = left_out;
        said
    }
}

impl<H: Host + 'static> Agent<H> {
    /// Reads the lists of a member's fleet.
    pub(super) fn read_lists(&mut self, at: usize) {
        let place = &mut self.places[at];
        let Some(mut store) = self.connection.store() else {
            return;
        };
        if place.reading.is_some() {
            return;
        }
        place.reading = Some(Instant::now());
        let (member, fleet) = (place.attached.id, place.fleet());
        let names: Vec<String> = place.attached.about().lists.iter().cloned().collect();
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
                    "the store has it, and this host could not read it back yet ({error}): it will be in force when the store answers"
                );
                place.answer_waiting(&Err(why), true);
            }
        }
    }

    /// Brings what the fleet wants on the lists to the interfaces.
    pub(super) async fn put_lists_in_force(&mut self) {
        for place in &mut self.places {
            let start = Instant::now();
            let is_due = place.force.is_due(start, place.is_awaited());
            if !place.known.is_pending || !is_due {
                continue;
            }
            place.known.is_pending = false;
            let (wanted, left_out) = place.known.wanted(&self.store_at);
            let interface = &place.attached.about().interface;
            let result = self.host.edit_lists(interface, wanted).await;
            if matches!(result, Err(Refused::Busy)) && place.force.waits(start) {
                place.known.is_pending = true;
                continue;
            }
            let took = start.elapsed() + place.read_took;
            // The program is another one now.
            place.attached.is_outdated |= matches!(result, Ok(true));
            let result = result.map(drop).map_err(|refused| match refused {
                Refused::Busy => "another limiter command is at work".to_owned(),
                Refused::Failed(why) => why,
            });
            // Something else may be in the way for a moment.
            place.known.is_pending |= result.is_err();
            for text in place.force.done(&result, left_out, took) {
                (self.options.say)(&place.line(&text));
            }
            place.answer_waiting(&result, false);
        }
    }

    /// Puts back what the store has lost, where it is time for that.
    pub(super) fn restore_lists(&mut self, at: usize, now: Instant) {
        let place = &mut self.places[at];
        let lost = place.known.to_restore(now);
        let Some(mut store) = self.connection.store().filter(|_| !lost.is_empty()) else {
            return;
        };
        let (member, fleet) = (place.attached.id, place.fleet());
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

    /// Prefixes were put back that nobody had put back before.
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

    /// Takes what is over out of the store, where it is this host's turn.
    pub(super) fn clear_lists(&mut self, at: usize, now: Instant) {
        let place = &mut self.places[at];
        for list in place.clearing.due(now) {
            if let Some(mut store) = self.connection.store() {
                let fleet = place.fleet();
                tokio::spawn(async move {
                    // Another one does it if this one cannot.
                    let _ = store.edit(&fleet, &list, &Edit::ClearExpired).await;
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_command_is_waited_for() {
        let now = Instant::now();
        let mut force = Force::new(now);
        assert!(force.waits(now));
        assert!(!force.is_rested(now));
        assert!(force.is_rested(now + Duration::from_millis(50)));
        assert!(force.waits(now + Duration::from_secs(7)));
        assert!(!force.waits(now + Duration::from_secs(8)));
        force.done(&Ok(()), Vec::new(), Duration::ZERO);
        assert!(force.waits(now + Duration::from_secs(60)));
    }

    #[test]
    fn what_takes_long_is_not_done_all_the_time() {
        let now = Instant::now();
        let mut force = Force::new(now);
        assert!(force.is_rested(now));
        assert_eq!(
            force.done(&Ok(()), Vec::new(), Duration::from_millis(100)),
            [""; 0]
        );
        assert!(force.is_rested(Instant::now()));
        let store = vec!["0.0.0.0/0".parse().unwrap()];
        let said = force.done(&Ok(()), store.clone(), Duration::from_secs(60));
        assert!(said[0].contains("0.0.0.0/0"), "{said:?}");
        assert!(!force.is_rested(Instant::now() + Duration::from_secs(60)));
        let failed = Err("no".to_owned());
        assert_eq!(force.done(&failed, store.clone(), Duration::ZERO).len(), 1);
        assert_eq!(force.done(&failed, store, Duration::ZERO), [""; 0]);
        assert!(!force.is_rested(Instant::now()));
    }
}
