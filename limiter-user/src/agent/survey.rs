//! Which attachments of this network namespace are in a fleet.

use std::{
    mem,
    time::{Duration, Instant},
};

use super::{attached::Attached, place::Place};
use crate::kernel::Attachment;

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
    pub async fn look(
        &mut self,
        places: &mut Vec<Place>,
        in_shards: bool,
        host: &str,
    ) -> Vec<Place> {
        let now = Instant::now();
        self.next = now + EVERY;
        // Nothing is known: all stay what they are.
        let Some(attachments) = self.attachments().await else {
            return Vec::new();
        };
        let mut gone = Vec::new();
        let mut before = mem::take(places);
        for attachment in attachments {
            let index = attachment.interface.index;
            let same = |place: &Place| place.attached.index == index;
            if let Some(at) = before.iter().position(same) {
                let mut place = before.swap_remove(at);
                match place.follow(&attachment) {
                    Ok(true) => {
                        places.push(place);
                        continue;
                    }
                    // Another table, or another fleet: another member.
                    Ok(false) => gone.push(place),
                    Err(error) => {
                        (self.say)(&error.to_string());
                        gone.push(place);
                    }
                }
            }
            match Attached::new(attachment, in_shards) {
                Ok(Some(attached)) => {
                    (self.say)(&format!(
                        "{}: shares the limits of fleet '{}'",
                        attached.interface, attached.fleet
                    ));
                    places.push(Place::new(attached, host, now));
                }
                Ok(None) => {}
                Err(error) => (self.say)(&error.to_string()),
            }
        }
        gone.append(&mut before);
        let is_same = |one: &Place, other: &Place| {
            one.attached.index == other.attached.index && one.attached.fleet == other.attached.fleet
        };
        for gone in gone
            .iter()
            .filter(|gone| !places.iter().any(|place| is_same(place, gone)))
        {
            (self.say)(&format!(
                "{}: no longer in fleet '{}'",
                gone.attached.interface, gone.attached.fleet
            ));
        }
        if places.is_empty() && !self.is_waiting {
            (self.say)(
                "no interface here is in a fleet: waits for one (`limiter attach IFACE --fleet NAME`, or fleet = \"NAME\" in its file)",
            );
        }
        self.is_waiting = places.is_empty();
        gone
    }

    async fn attachments(&mut self) -> Option<Vec<Attachment>> {
        let (attachments, errors) = match Attachment::all().await {
            Ok((attachments, errors)) => (Some(attachments), errors),
            Err(error) => (None, vec![error]),
        };
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let new = errors
            .iter()
            .filter(|&text| !self.unreadable.contains(text));
        new.for_each(|text| (self.say)(text));
        self.unreadable = errors;
        attachments
    }
}
