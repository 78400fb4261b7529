//! A new source that was refused gets in when it comes again after a while, from a budget that first-time sources and
//! copies cannot use.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use limiter_common::{abi::CLOCK_PACKET, policy::verdict::Reason};
use limiter_tests::{
    engine::{Kernel, constants},
    hosts::Hosts,
    need_kernel,
    newcomers::{Clients, Flood, Packets, Repeats, connect_during},
    number,
    packet::Frame,
    settings,
};

const START: u64 = 1_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// No new source per hour to speak of: 40 at once, and 10 by second chance.
const FEW: &str = "new_sources = \"1/h\"\nnew_sources_burst = 40\n";
const ONE: &str = "[[limit]]\nname = \"one\"\nrate = \"5/s\"\n";
const NESTED: &str = "[[limit]]\nname = \"near\"\nrate = \"5/s\"\n[[limit]]\nname = \"wide\"\nkey = \"/31,/64\"\nrate = \"50/s\"\n[[limit]]\nname = \"all\"\nkey = \"interface\"\nrate = \"10k/s\"\n";

/// Packets of sources with these numbers, four apart, at one time. Returns how many are admitted; the others are
/// refused as new.
fn admitted(kernel: &Kernel, sources: std::ops::Range<u32>, now: u64) -> u64 {
    let reasons = sources.map(|number| {
        let source = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + 4 * number));
        let reason = kernel.offer(&Frame::from(source).bytes(), now);
        assert!(
            [Reason::Admitted, Reason::NewSource].contains(&reason),
            "{reason:?}"
        );
        u64::from(reason == Reason::Admitted)
    });
    reasons.sum()
}

fn counted(kernel: &Kernel) -> (u64, u64) {
    let counters = kernel.tables.counters().unwrap();
    (counters.came_again, counters.second_chances)
}

#[test]
fn refused_source_gets_in_when_it_comes_again() {
    need_kernel!();
    // Several limits keep an eighth of the tokens apart, for each other.
    for (limits, first, second) in [(ONE, 40..=40, 10..=10), (NESTED, 35..=37, 8..=9)] {
        let kernel = Kernel::with_clock(&settings(&format!("{FEW}{limits}")), CLOCK_PACKET);
        let came = admitted(&kernel, 0..200, START);
        assert!(first.contains(&came), "{came}, {limits}");
        // Copies at once get nothing, nor do other sources.
        assert_eq!(admitted(&kernel, 40..200, START + 200_000_000), 0);
        assert_eq!(admitted(&kernel, 200..400, START + SECOND), 0);
        assert_eq!(counted(&kernel), (0, 0), "{limits}");
        // Sources that come again have the second budget, and only that.
        assert_eq!(admitted(&kernel, 100..103, START + SECOND), 3, "{limits}");
        assert_eq!(counted(&kernel), (3, 3), "{limits}");
        assert_eq!(admitted(&kernel, 100..103, START + SECOND + 1), 3, "known");
        let all = 3 + admitted(&kernel, 103..200, START + SECOND);
        assert!(second.contains(&all), "{all}, {limits}");
        assert_eq!(counted(&kernel), (100, all), "{limits}");
        // Refused again, they keep their chance until it is too old.
        assert_eq!(admitted(&kernel, 150..160, START + 8 * SECOND), 0);
        assert_eq!(counted(&kernel), (110, all), "{limits}");
        assert_eq!(admitted(&kernel, 150..160, START + 9 * SECOND), 0);
        assert_eq!(counted(&kernel), (110, all), "{limits}");
    }
}

/// A flood that repeats each address after a second gets the second budget, exactly, beside the first one.
#[test]
fn flood_of_repeated_sources_gets_two_budgets_and_no_more() {
    need_kernel!();
    for (limits, lost) in [(ONE, 0), (NESTED, 125)] {
        let text = format!("new_sources = \"1k/s\"\nnew_sources_burst = 1000\n{limits}");
        let settings = settings(&text);
        let config = constants(&settings, CLOCK_PACKET).0;
        let leases = config.new_sources.lease + config.second_chances.lease;
        let kernel = Kernel::with_clock(&settings, CLOCK_PACKET);
        let mut sum = 0;
        const STEPS: u64 = 400;
        // 10,000 sources a second, each of which comes twice, a second apart.
        for step in 0..STEPS as u32 {
            let now = START + u64::from(step) * SECOND / 100;
            sum += admitted(&kernel, step * 100..(step + 1) * 100, now);
            if let Some(before) = step.checked_sub(100) {
                let again = before * 100..(before + 1) * 100;
                let known = |number: u32| {
                    let source = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + 4 * number));
                    kernel.entry(&limiter_config::Key::default().of(0, source, 0))
                };
                let unknown: Vec<_> = again.filter(|number| known(*number).is_none()).collect();
                for number in unknown {
                    sum += admitted(&kernel, number..number + 1, now);
                }
            }
        }
        let time = (STEPS - 1) * 10;
        let first = 1_000 + time;
        let second = 250 + (time - 1_000) / 4;
        let (_, chances) = counted(&kernel);
        assert!(chances <= 250 + time / 4, "{chances} by second chance");
        assert!(
            chances + 64 + leases >= second,
            "{chances} of {second}, {limits}"
        );
        assert!(
            sum - chances <= first,
            "{sum}, {chances} of {first}, {limits}"
        );
        assert!(
            sum - chances + lost + leases >= first,
            "{sum}, {chances} of {first}"
        );
    }
}

