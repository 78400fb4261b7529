//! A flood of made-up sources on one limit leaves other limits their shares of the table and of new sources.

use aya::maps::{Array, Map, MapData};
use limiter_common::{abi::Share, policy::verdict::Reason};
use limiter_kernel::program::raw;
use limiter_tests::{
    engine::Kernel,
    eventually,
    files::{Folder, at_driver},
    hosts::Hosts,
    need_kernel,
    packet::{Ends, Segment},
    raw::Raw,
    settings,
};

const START: u64 = 1_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// Two limits: one keeps a source for 12 minutes, the other for a millisecond.
const SSH_AND_WEB: &str = r#"
    [[limit]]
    name = "ssh"
    match = { protocol = "tcp", destination_port = 22 }
    rate = "5/h"
    burst = 5
    [[limit]]
    name = "web"
    match = { protocol = "tcp", destination_port = 80 }
    rate = "1000/s"
"#;
const SSH: u16 = 22;
const WEB: u16 = 80;

/// A SYN of the `number`-th source of the network `10 + net`.
fn syn(net: u8, number: u32, port: u16) -> Vec<u8> {
    let [_, b, c, d] = number.to_be_bytes();
    let ends = Ends {
        macs: ([2; 6], [4; 6]),
        from: ([10 + net, b, c, d], 40_000).into(),
        to: ([192, 0, 2, 1], port).into(),
    };
    ends.tcp(Segment::Syn)
}

/// Number of entries that the limit in `slot` holds, counted in the table.
fn entries(kernel: &Kernel, slot: u32) -> u64 {
    let all = kernel.store.entries().into_iter();
    all.filter(|entry| entry.key.slot() == slot).count() as u64
}

const CLIENTS: u32 = 250;

/// Sends for `seconds` from `per_second` sources, `packets` packets each, to the port `flooded`. [`CLIENTS`] new
/// clients connect to `port` meanwhile, and as many in the 10 seconds after that: at least 95 % of them must get in.
/// Returns the numbers of admitted packets of the flood, and of clients admitted meanwhile.
fn flood(
    kernel: &Kernel,
    flooded: u16,
    port: u16,
    (seconds, per_second, packets): (u64, u64, u32),
) -> (u64, u64) {
    let sources = seconds * per_second;
    let mut client = 0;
    let mut admits = |now: u64| {
        client += 1;
        u64::from(kernel.passes(&syn(1, client, port), now))
    };
    let (mut admitted, mut during) = (0, 0);
    for number in 1..=sources {
        let now = START + number * SECOND / per_second;
        for _ in 0..packets {
            admitted += u64::from(kernel.passes(&syn(0, number as u32, flooded), now));
        }
        if number.is_multiple_of(sources / u64::from(CLIENTS)) {
            during += admits(now);
        }
    }
    let times = (1..=u64::from(CLIENTS)).map(|n| START + seconds * SECOND + n * 40_000_000);
    let after: u64 = times.map(admits).sum();
    for clients in [during, after] {
        let least = (u64::from(CLIENTS) * 95).div_ceil(100);
        assert!(clients >= least, "{during} during the flood, {after} after");
    }
    (admitted, during)
}

/// The table and the new-source limit have their default sizes.
#[test]
fn flood_of_a_slow_limit_admits_new_clients_of_another_one() {
    need_kernel!();
    let kernel = Kernel::of(&settings(SSH_AND_WEB));
    flood(&kernel, SSH, WEB, (10, 12_000, 1));
}

/// The program with a small table.
fn small() -> Kernel {
    let text = format!("max_sources = 4096\nnew_sources = \"none\"\n{SSH_AND_WEB}");
    Kernel::of(&settings(&text))
}

/// Half of seven eighths of the table is divided between the limits. Only fast limits may borrow from the other half.
#[test]
fn slow_limit_takes_at_most_its_share_of_entries() {
    need_kernel!();
    let kernel = small();
    let (admitted, _) = flood(&kernel, SSH, WEB, (1, 12_000, 1));
    let share = 4_096 * 7 / 8 / 2 / 2;
    assert_eq!((admitted, entries(&kernel, 0)), (share, share));
}

/// The flood's sources send twice, and so are kept for 10 more seconds.
#[test]
fn flood_of_a_fast_limit_leaves_a_slow_limit_its_share() {
    need_kernel!();
    let kernel = small();
    flood(&kernel, WEB, SSH, (1, 12_000, 2));
    let room = 4_096 * 7 / 8;
    // The last clients come 10 seconds after the flood's beginning, and take some of its entries.
    let most = room - room / 4;
    assert!((most - 100..=most).contains(&entries(&kernel, 1)));
}

