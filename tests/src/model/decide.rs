//! Models the verdict of lists and limits on a frame.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv6Net};
use limiter_common::{abi::counters::LimitCounters, policy::verdict::Reason};
use limiter_config::{
    Direction, Limit, Malformed, Settings,
    key::{Bits, Parts},
};

use super::{
    Bucket, Held, Id, Model, Outcome, Owner,
    bucket::{Quota, TICKS, divided_up},
    control::{Client, Kind},
    count,
    listed::{self, Listed},
    matching::{self, Facts},
    packet::{self, Field, Seen, Transport},
};

impl Model {
    /// The verdict of lists and limits on a frame at `now` (ticks).
    pub(super) fn decide(&mut self, frame: &[u8], now: i128) -> Outcome {
        let simply = |reason| Outcome {
            reason,
            refused_by: None,
            delay: None,
            buckets: Vec::new(),
        };
        let exempt = self.settings.exempt;
        let behind = exempt.control
            || exempt.vrrp
            || exempt.ospf
            || exempt.bfd
            || (self.limits.iter()).any(|held| matching::reads_transport(&held.limit));
        let mut client = None;
        let (mut source, destination, transport, control) = match packet::read(frame) {
            Seen::NotIp => return simply(Reason::NotIp),
            Seen::TooManyTags => return simply(Reason::Malformed),
            Seen::Malformed => {
                return simply(match self.settings.malformed {
                    Malformed::Drop => Reason::Malformed,
                    Malformed::Pass => Reason::MalformedPassed,
                });
            }
            Seen::Arp(..) if !exempt.control => return simply(Reason::NotIp),
            Seen::Arp(sender, hardware) => {
                client = Some(Client::Host(hardware)).filter(|_| sender.is_unspecified());
                (sender.into(), None, None, Some(Kind::Link))
            }
            Seen::Ip(ip) if behind => {
                let seen = ip.transport;
                let destination = Some(ip.destination);
                let control = seen.control.filter(|kind| kind.is_exempt(exempt));
                let sender = packet::six(frame, 6).map(Client::Host);
                client = match control {
                    Some(kind) if !kind.is_routing() => seen
                        .client
                        .or(sender.filter(|_| ip.source.is_unspecified())),
                    _ => None,
                };
                (ip.source, destination, Some(seen), control)
            }
            Seen::Ip(ip) => (ip.source, Some(ip.destination), None, None),
        };
        let mut listed = Listed::default();
        if control.is_none_or(Kind::is_listed) {
            let peer = match self.settings.direction {
                Direction::In => Some(source),
                Direction::Out => destination,
            };
            listed = peer.map_or_else(Listed::default, |peer| {
                listed::look_up(&self.settings.lists, peer)
            });
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
        source = client.map_or(source, |client| client.address(&self.seed));
        let facts = Facts {
            source,
            destination,
            transport: transport.as_ref(),
            lists: &self.settings.lists,
        };
        let matching: Vec<Held> = (self.limits.iter())
            .filter(|held| match control {
                None => held.control == (false, false) && facts.hold(&held.limit.matches),
                Some(kind) if kind.is_routing() => held.control.1,
                Some(_) => held.control.0,
            })
            .map(|held| self.scaled(held, now))
            .collect();
        let matching = without_rest(matching, &facts);
        let fields = Fields {
            peer: match self.settings.direction {
                Direction::In => Some(source),
                Direction::Out => destination,
            },
            source,
            destination,
            transport: transport.as_ref(),
            translators: &translators(&self.settings),
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
            delay: None,
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
        // The new-source limit admits all new buckets, or none. Those of limits in shadow refuse nothing.
        let new: Vec<_> = (asked.iter())
            .filter(|(held, id)| !held.limit.shadow && !self.buckets.contains_key(id))
            .map(|(held, _)| &held.limit.name)
            .collect();
        let known_as = fields.own();
        let mut entry = Entrance::default();
        if asked.len() > 1
            && let Some(lacking) =
                (new.into_iter()).find(|name| !self.reserve(name, &known_as, &mut entry, now))
        {
            outcome.reason = Reason::NewSource;
            outcome.refused_by = Some(lacking.clone());
            return outcome;
        }
        let mut charged = Vec::new();
        for (held, id) in &asked {
            let decision = self.charge(&held.quota, id, length, now, &mut entry);
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
        let delay = |(held, id): &(&Held, Id)| match self.buckets.get(id) {
            Some(bucket) if !held.limit.shadow && !self.settings.shadow => {
                held.quota.delay(bucket.state, now)
            }
            _ => None,
        };
        let delay = asked.iter().filter_map(delay).max();
        outcome.delay = delay.map(|delay| divided_up(delay, TICKS));
        if charged.iter().any(|(.., admitted)| !admitted) {
            outcome.reason = Reason::WouldDrop;
        } else if !charged.is_empty() {
            outcome.reason = match delay {
                None | Some(0) => Reason::Admitted,
                Some(_) => Reason::Paced,
            };
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
        entry: &mut Entrance,
    ) -> Reason {
        if !self.buckets.contains_key(id) {
            // The budget of this bucket is not that of the others.
            let mut own = Entrance { ..*entry };
            if !self.reserve(&id.0, id, &mut own, now) {
                return Reason::NewSource;
            }
            let budget = match own.second {
                true => &mut self.second_chances,
                false => &mut self.new_sources,
            };
            // A first-time source pays again for a second chance.
            let pays = !entry.paid || own.second != entry.second;
            if let (true, Some(budget)) = (pays, budget) {
                budget.take(&id.0);
            }
            entry.paid = true;
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

    /// True if the limit has a token for a new bucket, or for one of a source that was refused before. Such refusals
    /// are remembered under `known_as`.
    fn reserve(&mut self, limit: &str, known_as: &Id, entry: &mut Entrance, now: i128) -> bool {
        let Some(new_sources) = &mut self.new_sources else {
            return true;
        };
        if !entry.second {
            if new_sources.reserve(limit, now) {
                return true;
            }
            entry.second = self.was_refused(known_as, now);
        }
        let second = self.second_chances.as_mut().filter(|_| entry.second);
        second.is_some_and(|second| second.reserve(limit, now))
    }

    /// True if the bucket could not be made 5 to 128 units of 2^26 ns ago. Times wrap after 4,096 units.
    fn was_refused(&mut self, id: &Id, now: i128) -> bool {
        let now = (now / TICKS) >> 26;
        if let Some(then) = self.refused.get(id) {
            let age = (now - then).rem_euclid(4_096);
            if age <= 128 {
                return age >= 5;
            }
        }
        self.refused.insert(id.clone(), now);
        false
    }

    fn take_back(&mut self, quota: &Quota, id: &Id, admitted: bool, length: usize) {
        if let Some(bucket) = self.buckets.get_mut(id).filter(|_| admitted) {
            quota.refund(&mut bucket.state, length);
        }
    }
}

/// The tokens that a packet takes for its new buckets.
#[derive(Default)]
struct Entrance {
    /// They come from second chances.
    second: bool,
    /// The packet has taken one.
    paid: bool,
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
    /// The source of what comes in, the destination of what goes out. None for ARP that goes out.
    peer: Option<IpAddr>,
    source: IpAddr,
    /// None for ARP.
    destination: Option<IpAddr>,
    transport: Option<&'a Transport>,
    /// Prefixes of translators.
    translators: &'a [Ipv6Net],
}

impl Fields<'_> {
    /// Name of the peer's refusals, whatever the keys of the limits are.
    fn own(&self) -> Id {
        let mut bits = Bits { ipv4: 32, ipv6: 64 };
        if self
            .peer
            .is_some_and(|peer| self.translator_of(peer).is_some())
        {
            bits.ipv6 = 128;
        }
        let owner = Owner {
            source: Some(prefix_of(
                self.peer.unwrap_or(Ipv6Addr::UNSPECIFIED.into()),
                bits,
                true,
            )),
            destination: None,
            flow: None,
            port: None,
            vlan: None,
        };
        (String::new(), owner)
    }

    /// The owner of the packet's bucket under the limit.
    fn owner(&self, limit: &Limit) -> Owner {
        let parts = limit.key.parts;
        let is_flow = parts == Parts::Flow;
        let whole = Some(Bits {
            ipv4: 32,
            ipv6: 128,
        });
        let (from, destination) = match parts {
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
            source: from.map(|bits| prefix_of(self.source, self.bits(bits, self.source), true)),
            destination: destination
                .zip(self.destination)
                .map(|(bits, address)| match parts {
                    Parts::Destination(_) => prefix_of(address, self.bits(bits, address), false),
                    _ => prefix_of(address, bits, false),
                }),
            flow: is_flow.then_some((protocol, source_port)),
            port: (is_flow || limit.key.by_port).then_some(port),
            vlan: (limit.key.by_vlan)
                .then(|| self.transport.and_then(|seen| seen.vlan).unwrap_or(0)),
        }
    }

    /// The translator's prefix with this address.
    fn translator_of(&self, address: IpAddr) -> Option<u8> {
        let IpAddr::V6(address) = address else {
            return None;
        };
        let around = |prefix: &&Ipv6Net| prefix.contains(&address);
        self.translators
            .iter()
            .find(around)
            .map(Ipv6Net::prefix_len)
    }

    /// The lengths for an address: those of IPv4 behind a translator's prefix. RFC 6052 leaves out the ninth byte.
    fn bits(&self, bits: Bits, address: IpAddr) -> Bits {
        let Some(prefix) = self.translator_of(address) else {
            return bits;
        };
        let ninth_byte = if prefix <= 64 && prefix + bits.ipv4 > 64 {
            8
        } else {
            0
        };
        Bits {
            ipv6: prefix + bits.ipv4 + ninth_byte,
            ..bits
        }
    }
}

/// The prefixes of translators under these settings.
fn translators(settings: &Settings) -> Vec<Ipv6Net> {
    let named = settings.nat64.iter().map(|translator| translator.0);
    let well_known = "64:ff9b::/96".parse().unwrap();
    [well_known].into_iter().chain(named).collect()
}

/// The prefix of an address, of IPv6 its first address: the table keeps no length, so that 64:ff9b::/48 and the IPv4
/// addresses 0.0.0.0/24 behind 64:ff9b::/96 share a bucket. Each neighbour has its own bucket, if the addresses are those of
/// neighbours.
fn prefix_of(address: IpAddr, bits: Bits, neighbours: bool) -> IpNet {
    let length = match address {
        IpAddr::V4(_) => bits.ipv4,
        IpAddr::V6(v6) if neighbours && v6.is_unicast_link_local() && bits.ipv6 > 10 => 128,
        IpAddr::V6(_) => bits.ipv6,
    };
    let net = IpNet::new(address, length).expect("within the address");
    match net.network() {
        IpAddr::V4(_) => net.trunc(),
        first @ IpAddr::V6(_) => first.into(),
    }
}

/// The matching limits. Those on packets that no other limit matches are not among them if another one certainly matches.
fn without_rest(matching: Vec<Held>, facts: &Facts<'_>) -> Vec<Held> {
    let mut others = matching.iter().map(|held| &held.limit.matches);
    if !others.any(|matches| !matches.other && facts.certainly_hold(matches)) {
        return matching;
    }
    let stay = matching
        .into_iter()
        .filter(|held| !held.limit.matches.other);
    stay.collect()
}
