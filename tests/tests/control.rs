//! Control traffic has buckets per client, also of clients without an address, and is no way past lists and bans.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use limiter_common::{
    abi::CLOCK_PACKET,
    policy::{
        client::{CLIENTS, OF_RELAY},
        verdict::Reason,
    },
};
use limiter_config::{Mode, Settings};
use limiter_kernel::program::object::{self, ListMaps, Maps};
use limiter_tests::{
    control::{
        NOBODY, address, arp, bfd, dhcp, hardware, icmpv6, igmp, offer, ospf, relayed_v6, vrrp,
    },
    engine::{Kernel, constants},
    hosts::Hosts,
    need, need_kernel, number, settings,
    traffic::Traffic,
};

const START: u64 = 1_000_000_000_000;
const RELAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// The name of a message, and the message of a host.
type Message<'a, Host> = (&'a str, &'a dyn Fn(Host) -> Vec<u8>);

/// Settings with these lines, and a limit that admits one packet.
fn with(lines: &str) -> Settings {
    settings(&format!(
        "new_sources = \"none\"\n{lines}\n[[limit]]\nname = \"rest\"\nkey = \"interface\"\nrate = \"1/d\"\nburst = 1\n"
    ))
}

/// The program at each hook that this kernel has.
fn at_each_hook(settings: &Settings) -> Vec<Kernel> {
    let mut settings = settings.clone();
    let mut kernels = vec![Kernel::of(&settings)];
    if need::tcx() {
        settings.mode = Mode::Tc;
        kernels.push(Kernel::of(&settings));
    }
    kernels
}

/// Number of these packets that pass at one time.
fn passed(kernel: &Kernel, packets: impl IntoIterator<Item = Vec<u8>>) -> usize {
    let passes = |packet: &Vec<u8>| kernel.passes(packet, START);
    packets.into_iter().filter(passes).count()
}

/// The same packet twenty times.
fn twenty(packet: Vec<u8>) -> Vec<Vec<u8>> {
    vec![packet; 20]
}

/// Two hosts in different buckets of this table.
fn two_hosts(kernel: &Kernel) -> [[u8; 6]; 2] {
    use limiter_common::policy::client::{host, word};
    let seed = &kernel.tables.sets.seed;
    let number = |host_number| host(word(&hardware(host_number)), seed);
    let other = (2..).find(|other| number(*other) != number(1)).unwrap();
    [hardware(1), hardware(other)]
}

