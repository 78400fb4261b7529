//! Compiles settings for the kernel: the program's constants, and the contents of the list maps.

use ipnet::IpNet;
use limiter_common::{
    abi::{
        Constants, Listed,
        connections::Bound,
        rules::{
            self, NEEDS_BFD, NEEDS_CONNECTION, NEEDS_CONTROL, NEEDS_DESTINATION, NEEDS_HOLD,
            NEEDS_OSPF, NEEDS_PACE, NEEDS_PAIR, NEEDS_SCALE, NEEDS_SOURCE_LISTS, NEEDS_TRANSPORT,
            NEEDS_VLAN, NEEDS_VRRP, NewSourceQuota, ON_ALLOW, ON_DENY,
        },
    },
    arithmetic::{
        bucket::TAU_MAX,
        rescale::{PAST_QUOTAS, Rescale},
    },
    table::{WAYS, nat64::Nat64},
};

use crate::lists::THROTTLED;

use super::{
    Direction, Exempt, Invalid, Key, Limit, Lists, Malformed, Match, NewSources, Prefixes, Proofs,
    Settings, TierBits, control, ensure,
    key::Parts,
    new_sources::{ANSWERS, SECOND_CHANCES},
    shares::{self, Shares},
    slot::Slot,
};

/// The slot of the limit that may take the fast path.
pub const FIRST_SLOT: u32 = 0;

impl Settings {
    /// The program's constants. `slots` are those of [`Self::all_limits`], in their order.
    pub fn compile(
        &self,
        slots: &[Slot],
        bits: &TierBits,
        frame_max: u64,
    ) -> Result<Box<Constants>, Invalid> {
        let limits = self.all_limits();
        let mut config = no_constants();
        config.nat64 = self.translators();
        if let Some(new_sources) = self.new_sources {
            let parts = shares::parts_of_new_sources(&limits);
            config.new_sources = new_source_quota(new_sources, (1, 1), parts)?;
            if new_sources.second_chance {
                config.second_chances = new_source_quota(new_sources, SECOND_CHANCES, parts)?;
            }
            config.proofs = config.new_sources;
            config.answers = new_source_quota(new_sources, ANSWERS, parts)?;
        }
        config.sets = shares::entries(self.max_sources) / WAYS;
        config.bans = self.max_bans;
        config.throttled = bits.of(THROTTLED).map_or(0, |bit| 1 << bit);
        config.shadow = self.shadow.into();
        config.malformed_passes = (self.malformed == Malformed::Pass).into();
        for (prefixes, _) in &self.lists.compile(bits).lists {
            let [ipv4, ipv6] = prefixes.families().map(u32::from);
            config.lists_ipv4 |= ipv4;
            config.lists_ipv6 |= ipv6;
        }
        config.control = self.exempt.control.into();
        config.established = self.exempt.established.into();
        ensure!(
            limits.len() == slots.len() && limits.len() <= config.limits.len(),
            "too many limits: write fewer"
        );
        let Shares { room, by_limit } = self.table_shares(frame_max)?;
        config.room = room;
        for (index, (limit, slot)) in (0_u32..).zip(limits.iter().zip(slots)) {
            let share = by_limit[index as usize];
            config.limits[index as usize] = rules::Limit {
                share: share.entries,
                borrows: share.borrows.into(),
                ..compile_limit(limit, slot, bits, frame_max, &self.translators())?
            };
            config.indices[slot.number as usize] = index;
            if let Some(most) = limit.connections {
                let bounds = &mut config.bounds;
                bounds.of_limits[index as usize] = Bound {
                    most: u32::try_from(most).unwrap_or(u32::MAX),
                    region: bounds.limits.count_ones(),
                };
                bounds.limits |= 1 << index;
            }
            let proof = match limit.shadow || self.shadow {
                true => Proofs::default(),
                false => limit.proof,
            };
            let bits = [
                (&mut config.proof, proof.any()),
                (&mut config.handshakes, proof.syn_cookie),
                (&mut config.truncates, proof.dns_tc),
                (&mut config.challenges, proof.a2s),
            ];
            for (limits, has_it) in bits {
                *limits |= u64::from(has_it) << index;
            }
            let slip = limit.slip.unwrap_or(1);
            config.slips[index as usize] = u32::try_from(slip).unwrap_or(u32::MAX);
        }
        config.limits_length = u32::try_from(limits.len()).unwrap_or(0);
        let constants = &mut *config;
        (constants.candidates).fill(&constants.limits[..limits.len()]);
        config.needs = limits.iter().fold(0, |needs, limit| needs | limit.needs());
        config.needs |= self.exempt.needs();
        if config.bounds.limits != 0 {
            config.bounds.lines = lines_of_connections(self.max_sources);
            config.needs |= NEEDS_TRANSPORT | NEEDS_DESTINATION;
        }
        if self.exempt.established {
            // Sockets are looked up by addresses and ports.
            config.needs |= NEEDS_TRANSPORT | NEEDS_DESTINATION | NEEDS_CONNECTION;
        }
        if self.direction == Direction::Out {
            config.egress = 1;
            // Lists are looked up by the destination.
            config.needs |= NEEDS_DESTINATION;
            let mut matches = limits.iter().flat_map(|limit| limit.matches.all());
            if matches.any(Match::names_sources) {
                config.needs |= NEEDS_SOURCE_LISTS;
            }
        }
        config.fast_path = self.takes_fast_path(slots).into();
        Ok(config)
    }

