//! Models the verdict of lists and limits on a frame.

use std::net::IpAddr;

use ipnet::IpNet;
use limiter_common::{abi::counters::LimitCounters, policy::verdict::Reason};
use limiter_user::config::{
    Limit, Malformed,
    key::{Bits, Parts},
};

use super::{
    Bucket, Held, Id, Model, Outcome, Owner,
    bucket::Quota,
    count,
    lists::{self, Listed},
    matching::{self, Facts},
    packet::{self, Field, Seen, Transport},
};

impl Model {
    /// The verdict of lists and limits on a frame at `now` (ticks).
    pub(super) fn decide(&mut self, frame: &[u8], now: i128) -> Outcome {
        let simply = |reason| Outcome {
            reason,
            refused_by: None,
            buckets: Vec::new(),
        };
        let exempt = self.settings.exempt.control;
        let behind =
            exempt || (self.limits.iter()).any(|held| matching::reads_transport(&held.limit));
        let (source, destination, transport, control) = match packet::read(frame) {
            Seen::NotIp => return simply(Reason::NotIp),
            Seen::TooManyTags => return simply(Reason::Malformed),
            Seen::Malformed => {
                return simply(match self.settings.malformed {
                    Malformed::Drop => Reason::Malformed,
                    Malformed::Pass => Reason::MalformedPassed,
                });
            }
            Seen::Arp(_) if !exempt => return simply(Reason::NotIp),
            Seen::Arp(sender) => (sender.into(), None, None, true),
            Seen::Ip(ip) if behind => {
                let seen = ip.transport;
                let destination = Some(ip.destination);
                (ip.source, destination, Some(seen), exempt && seen.control)
            }
            Seen::Ip(ip) => (ip.source, Some(ip.destination), None, false),
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
        let facts = Facts {
            source,
            destination,
            transport: transport.as_ref(),
            listed: &listed,
            lists: &self.settings.lists,
        };
        let matching: Vec<Held> = (self.limits.iter())
            .filter(|held| held.control == control)
            .filter(|held| control || facts.hold(&held.limit.matches))
            .map(|held| self.scaled(held, now))
            .collect();
        let fields = Fields {
            source,
            destination,
            transport: transport.as_ref(),
        };
        self.ask(&matching, fields, frame.len(), now)
    }

    /// The limit at the scale of this moment.
    fn scaled(&self, held: &Held, now: i128) -> Held {
        let mut held = held.clone();
        let scale = self.scales.get(&held.limit.name);
        let in_force = scale.filter(|(_, end)| held.limit.adaptive.is_some() && now < *end);
        if let Some((stretch, _)) = in_force {
            held.quota.stretch = *stretch;
        }
        held
    }

    /// All matching limits must admit the packet. All of them are charged, or none.
    fn ask(&mut self, matching: &[Held], fields: Fields<'_>, length: usize, now: i128) -> Outcome {
        let mut outcome = Outcome {
            reason: Reason::Unlimited,
            refused_by: None,
            buckets: (matching.iter())
                .map(|held| (held.limit.name.clone(), fields.owner(&held.limit)))
                .collect(),
        };
        let asked: Vec<_> = matching.iter().zip(outcome.buckets.clone()).collect();
        // The check also corrects buckets from before a clock was set back, even in shadow.
        let refusing = asked.iter().find(|(held, id)| {
            let bucket = self.buckets.get_mut(id);
            let refuses =
                bucket.is_some_and(|known| !held.quota.admits(&mut known.state, now, length));
            refuses && !held.limit.shadow
        });
        if let Some((held, _)) = refusing {
            outcome.reason = Reason::Limit;
            outcome.refused_by = Some(held.limit.name.clone());
            return outcome;
        }
        // The new-source limit admits all new buckets, or none.
        let mut new = (asked.iter())
            .filter(|(_, id)| !self.buckets.contains_key(id))
            .map(|(held, _)| &held.limit);
        let first = new.clone().find(|limit| !limit.shadow);
        if let (true, Some(first), Some(new_sources)) =
            (asked.len() > 1, first, self.new_sources.as_mut())
            && let Some(lacking) = new.find(|limit| !new_sources.reserve(&limit.name, now))
        {
            let refused_by = if lacking.shadow { first } else { lacking };
            outcome.reason = Reason::NewSource;
            outcome.refused_by = Some(refused_by.name.clone());
            return outcome;
        }
        let mut charged = Vec::new();
        let mut paid = false;
        for (held, id) in &asked {
            let decision = self.charge(&held.quota, id, length, now, &mut paid);
            if decision != Reason::Admitted && !held.limit.shadow {
                for (quota, id, admitted) in charged {
                    self.take_back(quota, id, admitted, length);
                }
                outcome.reason = decision;
                outcome.refused_by = Some(held.limit.name.clone());
                return outcome;
            }
            charged.push((&held.quota, id, decision == Reason::Admitted));
        }
        for (_, id, admitted) in &charged {
            let figures = self.figures.entry(id.0.clone()).or_default();
            passed(figures, *admitted, length);
            if let Some(bucket) = self.buckets.get_mut(*id) {
                bucket.passed += 1;
                bucket.refused += u64::from(!admitted);
            }
        }
        if charged.iter().any(|(.., admitted)| !admitted) {
            outcome.reason = Reason::WouldDrop;
        } else if !charged.is_empty() {
            outcome.reason = Reason::Admitted;
        }
        outcome
    }

    /// Charges a bucket, after creating it if needed. A packet takes a new-source token for its first new bucket.
    fn charge(
        &mut self,
        quota: &Quota,
        id: &Id,
        length: usize,
        now: i128,
        paid: &mut bool,
    ) -> Reason {
        if !self.buckets.contains_key(id) {
            if let Some(new_sources) = self.new_sources.as_mut() {
                if !new_sources.reserve(&id.0, now) {
                    return Reason::NewSource;
                }
                if !*paid {
                    new_sources.take(&id.0);
                }
                *paid = true;
            }
            self.added += 1;
            let bucket = Bucket::full(quota.full(now));
            self.buckets.insert(id.clone(), bucket);
        }
        let bucket = self.buckets.get_mut(id).expect("the bucket exists");
        if !quota.admits(&mut bucket.state, now, length) {
            return Reason::Limit;
        }
        quota.charge(&mut bucket.state, now, length);
        Reason::Admitted
    }

    fn take_back(&mut self, quota: &Quota, id: &Id, admitted: bool, length: usize) {
        if let Some(bucket) = self.buckets.get_mut(id).filter(|_| admitted) {
            quota.refund(&mut bucket.state, length);
        }
    }
}

/// Counts a passed packet for one of its limits.
fn passed(counts: &mut LimitCounters, admitted: bool, length: usize) {
    let figure = if admitted {
        &mut counts.admitted
    } else {
        &mut counts.would_drop
    };
    count(figure, length);
}

/// The fields of a packet that keys can have.
#[derive(Clone, Copy)]
struct Fields<'a> {
    source: IpAddr,
    /// None for ARP.
    destination: Option<IpAddr>,
    transport: Option<&'a Transport>,
}

