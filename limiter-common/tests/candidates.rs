//! Every limit that matches a packet is a candidate, and a candidate without further conditions matches.

use std::collections::BTreeSet;

use limiter_common::{
    abi::rules::{
        ANY, ANYWHERE, CONTROL_KINDS, CONTROL_ROUTING, DESTINATION_PORT, FIELDS, FIRST_FRAGMENT,
        LATER_FRAGMENT, LENGTH, LIMITS_MAX, Limit, Match, NONE, RANGES_MAX, Range, SOURCE_PORT,
        WHOLE,
    },
    pod::Pod as _,
    policy::{PacketInfo, bits::SPLIT_MAX, candidates::Candidates},
    table::key::{Address, IPV4, IPV6},
};
use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed},
};

/// The fields of a packet, and the lists that its source is on.
type Packet = (PacketInfo, u32);

/// Evaluates a match as `rules::Match` documents it.
fn holds(matches: &Match, (packet, lists): Packet) -> bool {
    let in_ranges = |field: usize, value: u32| {
        let ranges = matches.ranges(field);
        let is_in = |range: &Range| range.first() <= value && value <= range.last();
        ranges.is_empty() || value == ANY || ranges.iter().any(is_in)
    };
    let kinds = [matches.control, packet.control];
    (kinds == [0, 0] || matches.control & packet.control != 0)
        && (matches.family == 0 || matches.family == packet.source.family)
        && (matches.protocol == ANY || [ANY, matches.protocol].contains(&packet.protocol))
        && matches.fragments & packet.fragment != 0
        && (matches.flags_mask == 0
            || packet.flags == ANY
            || packet.flags != NONE && packet.flags & matches.flags_mask == matches.flags)
        && (matches.lists == 0 || matches.lists & lists != 0)
        && matches.unless & lists == 0
        && in_ranges(DESTINATION_PORT, packet.destination_port)
        && in_ranges(SOURCE_PORT, packet.source_port)
        && in_ranges(LENGTH, packet.length)
}

/// A few ports at byte boundaries, so that random packets often match random limits.
fn ports() -> impl Strategy<Value = u16> {
    prop_oneof![
        Just(0),
        Just(53),
        Just(255),
        Just(256),
        Just(257),
        Just(511),
        Just(512),
        Just(u16::MAX),
        any::<u16>()
    ]
}

fn ranges() -> impl Strategy<Value = Vec<Range>> {
    let range = (ports(), ports()).prop_map(|(a, b)| Range::new(a.min(b), a.max(b)));
    prop_oneof![1 => Just(Vec::new()), 1 => proptest::collection::vec(range, 1..=RANGES_MAX)]
}

fn protocols() -> impl Strategy<Value = u32> {
    prop_oneof![Just(ANY), Just(6), Just(17), Just(0), Just(255)]
}

fn limits() -> impl Strategy<Value = Limit> {
    let first = (
        prop_oneof![9 => Just(0), 1 => 1..=CONTROL_KINDS],
        prop_oneof![Just(0), Just(IPV4), Just(IPV6)],
        protocols(),
        1..=(WHOLE | FIRST_FRAGMENT | LATER_FRAGMENT),
        prop_oneof![3 => Just(0), 1 => Just(0x12_u32)],
    );
    let second = (
        prop_oneof![3 => Just(0), 1 => Just(4_u32)],
        prop_oneof![3 => Just(0), 1 => Just(8_u32)],
        prop_oneof![
            3 => Just(Vec::new()),
            1 => Just(vec![Range::new(100, u16::MAX)]),
            1 => Just(vec![Range::new(0, 99)]),
        ],
        ranges(),
        ranges(),
    );
    (first, second).prop_map(
        |(
            (control, family, protocol, fragments, flags_mask),
            (lists, unless, length, destination_ports, source_ports),
        )| Limit {
            matches: Match {
                control,
                family,
                protocol,
                fragments,
                flags_mask,
                flags: flags_mask & 2,
                lists,
                unless,
                ..Match::EVERYTHING
            }
            .with(DESTINATION_PORT, &destination_ports)
            .with(SOURCE_PORT, &source_ports)
            .with(LENGTH, &length),
            ..Limit::NONE
        },
    )
}