    /// Returns true if each packet needs only one bucket, so that the fast path is enough.
    fn takes_fast_path(&self, slots: &[Slot]) -> bool {
        let alone = matches!(slots, [slot] if slot.number == FIRST_SLOT);
        let only = matches!(&self.limits[..], [limit] if limit.matches.is_everything() && !limit.shadow && limit.key.needs() == 0 && limit.hold.is_none() && limit.adaptive.is_none() && !limit.proof.dns_tc);
        let inward = self.direction == Direction::In;
        alone && only && inward && self.lists.are_empty() && !self.exempt.has_control()
    }
}

/// Lines of one limit's part of the table of open connections: seven words each, half a line for each source of the table of
/// buckets. If all these had connections, one in a thousand would find no room.
fn lines_of_connections(max_sources: u32) -> u32 {
    max_sources.div_ceil(2).clamp(64, 1 << 20)
}

/// [`Constants::NONE`] on the heap. The constants take about 100 KB, and a thread may have 2 MiB of stack: they are passed
/// as a box, and only this function has a copy on the stack.
#[inline(never)]
fn no_constants() -> Box<Constants> {
    Box::new(Constants::NONE)
}

impl Exempt {
    /// Bits of what is recognised of packets, by fields of the transport header.
    fn needs(self) -> u32 {
        let kinds = [
            (self.control, NEEDS_CONTROL),
            (self.vrrp, NEEDS_VRRP),
            (self.ospf, NEEDS_OSPF),
            (self.bfd, NEEDS_BFD),
        ];
        let exempt = kinds.into_iter().filter(|(is_exempt, _)| *is_exempt);
        exempt.fold(0, |needs, (_, bit)| needs | bit | NEEDS_TRANSPORT)
    }
}

impl Limit {
    /// Bits of what the limit needs of a packet, as in [`NEEDS_TRANSPORT`].
    fn needs(&self) -> u32 {
        // Both do something about a packet that the limit has refused.
        let hold = if self.hold.is_some() || self.proof.dns_tc {
            NEEDS_HOLD
        } else {
            0
        };
        let scale = self.adaptive.as_ref().map_or(0, |_| NEEDS_SCALE);
        let pace = self.max_delay.map_or(0, |_| NEEDS_PACE);
        self.matches.needs() | self.key.needs() | hold | scale | pace
    }
}

impl Key {
    /// Bits of what the key needs of a packet besides its source.
    fn needs(&self) -> u32 {
        let ports = if self.by_port { NEEDS_TRANSPORT } else { 0 };
        let vlan = if self.by_vlan { NEEDS_VLAN } else { 0 };
        ports
            | vlan
            | match self.parts {
                Parts::Interface | Parts::Source(_) => 0,
                Parts::Destination(_) => NEEDS_DESTINATION,
                Parts::Pair { .. } => NEEDS_DESTINATION | NEEDS_PAIR,
                Parts::Flow => NEEDS_DESTINATION | NEEDS_PAIR | NEEDS_TRANSPORT,
            }
    }
}