impl Fields<'_> {
    /// The owner of the packet's bucket under the limit.
    fn owner(&self, limit: &Limit) -> Owner {
        let by = limit.key.parts;
        let is_flow = by == Parts::Flow;
        let whole = Some(Bits {
            ipv4: 32,
            ipv6: 128,
        });
        let (from, to) = match by {
            Parts::Interface => (None, None),
            Parts::Source(bits) => (Some(bits), None),
            Parts::Destination(bits) => (None, Some(bits)),
            Parts::Pair(source, destination) => (Some(source), Some(destination)),
            Parts::Flow => (whole, whole),
        };
        let read = |seen: Option<Field<(u16, u16)>>| match seen {
            Some(Field::Is(ports)) => ports,
            _ => (0, 0),
        };
        let (source_port, port) = read(self.transport.map(|seen| seen.ports));
        let protocol = match self.transport.map(|seen| seen.protocol) {
            Some(Field::Is(protocol)) => protocol,
            _ => 255,
        };
        Owner {
            source: from.map(|bits| prefix_of(self.source, bits, true)),
            destination: to
                .zip(self.destination)
                .map(|(bits, address)| prefix_of(address, bits, false)),
            flow: is_flow.then_some((protocol, source_port)),
            port: (is_flow || limit.key.by_port).then_some(port),
        }
    }
}

/// The prefix of an address. Each neighbour has its own bucket, if the addresses are those of neighbours.
fn prefix_of(address: IpAddr, bits: Bits, neighbours: bool) -> IpNet {
    let length = match address {
        IpAddr::V4(_) => bits.ipv4,
        IpAddr::V6(v6) if neighbours && v6.is_unicast_link_local() && bits.ipv6 > 10 => 128,
        IpAddr::V6(_) => bits.ipv6,
    };
    let net = IpNet::new(address, length).expect("within the address");
    net.trunc()
}
