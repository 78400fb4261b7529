//! What the limiter should do, from the design and the documentation, and from the settings as they are
//! written: nothing of the program, and nothing of what makes its constants.
//!
//! One CPU, a table that is large enough, and no sockets of the host.

pub mod bucket;
mod change;
mod lists;
mod matching;
mod newcomers;
mod packet;

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use ipnet::IpNet;
use limiter_common::{
    counters::{Count, LimitCounters},
    verdict::Reason,
};
use limiter_user::config::{Burst, Limit, Malformed, Rate, Settings, key};

use bucket::{State, TICKS, Terms};
use lists::Listed;
use newcomers::Newcomers;
use packet::{Seen, Transport};

/// What has a bucket of a limit: a prefix, or all that comes in; and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// Nothing where one bucket is for all.
    pub prefix: Option<IpNet>,
    /// Where each destination port has one; 0 for packets without ports.
    pub port: Option<u16>,
}

/// The limit's name, and who.
pub type Id = (String, Who);

/// A bucket, and what is counted beside it.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// What is in it.
    pub state: State,
    /// Packets of the source.
    pub counts: LimitCounters,
}

/// What becomes of a packet.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Under this it is counted.
    pub reason: Reason,
    /// Name of the limit that refused it, if one did.
    pub refused_by: Option<String>,
    /// Its bucket in each limit that matches.
    pub buckets: Vec<Id>,
}

/// A limit, with the terms that follow from it.
#[derive(Clone, Debug)]
struct Held {
    limit: Limit,
    terms: Terms,
    control: bool,
}

/// The limiter.
#[derive(Clone, Debug)]
pub struct Model {
    settings: Settings,
    frame_max: u64,
    limits: Vec<Held>,
    newcomers: Option<Newcomers>,
    /// All buckets that have been made.
    pub buckets: HashMap<Id, Bucket>,
    /// Packets by reason.
    pub reasons: [Count; Reason::ALL.len()],
    /// Packets by limit.
    pub figures: BTreeMap<String, LimitCounters>,
    /// Packets by list that decides about their source.
    pub hits: BTreeMap<String, Count>,
    /// Buckets made.
    pub added: u64,
}

/// The name of the limit on control traffic.
const CONTROL: &str = "control";

/// All limits of `settings`: the one on control traffic comes last.
fn limits(settings: &Settings) -> Vec<Limit> {
    let mut limits = settings.limits.clone();
    if settings.exempt.control {
        limits.push(Limit {
            burst: Some(Burst {
                tokens: 200,
                unit: None,
            }),
            ..Limit::new(CONTROL, Rate::packets_per_second(100))
        });
    }
    limits
}

fn count(one: &mut Count, length: usize) {
    one.packets += 1;
    one.bytes += length as u64;
}

impl Model {
    /// No buckets yet, at `now` (nanoseconds); of the newcomer limit's tokens are no more than
    /// `new_sources` left. `phases` are those of the limits' windows, by name.
    #[must_use]
    pub fn new(
        settings: &Settings,
        phases: &BTreeMap<String, u64>,
        frame_max: u64,
        new_sources: u64,
        now: u64,
    ) -> Self {
        let begin = i128::from(now) * TICKS;
        let newcomers = settings.new_sources.as_ref();
        let mut model = Self {
            settings: settings.clone(),
            frame_max,
            limits: Vec::new(),
            newcomers: newcomers.map(|limit| Newcomers::new(limit, new_sources, begin)),
            buckets: HashMap::new(),
            reasons: Default::default(),
            figures: BTreeMap::new(),
            hits: BTreeMap::new(),
            added: 0,
        };
        model.hold(settings, phases);
        model
    }

    fn hold(&mut self, settings: &Settings, phases: &BTreeMap<String, u64>) {
        self.settings = settings.clone();
        self.limits = limits(settings)
            .into_iter()
            .map(|limit| Held {
                terms: Terms::new(&limit, phases[&limit.name], self.frame_max),
                control: limit.name == CONTROL,
                limit,
            })
            .collect();
    }

