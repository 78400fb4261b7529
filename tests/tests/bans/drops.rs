//! Drops by bans are counted: exactly if they are few, within one step per CPU if they are many.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Barrier,
    thread,
};

use aya::maps::{Array, HashMap, lpm_trie::Key};
use limiter_common::{
    abi::{CLOCK_KERNEL, PrefixBans, events::Switches},
    policy::ban::{EXACT, STEP},
};
use limiter_kernel::program::raw::Raw;
use limiter_tests::{
    cpus::{alone, pin_to},
    engine::Kernel,
    hosts::Hosts,
    need_kernel,
    packet::Frame,
    settings,
    test_run::test_run,
    traffic::Traffic,
};
use serde_json::{Value, json};

use super::{FAST, dropped};

#[test]
fn few_drops_are_counted_exactly_and_shown_by_ban() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(FAST);
    hosts.run(&[
        "ban",
        "eth0",
        "203.0.113.66",
        "--for",
        "500s",
        "--reason",
        "ssh brute force",
    ]);
    hosts.run("ban eth0 198.51.100.0/24 2001:db8:bad::/48");
    let traffic = Traffic::new(&hosts);
    for (source, sent) in [
        ("198.51.100.1", 300),
        ("198.51.100.2", 400),
        ("203.0.113.66", 37),
        ("2001:db8:bad::7", EXACT),
    ] {
        assert_eq!(traffic.passed(source, sent), 0, "{source}");
    }
    let text = hosts.run("check eth0 203.0.113.66");
    let words = [
        "  203.0.113.66 banned for 8m ",
        " more by hand: ssh brute force\n    37 dropped by it\n",
    ];
    assert!(words.iter().all(|words| text.contains(words)), "{text}");
    hosts.run("ban eth0 203.0.113.66");
    assert_eq!(dropped(&hosts, "203.0.113.66"), 37, "renewed");
    let bans = hosts.json("bans eth0 --json");
    let row = |row: &Value| json!([row["prefix"], row["dropped_packets"]]);
    let rows: Vec<_> = bans["bans"].as_array().unwrap().iter().map(row).collect();
    let wanted = [
        json!(["198.51.100.0/24", 700]),
        json!(["203.0.113.66", 37]),
        json!(["2001:db8:bad::/48", EXACT]),
    ];
    assert_eq!(rows, wanted, "{bans}");
}

#[test]
fn many_drops_on_two_cpus_are_counted_within_one_step_per_cpu() {
    need_kernel!();
    let _alone = alone();
    const PACKETS: u32 = 200_003;
    let source: IpAddr = [203, 0, 113, 66].into();
    for file in [
        "rate = \"1/h\"",
        "rate = \"1/h\"\nmatch = { protocol = \"udp\" }",
    ] {
        let text = format!("[[limit]]\nname = \"one\"\n{file}\n");
        let mut kernel = Kernel::with_clock(&settings(&text), CLOCK_KERNEL);
        let mut banned = Switches::default();
        banned.bans.counts = [1, 0];
        let map = kernel.program.map_mut("SWITCHES").unwrap();
        let mut switches: Array<_, Raw<Switches>> = map.try_into().unwrap();
        switches.set(0, Raw(banned), 0).unwrap();
        let map = kernel.program.map_mut("BANS").unwrap();
        let mut addresses: HashMap<_, Key<[u8; 16]>, Raw<PrefixBans>> = map.try_into().unwrap();
        let address: Ipv6Addr = "::ffff:203.0.113.66".parse().unwrap();
        let key = Key::new(128, address.octets());
        let ban = PrefixBans {
            bits: 128,
            ..PrefixBans::default()
        };
        addresses.insert(key, Raw(ban), 0).unwrap();
        let cpus = thread::available_parallelism().unwrap().get().min(2);
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            for cpu in 0..2 {
                let (kernel, barrier) = (&kernel, &barrier);
                scope.spawn(move || {
                    pin_to(cpu % cpus);
                    let mut packet = Frame::from(source).bytes();
                    barrier.wait();
                    let program = kernel.program.fd().unwrap();
                    let run = test_run(program, &mut packet, 0, PACKETS).unwrap();
                    assert_eq!(run.action, 1, "XDP_DROP");
                });
            }
        });
        let map = kernel.program.map_mut("BANS").unwrap();
        let addresses: HashMap<_, Key<[u8; 16]>, Raw<PrefixBans>> = map.try_into().unwrap();
        let Raw(PrefixBans { dropped, .. }) = addresses.get(&key, 0).unwrap();
        let sent = 2 * u64::from(PACKETS);
        assert!(dropped.abs_diff(sent) <= 2 * STEP, "{dropped} of {sent}");
        assert!(dropped > EXACT + STEP, "no change was counted");
    }
}
