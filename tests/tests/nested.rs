//! A packet is charged to every limit that matches it, or to none, with nested limits and two CPUs.

use std::net::{IpAddr, Ipv4Addr};

use limiter_common::{
    abi::{CLOCK_KERNEL, CLOCK_PACKET},
    arithmetic::bucket::ticks,
    policy::verdict::Reason,
};
use limiter_config::Settings;
use limiter_kernel::sys::clock;
use limiter_tests::{
    cpus::{alone, on_two},
    engine::{FRAME_MAX, Kernel},
    need_kernel,
    packet::udp_of_length,
    settings,
};

/// Number of CPUs. Each may leave one packet charged after a lost race.
const CPUS: u64 = 2;

/// Limits by source, by /24 and for the interface. The first two have large bursts, and refill less than one packet
/// during a test, so that their buckets show the exact charges. Packets compete for the tokens of the last limit.
struct Nest {
    what: &'static str,
    /// Rate and burst of the limits by source and by /24.
    deep: &'static str,
    /// The interface's limit: rate and burst, burst in packets, and rate in packets per second.
    scarce: (&'static str, f64, f64),
    /// Bytes of a packet.
    length: usize,
}

const NESTS: [Nest; 3] = [
    Nest {
        what: "packets",
        deep: "rate = \"1/m\"\nburst = \"250k\"",
        scarce: ("rate = \"20k/s\"\nburst = 10", 10.0, 20_000.0),
        length: 60,
    },
    Nest {
        what: "bytes",
        deep: "rate = \"80bit\"\nburst = \"170mb\"",
        // The rate is 2,000 packets per second.
        scarce: ("rate = \"24352kbit\"\nburst = \"3044b\"", 2.0, 2_000.0),
        length: FRAME_MAX as usize,
    },
    Nest {
        what: "windows",
        deep: "rate = \"250k/200d\"\nalgorithm = \"fixed-window\"",
        scarce: ("rate = \"20k/s\"\nburst = 10", 10.0, 20_000.0),
        length: 60,
    },
];

/// Orders of the limits. If the interface's limit is the last one, earlier charges must be refunded.
const ORDERS: [[&str; 3]; 2] = [
    ["source", "subnet", "interface"],
    ["interface", "subnet", "source"],
];

impl Nest {
    fn settings(&self, order: [&str; 3], of_interface: &str) -> Settings {
        let limit = |name: &str| {
            let (key, quota) = match name {
                "source" => ("/32,/128", self.deep),
                "subnet" => ("/24,/48", self.deep),
                _ => ("interface", of_interface),
            };
            format!("[[limit]]\nname = \"{name}\"\nkey = \"{key}\"\n{quota}\n")
        };
        settings(&order.map(limit).concat())
    }

    /// A packet of this CPU's source. Both sources are in one /24.
    fn packet(&self, cpu: usize) -> Vec<u8> {
        let source = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10 + cpu as u8));
        udp_of_length(source, self.length)
    }

    /// Number of packets charged to all buckets of the limit `name`. The buckets were full at `since`.
    fn charged(&self, kernel: &Kernel, settings: &Settings, name: &str, since: u64) -> u64 {
        let index = settings.limits.iter().position(|limit| limit.name == name);
        let index = index.unwrap();
        let quota = settings.limits[index].quota(FRAME_MAX).unwrap().in_kernel;
        let cost = quota.cost_of(self.length as u64);
        let of_limit = kernel
            .tables
            .sets
            .sources()
            .filter(|(key, _)| key.slot() as usize == index);
        of_limit
            .map(|(_, bucket)| {
                let spent = if quota.window.period == 0 {
                    // The bucket was not full again, so the difference between its TAT and `since` is the charges.
                    bucket.tat.wrapping_sub(ticks(since))
                } else {
                    quota.tau - quota.left(bucket.tat, since)
                };
                spent / cost
            })
            .sum()
    }

    /// Panics unless each of the two deep limits was charged `passed` packets.
    fn expect_all_or_nothing(&self, kernel: &Kernel, settings: &Settings, since: u64, passed: u64) {
        let title = self.what;
        for name in ["source", "subnet"] {
            let charged = self.charged(kernel, settings, name, since);
            assert!(
                (passed..=passed + CPUS).contains(&charged),
                "{title}: {passed} passed, {charged} were charged to {name}"
            );
        }
        for index in 0..settings.limits.len() as u32 {
            let counted = kernel.tables.limit(index).unwrap().admitted.packets;
            assert_eq!(counted, passed, "{title}: counted for limit {index}");
        }
    }
}

/// The table has no room for one of a packet's buckets. Room is reserved before the first limit is charged.
#[test]
fn packet_without_table_room_is_charged_to_no_limit() {
    need_kernel!();
    const START: u64 = 1_000_000_000_000;
    for nest in &NESTS {
        let mut settings = nest.settings(ORDERS[1], nest.deep);
        (settings.max_sources, settings.new_sources) = (64, None);
        let kernel = Kernel::with_clock(&settings, CLOCK_PACKET);
        let offer = |host| {
            let source = IpAddr::V4(Ipv4Addr::new(192, 0, 2, host));
            kernel.offer(&udp_of_length(source, nest.length), START)
        };
        let (passed, refused): (Vec<_>, Vec<_>) = (0..=u8::MAX)
            .map(offer)
            .partition(|reason| *reason == Reason::Admitted);
        assert!(!passed.is_empty() && !refused.is_empty(), "{}", nest.what);
        let are_of_new_sources = refused.iter().all(|reason| *reason == Reason::NewSource);
        assert!(are_of_new_sources, "{}: {refused:?}", nest.what);
        let passed = passed.len() as u64;
        for (index, limit) in settings.limits.iter().enumerate() {
            let title = format!("{}, {}", nest.what, limit.name);
            let charged = nest.charged(&kernel, &settings, &limit.name, START);
            assert_eq!(charged, passed, "{title}: charged, and passed");
            let counted = kernel.tables.limit(index as u32).unwrap().admitted.packets;
            assert_eq!(counted, passed, "{title}: counted");
        }
    }
}

/// Refused packets are charged to no limit.
#[test]
fn flood_from_two_cpus_stays_within_nested_limits() {
    need_kernel!();
    let _alone = alone();
    for (nest, order) in NESTS
        .iter()
        .flat_map(|nest| ORDERS.map(|order| (nest, order)))
    {
        let (quota, burst, per_second) = nest.scarce;
        let settings = nest.settings(order, quota);
        let kernel = Kernel::with_clock(&settings, CLOCK_KERNEL);
        let before = clock::now().unwrap();
        on_two(|cpu| {
            let packet = nest.packet(cpu);
            while clock::now().unwrap() < before + 600_000_000 {
                kernel.repeat(&packet, 100_000);
            }
        });
        let after = clock::now().unwrap();

        let counters = kernel.tables.counters().unwrap();
        let packets = |reason: Reason| counters.by_reason[reason as usize].packets;
        let (passed, dropped) = (packets(Reason::Admitted), packets(Reason::Limit));
        let most = burst + per_second * (after - before) as f64 / 1e9;
        let title = nest.what;
        assert!(passed as f64 <= most, "{title}: {passed} > {most}");
        assert!(
            passed as f64 > burst && dropped > passed,
            "{title}: they did compete: {counters:?}"
        );
        nest.expect_all_or_nothing(&kernel, &settings, before, passed);
    }
}