    /// When the newcomer limit's bucket will be full, in ticks, where there is that limit.
    #[must_use]
    pub fn newcomers_full_at(&self) -> Option<i128> {
        self.newcomers.as_ref().map(Newcomers::full_at)
    }

    /// The terms of a limit.
    #[must_use]
    pub fn terms(&self, name: &str) -> Option<&Terms> {
        let held = self.limits.iter().find(|held| held.limit.name == name);
        held.map(|held| &held.terms)
    }

    /// What happens to `frame` at the moment `nanoseconds`.
    pub fn offer(&mut self, frame: &[u8], nanoseconds: u64) -> Outcome {
        let now = i128::from(nanoseconds) * TICKS;
        let mut outcome = self.decide(frame, now);
        outcome.reason = self.in_force(outcome.reason);
        if let Some(name) = &outcome.refused_by {
            let passed = outcome.reason.passes();
            let note = |counts: &mut LimitCounters| refused(counts, passed, frame.len());
            note(self.figures.entry(name.clone()).or_default());
            let id = outcome.buckets.iter().find(|(limit, _)| limit == name);
            if let Some(bucket) = id.and_then(|id| self.buckets.get_mut(id)) {
                note(&mut bucket.counts);
            }
        }
        count(&mut self.reasons[outcome.reason as usize], frame.len());
        outcome
    }

    /// Shadow drops nothing, and malformed IP may be let through.
    fn in_force(&self, reason: Reason) -> Reason {
        let Settings {
            malformed, shadow, ..
        } = self.settings;
        match (reason, malformed, shadow) {
            (Reason::Malformed, Malformed::Pass, _) => Reason::MalformedPassed,
            (Reason::Malformed, _, true) => Reason::MalformedWouldDrop,
            (reason, _, true) if !reason.passes() => Reason::WouldDrop,
            (reason, ..) => reason,
        }
    }

    fn decide(&mut self, frame: &[u8], now: i128) -> Outcome {
        let simply = |reason| Outcome {
            reason,
            refused_by: None,
            buckets: Vec::new(),
        };
        let exempt = self.settings.exempt.control;
        let behind = exempt || (self.limits.iter()).any(|held| matching::looks_behind(&held.limit));
        let (source, transport, control) = match packet::read(frame) {
            Seen::NotIp => return simply(Reason::NotIp),
            Seen::Malformed => return simply(Reason::Malformed),
            Seen::Arp(_) if !exempt => return simply(Reason::NotIp),
            Seen::Arp(sender) => (sender.into(), None, true),
            Seen::Ip(ip) if behind => match ip.behind {
                packet::Behind::Hidden => return simply(Reason::Malformed),
                packet::Behind::Transport(seen) => (ip.source, Some(seen), exempt && seen.control),
            },
            Seen::Ip(ip) => (ip.source, None, false),
        };
        let mut listed = Listed::default();
        if !control {
            listed = lists::look_up(&self.settings.lists, source);
            for name in listed.names() {
                count(self.hits.entry(name.to_owned()).or_default(), frame.len());
            }
        }
        if listed.denied {
            return simply(Reason::Deny);
        }
        if listed.allowed {
            return simply(Reason::Allowed);
        }
        let matching: Vec<Held> = (self.limits.iter())
            .filter(|held| held.control == control)
            .filter(|held| {
                control || matching::holds(&held.limit.matches, source, transport.as_ref(), &listed)
            })
            .cloned()
            .collect();
        self.ask(&matching, source, transport.as_ref(), frame.len(), now)
    }

