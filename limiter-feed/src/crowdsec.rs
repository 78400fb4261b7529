//! The local API of CrowdSec as a source.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use ipnet::IpNet;

use crate::{
    parse::{self, Decided, Decisions},
    source::{All, Failed, Fetched, Source, Wanted, WantedBan},
    unconfirmed::CONFIRMED,
};

/// CrowdSec does not report decisions that it was still writing when another request came: all are read again after
/// this time, but for at most this part of the time. Two such answers confirm the end of a ban.
const ALL: Duration = CONFIRMED;
const PART: u32 = 50;

/// The longest reason of a ban, in bytes.
const REASON: usize = 40;

impl Source {
    /// Asks for all decisions, if `is_all` or if it is time to, or for changes.
    pub(crate) fn crowdsec(&mut self, is_all: bool) -> Result<Fetched, Failed> {
        let begun = Instant::now();
        let is_all = is_all || begun >= self.all_due;
        let changes = self.ask(is_all)?;
        let now = Instant::now();
        if is_all {
            self.all_due = now + ALL.max((now - begun) * PART);
            self.all_allowed = now + (now - begun) * PART;
            let mut all = All {
                local: changes.local.clone(),
                left_out: changes.left_out.clone(),
                ended: (changes.deleted.iter().chain(&changes.throttles_deleted))
                    .copied()
                    .collect(),
                ..All::default()
            };
            changes.apply(&mut all.wanted, &mut all.throttled);
            return Ok(Fetched::All(all));
        }
        if self.settings.is_choosy() && changes.ends_some() {
            // CrowdSec also reports the end of a decision while a longer one about the same value goes on: only a full
            // answer says which bans have ended.
            if now >= self.all_allowed {
                return self.crowdsec(true);
            }
            self.all_due = self.all_allowed;
            return Ok(Fetched::Changes(Decisions {
                deleted: Vec::new(),
                throttles_deleted: Vec::new(),
                ..changes
            }));
        }
        Ok(Fetched::Changes(changes))
    }

    fn ask(&self, is_all: bool) -> Result<Decisions, Failed> {
        let server = match self.settings.socket() {
            // The connection goes to the socket, whatever the host is.
            Some(_) => "http://127.0.0.1",
            None => self.settings.source().trim_end_matches('/'),
        };
        let request = self.client.get(format!("{server}/v1/decisions/stream"));
        let mut request = request
            .query_pairs(self.settings.question(is_all))
            .config()
            .http_status_as_error(false)
            .build();
        if !self.key.is_empty() {
            request = request.header("X-Api-Key", &self.key);
        }
        let mut answer = request.call().map_err(|error| error.to_string())?;
        if answer.status() == 403 {
            let why = match self.key.is_empty() {
                true => {
                    "it refuses the certificate: bouncers_allowed_ou in its config.yaml must have the certificate's OU"
                }
                false => "it refuses the key: `cscli bouncers list` shows the valid ones",
            };
            return Err(self.refused(why.to_owned()));
        }
        self.is_ok(&answer)?;
        let answer = self.body(&mut answer)?;
        parse::decisions(&answer).map_err(|why| self.refused(why))
    }
}

impl Decisions {
    /// Returns true if there is no change.
    pub fn is_empty(&self) -> bool {
        let is_new = !self.new.is_empty() || !self.throttles.is_empty();
        !is_new && !self.ends_some() && self.left_out.is_empty()
    }

    /// Returns true if bans or throttles have ended.
    fn ends_some(&self) -> bool {
        !self.deleted.is_empty() || !self.throttles_deleted.is_empty()
    }

    /// Applies the changes to the wanted bans. `throttled`: those of them that throttle. Of a ban and a throttle of one
    /// prefix, the ban counts; after its end, the next full answer has the throttle.
    pub fn apply(self, wanted: &mut Wanted, throttled: &mut BTreeSet<IpNet>) {
        for prefix in self.deleted {
            if !throttled.contains(&prefix) {
                wanted.remove(&prefix);
            }
        }
        for prefix in self.throttles_deleted {
            if throttled.remove(&prefix) {
                wanted.remove(&prefix);
            }
        }
        for ban in self.new {
            if throttled.remove(&ban.prefix) {
                wanted.remove(&ban.prefix);
            }
            add(wanted, ban);
        }
        for throttle in self.throttles {
            if throttled.contains(&throttle.prefix) || !wanted.contains_key(&throttle.prefix) {
                throttled.insert(throttle.prefix);
                add(wanted, throttle);
            }
        }
    }
}

/// Adds a ban, or makes its end later.
fn add(wanted: &mut Wanted, decided: Decided) {
    let Decided {
        prefix,
        time,
        mut reason,
    } = decided;
    reason.retain(|character| !character.is_control());
    let cut = (0..=REASON.min(reason.len())).rfind(|index| reason.is_char_boundary(*index));
    reason.truncate(cut.unwrap_or(0));
    let ends = Some(Instant::now() + time);
    let ban = (wanted.entry(prefix)).or_insert(WantedBan { ends, reason });
    ban.ends = ends.max(ban.ends);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ban_of_a_prefix_counts_more_than_its_throttle() {
        let net: IpNet = "192.0.2.7/32".parse().expect("a prefix");
        let hour = || {
            vec![Decided {
                prefix: net,
                time: Duration::from_secs(3_600),
                reason: "x".to_owned(),
            }]
        };
        let (mut wanted, mut throttled) = (Wanted::new(), BTreeSet::new());
        for (new, throttles, deleted, throttles_deleted, is_wanted, is_throttled) in [
            (vec![], hour(), vec![], vec![], true, true),
            // The end of a ban that is not known ends no throttle.
            (vec![], vec![], vec![net], vec![], true, true),
            (hour(), vec![], vec![], vec![], true, false),
            (vec![], hour(), vec![], vec![], true, false),
            (vec![], vec![], vec![], vec![net], true, false),
            (vec![], vec![], vec![net], vec![], false, false),
            (hour(), hour(), vec![], vec![], true, false),
            (vec![], hour(), vec![net], vec![], true, true),
            (vec![], vec![], vec![], vec![net], false, false),
        ] {
            let changes = Decisions {
                new,
                throttles,
                deleted,
                throttles_deleted,
                ..Decisions::default()
            };
            changes.apply(&mut wanted, &mut throttled);
            let found = (wanted.contains_key(&net), throttled.contains(&net));
            assert_eq!(found, (is_wanted, is_throttled));
        }
    }
}