fn packets() -> impl Strategy<Value = Packet> {
    let port = || prop_oneof![4 => ports().prop_map(u32::from), 1 => Just(ANY), 1 => Just(NONE)];
    (
        0..=CONTROL_ROUTING,
        prop_oneof![Just(IPV4), Just(IPV6)],
        protocols(),
        prop_oneof![
            Just(WHOLE),
            Just(FIRST_FRAGMENT),
            Just(LATER_FRAGMENT),
            Just(ANYWHERE)
        ],
        prop_oneof![Just(ANY), Just(NONE), Just(0), Just(2), Just(0x12_u32)],
        prop_oneof![Just(0), Just(4), Just(8), Just(12_u32)],
        port(),
        port(),
        prop_oneof![Just(60), Just(1_500_u32)],
    )
        .prop_map(
            |(
                control,
                family,
                protocol,
                fragment,
                flags,
                lists,
                destination_port,
                source_port,
                length,
            )| {
                let source = Address {
                    family,
                    ..Address::default()
                };
                let info = PacketInfo {
                    control,
                    protocol,
                    fragment,
                    flags,
                    destination_port,
                    source_port,
                    length,
                    ..PacketInfo::of(source)
                };
                (info, lists)
            },
        )
}

proptest! {
    #![proptest_config(Config {
        cases: 150,
        rng_seed: RngSeed::Fixed(0xca4d),
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn matching_limits_are_candidates_and_certain_candidates_match(
        limits in proptest::collection::vec(limits(), 0..=LIMITS_MAX as usize),
        packets in proptest::collection::vec(packets(), 1..20),
    ) {
        let mut all = Candidates::ZEROS;
        all.fill(&limits);
        for mut packet in packets {
            // Control traffic is told apart only if it has limits of its own.
            if limits.iter().all(|limit| limit.matches.control == 0) {
                packet.0.control = 0;
            }
            let found = all.of_packet(&packet.0, packet.1, true);
            prop_assert_eq!(found >> limits.len(), 0);
            for (bit, limit) in limits.iter().enumerate() {
                let is_candidate = found >> bit & 1 != 0;
                if holds(&limit.matches, packet) {
                    prop_assert!(is_candidate, "{:?} {:?}", limit.matches, packet);
                } else if is_candidate {
                    prop_assert!(all.uncertain(packet.1) >> bit & 1 != 0, "{:?} {:?}", limit.matches, packet);
                }
            }
        }
    }

    /// Conditions without words of their own are compared for each candidate.
    #[test]
    fn limit_with_other_conditions_is_uncertain(
        (except, destination, end, field) in (any::<bool>(), 0..2_u32, 0..2_u32, 0..FIELDS),
    ) {
        let mut limit = Limit::NONE;
        if except {
            limit.except = Match::EVERYTHING;
        }
        limit.matches.destination = destination << 4;
        limit.matches.payload.end = end;
        limit.matches = limit.matches.with(field, &[Range::new(5, 9)]);
        let mut all = Candidates::ZEROS;
        all.fill(&[limit]);
        let decided = [DESTINATION_PORT, SOURCE_PORT].contains(&field);
        let wanted = except || destination != 0 || end != 0 || !decided;
        prop_assert_eq!(all.uncertain(0), u64::from(wanted));
    }

    /// Without this, the candidate sets would save no work.
    #[test]
    fn ports_and_flags_decide_up_to_a_number_of_blocks(
        ports in proptest::collection::vec(any::<u16>(), 1..=2 * SPLIT_MAX),
        mut other in any::<u16>(),
        near: bool,
        flags in 0..=255_u32,
    ) {
        if near {
            other = other & 0xff | ports[0] & 0xff00;
        }
        let ranges: Vec<_> = ports.iter().map(|port| Range::new(*port, *port)).collect();
        let mut limit = Limit::NONE;
        limit.matches = limit.matches.with(DESTINATION_PORT, &ranges);
        (limit.matches.flags_mask, limit.matches.flags) = (0x12, 0x02);
        let mut all = Candidates::ZEROS;
        all.fill(&[limit]);
        let mut packet = PacketInfo::of(Address::ipv4(0));
        (packet.destination_port, packet.flags) = (other.into(), flags);
        let found = all.of_packet(&packet, 0, true) != 0;
        let blocks: BTreeSet<_> = ports.iter().map(|port| port >> 8).collect();
        prop_assert_eq!(all.uncertain(0) != 0, blocks.len() > SPLIT_MAX);
        let is_open = flags & 0x12 == 0x02;
        prop_assert!(!ports.contains(&other) || !is_open || found);
        prop_assert!(!found || is_open && blocks.contains(&(other >> 8)));
        if blocks.len() <= SPLIT_MAX {
            prop_assert_eq!(found, is_open && ports.contains(&other));
        }
    }
}