#[test]
fn setting_turns_second_chances_off() {
    need_kernel!();
    let text = format!("second_chance = false\n{FEW}{ONE}");
    let kernel = Kernel::with_clock(&settings(&text), CLOCK_PACKET);
    assert_eq!(admitted(&kernel, 0..200, START), 40);
    assert_eq!(admitted(&kernel, 0..200, START + SECOND), 40, "known ones");
    assert_eq!(counted(&kernel), (0, 0));
}

/// A small table under a limit that refills slowly: a bucket that has given one token is full after 12 minutes.
const SLOW: &str = "max_sources = 64\nnew_sources = \"100/s\"\nnew_sources_burst = 400\n[[limit]]\nname = \"ssh\"\nrate = \"5/h\"\nburst = 10\n";
/// Another limit, whose share of the table stays its own.
const OTHER: &str =
    "[[limit]]\nname = \"web\"\nmatch = { destination_port = 80 }\nrate = \"5/h\"\n";

/// Fills the table with sources that send this many packets at once, and refuses 20 others, whose numbers begin at
/// 1,000. Returns the number of sources in the table.
fn fill(kernel: &Kernel, packets: u32) -> u64 {
    let mut sources = 0;
    for number in 0..200 {
        if admitted(kernel, number..number + 1, START) == 1 {
            sources += 1;
            for _ in 1..packets {
                assert_eq!(admitted(kernel, number..number + 1, START), 1);
            }
        }
    }
    assert_eq!(admitted(kernel, 1_000..1_020, START), 0);
    sources
}

#[test]
fn source_with_a_second_chance_replaces_a_quiet_one_in_a_full_table() {
    need_kernel!();
    for (beside, packets) in [("", 1), ("", 2), (OTHER, 1)] {
        let kernel = Kernel::with_clock(&settings(&format!("{SLOW}{beside}")), CLOCK_PACKET);
        let sources = fill(&kernel, packets);
        assert!((16..=64).contains(&sources), "{sources}");
        let (soon, later) = (START + 900_000_000, START + SECOND + 10_000);
        let situation = format!("{packets} packets {beside}");
        assert_eq!(admitted(&kernel, 1_000..1_010, soon), 0, "{situation}");
        // First-time sources find no room, however long the others are quiet.
        assert_eq!(admitted(&kernel, 2_000..2_010, later), 0, "{situation}");
        let chances = counted(&kernel).1;
        let came = admitted(&kernel, 1_000..1_010, later);
        assert!((8..=10).contains(&came), "{came}, {situation}");
        assert_eq!(counted(&kernel).1, chances + 10, "{situation}");
        // The limit holds as many entries as before, and other limits none.
        let held = kernel.tables.sets.held();
        assert_eq!((held[0], held[1]), (sources, 0), "{situation}");
        assert_eq!(
            kernel.store.expect_sound().len() as u64,
            sources,
            "{situation}"
        );
    }
}

#[test]
fn source_of_three_packets_is_not_replaced() {
    need_kernel!();
    let kernel = Kernel::with_clock(&settings(SLOW), CLOCK_PACKET);
    let sources = fill(&kernel, 3);
    assert_eq!(admitted(&kernel, 1_000..1_010, START + 5 * SECOND), 0);
    assert_eq!(kernel.tables.counters().unwrap().sources_added, sources);
}

/// Beyond burst + rate × time, sources gain what replaced ones had spent: at most two packets for each second chance,
/// which are 100 at once and 25 a second here.
#[test]
fn replaced_sources_gain_no_more_than_two_packets_for_each_second_chance() {
    need_kernel!();
    let kernel = Kernel::with_clock(&settings(&SLOW.replace("10\n", "2\n")), CLOCK_PACKET);
    // Eight groups of sources take turns. Each source comes back while its refusal is remembered, and after another one
    // has replaced it.
    let (mut passed, mut seconds) = ([0_u64; 200], 0);
    for turn in 0..150_u64 {
        let now = START + turn * SECOND * 21 / 20;
        for number in (0..25).map(|number| 25 * (turn as u32 % 8) + number) {
            let source = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + 4 * number));
            let reason = kernel.offer(&Frame::from(source).bytes(), now);
            passed[number as usize] += u64::from(reason == Reason::Admitted);
        }
        seconds = turn * 21 / 20;
    }
    let chances = counted(&kernel).1;
    assert!(chances <= 100 + 25 * (seconds + 1), "{chances}");
    let burst = 2;
    // In 160 seconds, a bucket of 5 per hour gains no whole token.
    let gained: u64 = passed.iter().map(|count| count.saturating_sub(burst)).sum();
    assert!(
        (1_000..=2 * chances).contains(&gained),
        "{gained} by {chances}"
    );
}

/// Sockets of the kernel, against a flood that takes each token of the new-source limit within a millisecond. Tokens are
/// few: on a busy machine, the flood stands still for moments, in which clients would need no second chance.
#[test]
fn new_clients_connect_by_their_first_retransmission_during_a_flood() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(&format!(
        "interfaces = \"eth0\"\nnew_sources = \"10/s\"\nnew_sources_burst = 400\n{ONE}"
    ));
    let flood = Flood {
        per_second: 20_000,
        repeats: Repeats::Never,
        packets: Packets::Udp,
    };
    let clients = Clients {
        number: 40,
        after: Duration::from_secs(1),
        over: Duration::from_secs(2),
        behind_the_flood: false,
        asks: false,
    };
    // The first retransmission is a second after the first packet, the next one three.
    let connected = connect_during(&hosts, Some(flood), clients).percent_within(2_700);
    // Without second chances, a third does not connect.
    assert!(connected >= 90.0, "{connected} %");
    let chances = number(&hosts.status()["sources"]["second_chances"]);
    assert!(chances >= 5, "{chances}");
    assert!(
        hosts
            .run("status eth0")
            .contains("new sources refused before")
    );
}