/// A trial of a limit must not lock out new clients when its share of the table is full.
#[test]
fn limit_in_shadow_without_room_lets_new_sources_pass() {
    need_kernel!();
    let text = r#"
        max_sources = 4096
        new_sources = "none"
        [[limit]]
        name = "all"
        rate = "1000/s"
        [[limit]]
        name = "ssh"
        match = { protocol = "tcp", destination_port = 22 }
        rate = "5/h"
        burst = 5
        shadow = true
    "#;
    let kernel = Kernel::of(&settings(text));
    for number in 1..=4_000 {
        let now = START + u64::from(number) * SECOND / 12_000;
        assert!(kernel.passes(&syn(0, number, SSH), now), "{number}");
    }
    assert_eq!(entries(&kernel, 1), 4_096 * 7 / 8 / 2 / 2);
}

/// The second chances that a limit in shadow lacks must not take the place of another limit's first tokens.
#[test]
fn limit_in_shadow_leaves_other_limits_their_tokens() {
    need_kernel!();
    let text = r#"
        new_sources = "1/h"
        new_sources_burst = 64
        [[limit]]
        name = "all"
        rate = "5/s"
        shadow = true
        [[limit]]
        name = "web"
        match = { protocol = "tcp", destination_port = 80 }
        rate = "5/s"
    "#;
    let kernel = Kernel::of(&settings(text));
    let offer = |number, port, now| kernel.offer(&syn(0, number, port), now);
    let refused: Vec<u32> = (1..=80)
        .filter(|number| offer(*number, SSH, START) == Reason::WouldDrop)
        .collect();
    assert_eq!(refused.len(), 20, "a sixteenth is of the limit `web`");
    let (again, others) = refused.split_at(16);
    let came: Vec<_> = (again.iter())
        .map(|number| offer(*number, SSH, START + SECOND))
        .collect();
    assert_eq!(came[15], Reason::WouldDrop, "no second chance is left");
    for number in others {
        let reason = offer(*number, WEB, START + SECOND);
        assert_eq!(reason, Reason::WouldDrop, "{number}");
    }
}

#[test]
fn flood_leaves_the_other_limit_its_share_of_new_sources() {
    need_kernel!();
    let text = format!("new_sources = \"500/s\"\nnew_sources_burst = 100\n{SSH_AND_WEB}");
    let (admitted, clients) = flood(&Kernel::of(&settings(&text)), SSH, WEB, (4, 12_000, 1));
    // All new sources together stay within the limit.
    let all = admitted + clients;
    assert!((100 + 4 * 450..=100 + 4 * 500).contains(&all), "{all}");
}

/// A program with one limit counts no entries. Its entries, including those of reset sources, are counted when a second
/// limit is added.
#[test]
fn entries_are_counted_when_a_second_limit_begins_to_share_the_table() {
    need_kernel!();
    let hosts = Hosts::new();
    let folder = Folder::new();
    let held = || {
        let map = MapData::from_pin(hosts.pins().join("SHARES")).unwrap();
        let shares: Array<_, raw::Raw<Share>> = Map::Array(map).try_into().unwrap();
        shares.get(&0, 0).unwrap().0.held
    };
    let change = |verb: &str, second: &str| {
        let limits = format!("[[limit]]\nname = \"one\"\nrate = \"5/h\"\n{second}");
        let path = folder.write("limiter.toml", at_driver(limits));
        hosts.run(&[verb, "eth0", "--config", &path]);
    };
    change("attach", "");
    let sources: Vec<_> = (1..=7_u8).map(|n| [192, 0, 2, 100 + n]).collect();
    let frames = sources
        .iter()
        .map(|source| hosts.frame((*source).into()).bytes());
    let wire = Raw::open(&hosts.client);
    frames.for_each(|frame| wire.send(&frame));
    eventually("7 sources", || hosts.status()["sources"]["added"] == 7);
    hosts.run("reset eth0 192.0.2.101");
    assert_eq!(held(), 0);
    change("reload", "[[limit]]\nname = \"two\"\nrate = \"1/s\"\n");
    assert_eq!(held(), 7);
}

#[test]
fn config_check_attach_and_doctor_warn_of_a_limit_that_a_flood_fills() {
    need_kernel!();
    let hosts = Hosts::new();
    let folder = Folder::new();
    let path = &folder.write("limiter.toml", at_driver(SSH_AND_WEB));
    let expect = |text: &str| {
        assert!(
            text.contains("limit 'ssh'") && !text.contains("'web'"),
            "{text}"
        );
    };
    let check = hosts.limiter(&["config", "check", path]);
    check.expect(0);
    expect(&check.stderr);
    let attach = hosts.limiter(&["attach", "eth0", "--config", path]);
    attach.expect(0);
    expect(&attach.stderr);
    expect(&hosts.limiter("doctor eth0").stdout);

    let advice = ["set", "eth0", "--new-sources", "19/s"];
    hosts.limiter(&advice).expect(0);
    let doctor = hosts.limiter("doctor eth0").stdout;
    assert!(!doctor.contains("limit 'ssh'"), "{doctor}");
}