fn compile_limit(
    limit: &Limit,
    slot: &Slot,
    bits: &TierBits,
    frame_max: u64,
    nat64: &Nat64,
) -> Result<rules::Limit, Invalid> {
    let quota = limit.quota(frame_max)?.at_phase(slot.phase).in_kernel;
    let mut past = [Rescale::NONE; PAST_QUOTAS as usize];
    let past_length = slot.past.len().min(past.len());
    past[..past_length].copy_from_slice(&slot.past[..past_length]);
    Ok(rules::Limit {
        matches: rules::Match {
            control: control::kinds(&limit.name),
            ..limit.matches.compile(bits)?
        },
        except: match &limit.matches.not {
            Some(not) => not.compile(bits)?,
            None => rules::Match::NOTHING,
        },
        quota,
        mask: limit.key.mask(nat64),
        slot: slot.number,
        shadow: limit.shadow.into(),
        epoch: slot.epoch,
        past_length: u32::try_from(past_length).unwrap_or(0),
        past,
        ..rules::Limit::NONE
    })
}

/// The limits' own buckets of new sources share one part in 8 of the burst.
const OWN_PART: u64 = 8;

/// The buckets of new sources, divided among `limits`. A single limit has the whole common bucket. With several, each
/// limit's own bucket has its share of the rate and of an eighth of the burst. The common bucket has the rest of the
/// burst. Each bucket has at least one token. A CPU's lease is at most 64, and small enough not to show. All buckets
/// together have `times` one part in `part` of the rate and the burst.
fn new_source_quota(
    new_sources: NewSources,
    (times, part): (u64, u64),
    limits: usize,
) -> Result<NewSourceQuota, Invalid> {
    let quota = new_sources.quota()?.in_kernel;
    let cost = (quota.cost.saturating_mul(part) / times).clamp(1, TAU_MAX);
    let tau = quota.tau.max(cost);
    let limits = limits.max(1) as u64;
    let lease = (new_sources.burst().saturating_mul(times) / part / 1_024 / limits).clamp(1, 64);
    let own_cost = cost.saturating_mul(limits).min(TAU_MAX);
    let (own_tau, own_cost) = match limits {
        1 => (0, 0),
        _ => ((tau / OWN_PART).max(own_cost), own_cost),
    };
    Ok(NewSourceQuota {
        tau: tau.saturating_sub(own_tau).max(cost),
        cost,
        lease,
        own_tau,
        own_cost,
    })
}

/// The prefixes of all lists, each with the lists that decide about its sources. Of `allow` and `deny` the longer prefix
/// decides, or `deny` if both are equal. Of the tiers, those with the longest prefix decide. An address is on every set of
/// destinations with a prefix around it.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// Each list with its bits.
    lists: Vec<(Prefixes, u32)>,
    /// The bits of sets.
    sets: u32,
}

impl Compiled {
    /// The prefixes in their order: each comes right before the prefixes within it. They are worked out on the way, because
    /// there may be millions.
    pub fn iter(&self) -> impl Iterator<Item = (IpNet, Listed)> {
        const ACTIONS: u32 = ON_ALLOW | ON_DENY;
        let mut around: Vec<(IpNet, u32, u32)> = Vec::new();
        self.own().map(move |(prefix, own)| {
            while (around.pop_if(|(outer, ..)| !outer.contains(&prefix))).is_some() {}
            let (inherited, allowed) =
                (around.last()).map_or((0, 0), |(_, lists, allowed)| (*lists, *allowed));
            let deciding = |mask: u32| match own & mask {
                0 => inherited & mask,
                own => own,
            };
            let action = match deciding(ACTIONS) {
                ACTIONS => ON_DENY,
                action => action,
            };
            let sets = self.sets;
            let listed = Listed {
                own,
                lists: action | deciding(!(ACTIONS | sets)) | (inherited | own) & sets,
                allowed: match own & ON_ALLOW {
                    0 => allowed,
                    _ => 1 + u32::from(prefix.prefix_len() + (128 - prefix.max_prefix_len())),
                },
            };
            around.push((prefix, listed.lists, listed.allowed));
            (prefix, listed)
        })
    }