#[test]
fn host_without_an_address_has_a_bucket_by_its_hardware_address() {
    need_kernel!();
    let [nobody_v4, nobody_v6] = NOBODY;
    let messages: [Message<'_, [u8; 6]>; 6] = [
        ("dhcp", &|host| dhcp(host, None)),
        ("arp", &|host| arp(host, Ipv4Addr::UNSPECIFIED)),
        ("solicitation", &|host| icmpv6(host, nobody_v6, 135, 255)),
        ("listener report", &|host| icmpv6(host, nobody_v6, 143, 1)),
        ("igmp", &|host| igmp(host, nobody_v4)),
        ("tagged dhcp", &|host| {
            let frame = dhcp(host, None);
            [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat()
        }),
    ];
    let settings = with("exempt = [\"control\"]\n[control]\nrate = \"1/d\"\nburst = 3");
    for (name, message) in messages {
        for kernel in at_each_hook(&settings) {
            let [flooder, other] = two_hosts(&kernel);
            assert_eq!(passed(&kernel, twenty(message(flooder))), 3, "{name}");
            assert_eq!(passed(&kernel, twenty(message(other))), 3, "{name}");
            // A host with an address has a bucket by that, as before.
            for source in ["192.0.2.7", "192.0.2.8"] {
                let packet = arp(flooder, source.parse().unwrap());
                assert_eq!(passed(&kernel, twenty(packet)), 3, "{name}, {source}");
            }
        }
    }
}

/// All messages of a host without an address are charged to one bucket.
#[test]
fn host_without_an_address_has_the_same_bucket_for_all_protocols() {
    need_kernel!();
    let settings = with("exempt = [\"control\"]\n[control]\nrate = \"1/d\"\nburst = 3");
    for kernel in at_each_hook(&settings) {
        let host = hardware(7);
        let packets = [
            dhcp(host, None),
            arp(host, Ipv4Addr::UNSPECIFIED),
            icmpv6(host, NOBODY[1], 135, 255),
            igmp(host, NOBODY[0]),
            icmpv6(host, NOBODY[1], 143, 1),
        ];
        assert_eq!(passed(&kernel, packets), 3);
    }
}

/// A flood of them takes as many entries of the table as there are buckets, and what it takes of each is its part.
#[test]
fn made_up_hardware_addresses_share_a_fixed_number_of_buckets() {
    need_kernel!();
    let settings = with("exempt = [\"control\"]\nmax_sources = 16384");
    let kernel = Kernel::of(&settings);
    let flood = (0..9_000).map(|number| dhcp(hardware(number), None));
    assert_eq!(passed(&kernel, flood), 9_000, "no bucket of 200 is used up");
    let buckets = kernel.tables.sets.sources().count();
    let most = usize::try_from(CLIENTS).unwrap();
    // One more is that of the total.
    assert!((most / 2..=most + 1).contains(&buckets), "{buckets}");
    assert_eq!(passed(&kernel, [arp(hardware(1), RELAY)]), 1, "a neighbour");
}

#[test]
fn clients_of_a_relay_share_a_few_buckets_of_their_own() {
    need_kernel!();
    let settings =
        with("exempt = [\"control\"]\nmax_sources = 16384\n[control]\nrate = \"1/d\"\nburst = 3");
    let relay_v6: Ipv6Addr = "2001:db8::9".parse().unwrap();
    let peer = |number: u32| Ipv6Addr::from(0xfe80_u128 << 112 | u128::from(number));
    let ways: [Message<'_, u32>; 2] = [
        ("DHCP", &|number| dhcp(hardware(number), Some(RELAY))),
        ("DHCPv6", &|number| relayed_v6(relay_v6, peer(number))),
    ];
    for (name, message) in ways {
        for kernel in at_each_hook(&settings) {
            // Enough clients for each of the relay's buckets.
            let flood = (0..400).map(message);
            let passed_of_all = passed(&kernel, flood.flat_map(|frame| vec![frame; 2]));
            let most = 3 * usize::try_from(OF_RELAY).unwrap();
            // By chance, a few of them are the same.
            let range = most * 2 / 3..=most;
            assert!(range.contains(&passed_of_all), "{name}: {passed_of_all}");
            assert_eq!(
                passed(&kernel, [message(5_000)]),
                0,
                "{name}: no more for this relay"
            );
            assert_eq!(
                passed(&kernel, [dhcp(hardware(1), None)]),
                1,
                "{name}: a host"
            );
            // By chance, another relay may have one of these buckets for a client.
            let other = |last| dhcp(hardware(1), Some(Ipv4Addr::new(10, 0, 0, last)));
            assert!(
                passed(&kernel, (2..8).map(other)) > 3,
                "{name}: other relays"
            );
        }
    }
}

/// Without an Ethernet header, only DHCP names its client: other hosts without an address share one bucket.
#[test]
fn without_an_ethernet_header_dhcp_names_its_client() {
    need_kernel!();
    if !need::tcx() {
        return;
    }
    let mut settings = with("exempt = [\"control\"]\n[control]\nrate = \"1/d\"\nburst = 3");
    settings.mode = Mode::Tc;
    let (mut config, prefixes) = constants(&settings, CLOCK_PACKET);
    config.no_ethernet = 1;
    let kernel =
        Kernel::over(object::load(&config, Maps::New, ListMaps::New(&prefixes), false).unwrap());
    let [first, second] = two_hosts(&kernel);
    for host in [first, second] {
        assert_eq!(passed(&kernel, twenty(dhcp(host, None))), 3);
    }
    let solicitation = |host| icmpv6(host, NOBODY[1], 135, 255);
    assert_eq!(passed(&kernel, twenty(solicitation(first))), 3);
    assert_eq!(passed(&kernel, twenty(solicitation(second))), 0);
}

/// Advertisements of a second master pass while pings of the same address are above the limit.
#[test]
fn routing_protocols_pass_a_used_up_limit_if_they_are_exempt_by_name() {
    need_kernel!();
    let sources = ["192.0.2.7", "fe80::7"].map(address);
    for (name, packet) in [
        (
            "vrrp",
            &(|from| vrrp(from, 255)) as &dyn Fn(IpAddr) -> Vec<u8>,
        ),
        ("ospf", &|from| ospf(from)),
        ("bfd", &|from| bfd(from, 255)),
    ] {
        for source in sources {
            let pass = |exempt: &str, packet: &dyn Fn(IpAddr) -> Vec<u8>| {
                let settings = with(&format!("exempt = [{exempt}]"));
                let kernels = at_each_hook(&settings);
                let counts = kernels
                    .iter()
                    .map(|kernel| passed(kernel, twenty(packet(source))));
                let counts: BTreeSet<_> = counts.collect();
                assert_eq!(counts.len(), 1, "{name}: {counts:?}");
                *counts.first().unwrap()
            };
            assert_eq!(
                pass(&format!("\"{name}\""), packet),
                20,
                "{name} of {source}"
            );
            let others = ["vrrp", "ospf", "bfd"].map(|other| format!("\"{other}\""));
            let others = others.into_iter().filter(|other| !other.contains(name));
            let others = others.collect::<Vec<_>>().join(", ");
            assert_eq!(pass(&others, packet), 1, "{name} without its name");
            assert_eq!(
                pass("\"control\"", packet),
                1,
                "{name} is not control traffic of the link"
            );
            if name != "ospf" {
                let from_far = |from: IpAddr| match name {
                    "vrrp" => vrrp(from, 254),
                    _ => bfd(from, 254),
                };
                let passed = pass(&format!("\"{name}\""), &from_far);
                assert_eq!(passed, 1, "{name} from behind a router");
            }
        }
    }
}

#[test]
fn routing_protocols_have_a_rate_of_their_own_within_the_total() {
    need_kernel!();
    let settings = with(
        "exempt = [\"control\", \"vrrp\", \"ospf\"]\n\
         [control]\nrate = \"1/d\"\nburst = 4\nrouting = \"2/s\"\ntotal = \"10/s\"",
    );
    for kernel in at_each_hook(&settings) {
        let source = |number: u8| IpAddr::from([192, 0, 2, number]);
        // Two seconds of the rate, for all protocols together.
        assert_eq!(passed(&kernel, twenty(vrrp(source(7), 255))), 4);
        assert_eq!(passed(&kernel, twenty(ospf(source(7)))), 0);
        assert_eq!(
            passed(
                &kernel,
                twenty(arp(hardware(1), Ipv4Addr::new(192, 0, 2, 7)))
            ),
            4
        );
        // 2 of 10 are left of the total.
        assert_eq!(passed(&kernel, twenty(vrrp(source(8), 255))), 2);
        assert_eq!(passed(&kernel, [arp(hardware(2), RELAY)]), 0);
    }
}

#[test]
fn lists_decide_about_control_traffic_that_may_come_from_far() {
    need_kernel!();
    let settings = with(
        "exempt = [\"control\", \"vrrp\", \"ospf\", \"bfd\"]\n\
         [lists]\ndeny = [\"192.0.2.0/24\", \"fe80::/10\", \"2001:db8::/32\", \"0.0.0.0/8\"]\n\
         allow = [\"192.0.2.8\", \"fe80::8\"]",
    );
    let relay = |last| dhcp(hardware(1), Some(Ipv4Addr::new(192, 0, 2, last)));
    let relay_v6 = "2001:db8::7".parse().unwrap();
    for kernel in at_each_hook(&settings) {
        for (denied, allowed) in [("192.0.2.7", "192.0.2.8"), ("fe80::7", "fe80::8")] {
            for packet in [
                &(|from| vrrp(from, 255)) as &dyn Fn(IpAddr) -> Vec<u8>,
                &|from| ospf(from),
                &|from| bfd(from, 255),
            ] {
                let offered = |source| kernel.offer(&packet(address(source)), START);
                assert_eq!(offered(denied), Reason::Deny);
                assert_eq!(offered(allowed), Reason::Allowed);
            }
        }
        assert_eq!(kernel.offer(&relay(7), START), Reason::Deny);
        assert_eq!(kernel.offer(&relay(8), START), Reason::Allowed);
        let forwarded = relayed_v6(relay_v6, relay_v6);
        assert_eq!(kernel.offer(&forwarded, START), Reason::Deny);
        // Packets that a host needs to be on its link at all.
        for packet in [
            arp(hardware(1), Ipv4Addr::new(192, 0, 2, 7)),
            icmpv6(hardware(1), address("fe80::7"), 135, 255),
            icmpv6(hardware(1), address("fe80::7"), 130, 1),
            igmp(hardware(1), address("192.0.2.7")),
            dhcp(hardware(1), None),
            offer(address("192.0.2.7")),
        ] {
            assert_eq!(
                kernel.offer(&packet, START),
                Reason::Admitted,
                "{packet:02x?}"
            );
        }
    }
}

#[test]
fn bans_decide_about_control_traffic_that_may_come_from_far() {
    need_kernel!();
    let modes: &[&str] = if need::tcx() {
        &["xdp", "tc"]
    } else {
        &["xdp"]
    };
    for mode in modes {
        let hosts = Hosts::new();
        hosts.attach_file(&format!(
            "interfaces = [\"eth0\"]\nmode = \"{mode}\"\nexempt = [\"control\", \"vrrp\", \"ospf\", \"bfd\"]\n\
             [[limit]]\nname = \"rest\"\nrate = \"1/d\"\nburst = 1\n"
        ));
        let traffic = Traffic::new(&hosts);
        hosts.run("ban eth0 192.0.2.7 fe80::7");
        let [v4, v6] = ["192.0.2.7", "fe80::7"].map(address);
        let relay = Ipv4Addr::new(192, 0, 2, 7);
        let from_far = [
            vrrp(v4, 255),
            vrrp(v6, 255),
            ospf(v4),
            ospf(v6),
            bfd(v4, 255),
            bfd(v6, 255),
            dhcp(hardware(1), Some(relay)),
            offer(v4),
        ];
        for packet in &from_far {
            assert_eq!(traffic.send(&[packet]), 0, "{mode}: {packet:02x?}");
        }
        let dropped = number(&hosts.status()["drops"]["ban"]["packets"]);
        assert_eq!(dropped, from_far.len() as u64, "{mode}");
        for packet in [
            arp(hardware(1), relay),
            icmpv6(hardware(1), v6, 135, 255),
            icmpv6(hardware(1), v6, 130, 1),
            igmp(hardware(1), v4),
        ] {
            assert_eq!(traffic.send(&[&packet]), 1, "{mode}: {packet:02x?}");
        }
        hosts.run("unban eth0 192.0.2.7 fe80::7");
        for packet in &from_far {
            assert_eq!(traffic.send(&[packet]), 1, "{mode}: {packet:02x?}");
        }
    }
}