    /// All limits that match must admit the packet. It is charged to all of them, or to none.
    fn ask(
        &mut self,
        matching: &[Held],
        source: IpAddr,
        transport: Option<&Transport>,
        length: usize,
        now: i128,
    ) -> Outcome {
        let port = transport.and_then(|seen| seen.ports).map(|(_, to)| to);
        let mut outcome = Outcome {
            reason: Reason::Unlimited,
            refused_by: None,
            buckets: (matching.iter())
                .map(|held| (held.limit.name.clone(), who(&held.limit, source, port)))
                .collect(),
        };
        let asked: Vec<_> = matching.iter().zip(outcome.buckets.clone()).collect();
        let refusing = (asked.iter().filter(|(held, _)| !held.limit.shadow)).find(|(held, id)| {
            let bucket = self.buckets.get_mut(id);
            bucket.is_some_and(|known| !held.terms.admits(&mut known.state, now, length))
        });
        if let Some((held, _)) = refusing {
            outcome.reason = Reason::Limit;
            outcome.refused_by = Some(held.limit.name.clone());
            return outcome;
        }
        // Who has no bucket yet needs leave to have one made.
        let mut charged = Vec::new();
        for (held, id) in &asked {
            let said = self.charge(&held.terms, id, length, now);
            if said != Reason::Admitted && !held.limit.shadow {
                for (terms, id, admitted) in charged {
                    self.take_back(terms, id, admitted, length);
                }
                outcome.reason = said;
                outcome.refused_by = Some(held.limit.name.clone());
                return outcome;
            }
            charged.push((&held.terms, id, said == Reason::Admitted));
        }
        for (_, id, admitted) in &charged {
            let note = |counts: &mut LimitCounters| passed(counts, *admitted, length);
            note(self.figures.entry(id.0.clone()).or_default());
            if let Some(bucket) = self.buckets.get_mut(*id) {
                note(&mut bucket.counts);
            }
        }
        if charged.iter().any(|(.., admitted)| !admitted) {
            outcome.reason = Reason::WouldDrop;
        } else if !charged.is_empty() {
            outcome.reason = Reason::Admitted;
        }
        outcome
    }

    fn charge(&mut self, terms: &Terms, id: &Id, length: usize, now: i128) -> Reason {
        if !self.buckets.contains_key(id) {
            let mut newcomers = self.newcomers.as_mut();
            if !newcomers.as_mut().is_none_or(|limit| limit.admit(now)) {
                return Reason::Newcomer;
            }
            self.added += 1;
            let bucket = Bucket {
                state: terms.full(now),
                counts: LimitCounters::default(),
            };
            self.buckets.insert(id.clone(), bucket);
        }
        let bucket = self.buckets.get_mut(id).expect("it is there by now");
        if !terms.admits(&mut bucket.state, now, length) {
            return Reason::Limit;
        }
        terms.charge(&mut bucket.state, now, length);
        Reason::Admitted
    }

    fn take_back(&mut self, terms: &Terms, id: &Id, admitted: bool, length: usize) {
        if let Some(bucket) = self.buckets.get_mut(id).filter(|_| admitted) {
            terms.refund(&mut bucket.state, length);
        }
    }
}

/// Counts a packet that went on its way, for one of its limits.
fn passed(counts: &mut LimitCounters, admitted: bool, length: usize) {
    count(&mut counts.passed, length);
    if !admitted {
        count(&mut counts.would_drop, length);
    }
}

/// Counts a packet for the limit that refused it: it passed all the same where the interface is in shadow.
fn refused(counts: &mut LimitCounters, passed: bool, length: usize) {
    if passed {
        count(&mut counts.passed, length);
        count(&mut counts.would_drop, length);
    } else {
        count(&mut counts.dropped, length);
    }
}

/// Who shares a bucket of the limit.
fn who(limit: &Limit, source: IpAddr, port: Option<u16>) -> Who {
    let prefix = match limit.key.source {
        key::Source::Interface => None,
        key::Source::Prefix { ipv4, ipv6 } => {
            let bits = if source.is_ipv4() { ipv4 } else { ipv6 };
            Some(
                IpNet::new(source, bits)
                    .expect("within the address")
                    .trunc(),
            )
        }
    };
    Who {
        prefix,
        port: limit.key.by_port.then(|| port.unwrap_or(0)),
    }
}