    /// The prefixes in their order, each with the bits of the lists that it is on.
    pub(crate) fn own(&self) -> impl Iterator<Item = (IpNet, u32)> {
        let lists = self.lists.iter();
        let mut lists: Vec<_> = lists
            .map(|(prefixes, bits)| (prefixes.iter().peekable(), *bits))
            .collect();
        std::iter::from_fn(move || {
            let firsts = lists
                .iter_mut()
                .filter_map(|(left, _)| left.peek().copied());
            let first = firsts.min()?;
            let own = lists.iter_mut().fold(0, |own, (left, bits)| {
                let is_on = left.next_if_eq(&first).is_some();
                own | if is_on { *bits } else { 0 }
            });
            Some((first, own))
        })
    }
}

impl Lists {
    /// All prefixes with the lists that decide.
    pub fn compile(&self, bits: &TierBits) -> Compiled {
        let mut compiled = Compiled::default();
        for (name, prefixes) in self.all() {
            let bit = bits.of(name).map_or(0, |bit| 1 << bit);
            compiled.lists.push((prefixes.clone(), bit));
        }
        for (prefixes, bit) in bits.sets() {
            compiled.sets |= bit;
            compiled.lists.push((prefixes, bit));
        }
        compiled.lists.retain(|(prefixes, _)| !prefixes.is_empty());
        compiled
    }

    /// Recovers the lists from their prefixes, each set of them with the bits of the lists that it is on.
    pub fn from_compiled(bits: &TierBits, groups: &[(Prefixes, u32)]) -> Self {
        let prefixes_on = |bit: u32| -> Prefixes {
            let on_it = groups.iter().filter(|(_, own)| own >> bit & 1 != 0);
            match &on_it.collect::<Vec<_>>()[..] {
                // Most lists share no prefix with others.
                [(prefixes, _)] => prefixes.clone(),
                several => several.iter().flat_map(|(prefixes, _)| prefixes).collect(),
            }
        };
        let tiers = bits
            .tiers()
            .map(|name| (name.clone(), prefixes_on(bits.0[name])));
        Self {
            allow: prefixes_on(ON_ALLOW.trailing_zeros()),
            deny: prefixes_on(ON_DENY.trailing_zeros()),
            tiers: tiers.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, net::IpAddr, path::Path};

    use super::*;
    use crate::{file::parse, lists::TIERS_MAX};

    const LISTS: &str = r#"
allow = ["10.1.0.0/16", "10.1.2.3", "192.0.2.0/24", "2001:db8::/32"]
deny = ["10.0.0.0/8", "10.1.2.0/24", "192.0.2.0/24"]
gold = ["10.1.2.3", "2001:db8::/48"]
all = ["0.0.0.0/0", "10.1.2.3"]
"#;

    fn settings(lines: &str) -> Settings {
        let text = format!("[[limit]]\nname = \"a\"\nrate = 5\n{lines}");
        parse(&text, Path::new("")).unwrap().settings
    }

    fn bits(settings: &Settings) -> TierBits {
        TierBits::default().for_settings(settings).0
    }

    struct Words(Vec<u64>);

    impl limiter_common::index::Array for Words {
        fn word(&self, number: u32) -> Option<u64> {
            self.0.get(number as usize).copied()
        }
    }

    fn read_back(lists: &Lists, bits: &TierBits) -> Lists {
        let compiled = lists.compile(bits);
        let plan = crate::index::Plan::new(&compiled).unwrap();
        let mut words = Words(vec![0; plan.length as usize]);
        plan.write(|place, word| words.0[place as usize] = word);
        Lists::from_compiled(bits, &crate::index::prefixes(&words).unwrap())
    }

    /// New tiers get bits of removed ones before two tiers would have to share a bit.
    #[test]
    fn tier_keeps_its_bit_and_new_tiers_reuse_bits_if_all_are_taken() {
        let named = |names: &[String]| {
            let lines = names.iter().map(|name| format!("{name} = []\n"));
            settings(&format!("[lists]\n{}", lines.collect::<String>()))
        };
        let names = (0..TIERS_MAX).map(|number| format!("t{number:02}"));
        let mut names: Vec<_> = names.collect();
        let before = bits(&named(&names));
        names[3] = "a".to_owned();
        names[7] = "z".to_owned();
        let (after, new) = before.for_settings(&named(&names));
        let distinct: BTreeSet<_> = after.0.values().collect();
        assert_eq!(distinct.len(), TIERS_MAX, "{after:?}");
        assert_eq!(new.len(), 2);
        for name in names.iter().filter(|name| name.starts_with('t')) {
            assert_eq!(after.of(name), before.of(name), "{name} keeps its bit");
        }
    }

    /// Names of lists may look like names of hosts, or like addresses with a typing mistake.
    #[test]
    fn list_with_dots_in_its_name_is_a_list_everywhere() {
        let text = "match = { source = \"example.net\", destination = [\"example.net\", \"10.0.0.1\"] }\n\
                    [lists]\n\"example.net\" = [\"192.0.2.0/24\"]\n";
        let settings = settings(text);
        let bits = bits(&settings);
        assert_eq!(bits.tiers().collect::<Vec<_>>(), ["example.net"]);
        let bit = |name| 1 << bits.of(name).unwrap();
        let [list, set] = ["example.net", "=10.0.0.1"].map(bit);
        let matches = settings.limits[0].matches.compile(&bits).unwrap();
        assert_eq!((matches.lists, matches.destination), (list, list | set));
        assert_eq!(read_back(&settings.lists, &bits), settings.lists);
    }

    #[test]
    fn longer_prefix_beats_a_shorter_one_and_deny_beats_allow() {
        let destination = "=192.0.2.1,2001:db8:1::/48";
        let line = "match = { destination = [\"2001:db8:1::/48\", \"192.0.2.1\", \"gold\"] }";
        let settings = settings(&format!("{line}\n[lists]\n{LISTS}"));
        let (lists, bits) = (&settings.lists, bits(&settings));
        let compiled = lists.compile(&bits);
        let names = ["all", "gold", destination];
        let [all, gold, set] = names.map(|name| 1 << bits.of(name).unwrap());
        for (address, expected) in [
            ("10.9.9.9", ON_DENY | all),
            ("10.1.9.9", ON_ALLOW | all),
            ("10.1.2.9", ON_DENY | all),
            ("10.1.2.3", ON_ALLOW | all | gold),
            ("192.0.2.1", ON_DENY | all | set),
            ("192.0.2.2", ON_DENY | all),
            ("198.51.100.1", all),
            ("2001:db8:0:1::1", ON_ALLOW | gold),
            ("2001:db8:1::1", ON_ALLOW | set),
            ("2001:db8:2::1", ON_ALLOW),
            ("2001:db9::1", 0),
        ] {
            // The longest prefix decides.
            let source: IpAddr = address.parse().unwrap();
            let around = compiled
                .iter()
                .filter(|(prefix, _)| prefix.contains(&source));
            let longest = around.max_by_key(|(prefix, _)| prefix.prefix_len());
            let allow = lists.allow.iter().filter(|prefix| prefix.contains(&source));
            let allow = allow.map(|prefix| prefix.prefix_len()).max();
            let whole = 128 - u32::from(IpNet::from(source).prefix_len());
            let allowed = longest.map_or(0, |(_, listed)| listed.allowed);
            let wanted = allow.map_or(0, |length| 1 + whole + u32::from(length));
            assert_eq!(allowed, wanted, "{address}");
            let found = longest.map_or(0, |(_, listed)| listed.lists);
            assert_eq!(found, expected, "{address}");
        }
        assert_eq!(read_back(lists, &bits), *lists);
    }
}
