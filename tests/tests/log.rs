//! `log` reports what the kernel program decides, for a time, and costs no bucket. It ends by itself.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant, SystemTime},
};

use aya::maps::{Array, Map, MapData};
use limiter_common::{
    abi::{
        CLOCK_KERNEL, Constants,
        events::{EVENT_BURST, EVENT_COST},
        log::TRACE,
    },
    arithmetic::{bucket::BUSY, rescale::PAST_QUOTAS},
    table::entry::TAT,
};
use limiter_config::Settings;
use limiter_kernel::{
    program::{
        Program, object,
        object::{ListMaps, Maps},
    },
    sys::requirements,
};
use limiter_tests::{
    engine::constants,
    hosts::Hosts,
    largest, need, need_kernel, number, schema, settings,
    traffic::{Traffic, udp},
    trials::expect_nothing_left,
    verified_instructions,
    watcher::Watcher,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// One packet per hour and source. Two new sources are admitted.
const ONE: &str = "attach eth0 --rate 1/h --burst 1 --new-sources 1/h --new-sources-burst 2";
const SOURCE: &str = "192.0.2.7";

const SEVERAL: &str = r#"
interfaces = ["eth0"]

[lists]
deny = ["203.0.113.66", "2001:db8:bad::/48"]

[[limit]]
name = "dns"
match = { protocol = "udp", destination_port = 53 }
rate = "1/h"
burst = 1

[[limit]]
name = "all"
rate = "10/h"
burst = 3
shadow = true
"#;

/// The fields of a message, without time and interface.
fn told(line: &Value) -> String {
    let keys = ["level", "event", "source", "limit", "shadow"];
    let fields = keys.map(|key| match &line[key] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    assert_eq!(line["interface"], "eth0");
    fields.join(" ")
}

fn expect(log: &mut Watcher, wanted: &[&str]) {
    for wanted in wanted {
        assert_eq!(told(&log.event()), *wanted);
    }
}

/// The beginning of a frame, up to the middle of its IP header.
fn cut(hosts: &Hosts) -> Vec<u8> {
    udp(hosts, SOURCE.parse().unwrap(), 9)[..30].to_vec()
}

/// Names of the pins, without folders of generations.
fn pins(hosts: &Hosts) -> BTreeSet<String> {
    let names = std::fs::read_dir(hosts.pins()).unwrap().flatten();
    names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('g'))
        .collect()
}

fn generations(hosts: &Hosts) -> usize {
    let names = std::fs::read_dir(hosts.pins()).unwrap().flatten();
    names
        .filter(|entry| entry.file_name().to_string_lossy().starts_with('g'))
        .count()
}

#[test]
fn log_reports_decisions_of_one_limit() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    let traffic = Traffic::new(&hosts);
    let mut log = Watcher::log(&hosts, &["--level", "trace"]);
    let before = SystemTime::now();
    // Admitted packets are not reported.
    traffic.passed(SOURCE, 2);
    let line = log.event();
    assert_eq!(told(&line), "trace limit 192.0.2.7 default false");
    assert_eq!(schema::faults("log", &line), "", "{line}");
    let time = humantime::parse_rfc3339(line["time"].as_str().unwrap()).unwrap();
    assert!(before <= time && time <= SystemTime::now(), "{line}");
    traffic.passed("2001:db8::7", 2);
    expect(&mut log, &["trace limit 2001:db8::7 default false"]);
    traffic.passed("192.0.2.8", 1);
    traffic.passed("2001:db8:8::8", 1);
    traffic.send(&[&cut(&hosts)]);
    expect(
        &mut log,
        &[
            "debug new_source 192.0.2.8 default false",
            "debug new_source 2001:db8:8::8 default false",
            "debug malformed null null false",
        ],
    );
    // The change is made to the program that logs, and to the one after it.
    hosts.run("set eth0 --shadow on");
    // The packets have another source, because the first one may have a second chance by now.
    traffic.passed("192.0.2.9", 1);
    traffic.send(&[&cut(&hosts)]);
    expect(
        &mut log,
        &[
            "debug new_source 192.0.2.9 default true",
            "debug malformed null null true",
        ],
    );
    let ended = log.end();
    assert_eq!((ended.sums(), &ended.stdout[..]), ((7, 0), ""));
    assert_eq!(hosts.status()["shadow"], true);
}

#[test]
fn log_reports_decisions_of_several_limits_and_lists() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(SEVERAL);
    let traffic = Traffic::new(&hosts);
    let mut log = Watcher::log(&hosts, &["--level", "trace"]);
    for (source, denied) in [(SOURCE, "203.0.113.66"), ("2001:db8::7", "2001:db8:bad::7")] {
        traffic.passed_to(53, source, 2);
        traffic.passed_to(9, denied, 1);
        let over = format!("trace limit {source} dns false");
        let denied = format!("trace deny {denied} null false");
        expect(&mut log, &[&over, &denied]);
        traffic.passed_to(9, source, 3);
        expect(&mut log, &[&format!("trace limit {source} all true")]);
    }
    hosts.run("ban eth0 192.0.2.99");
    traffic.passed("192.0.2.99", 1);
    expect(&mut log, &["trace ban 192.0.2.99 null false"]);
    log.end();
}

#[test]
fn log_reports_a_full_table() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1 --max-sources 64 --new-sources none");
    let mut log = Watcher::log(&hosts, &["--level", "error"]);
    let traffic = Traffic::new(&hosts);
    let frames: Vec<_> = (1..=200)
        .flat_map(|host| {
            let source = format!("192.0.2.{host}").parse().unwrap();
            // A source with several packets keeps its entry.
            [udp(&hosts, source, 9), udp(&hosts, source, 9)]
        })
        .collect();
    let frames: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
    traffic.send(&frames);
    let line = log.event();
    assert_eq!(
        (&line["level"], &line["event"]),
        (&json!("error"), &json!("table_full"))
    );
    assert_eq!(line["limit"], "default");
    log.end();
}

/// Another CPU that is writing the bucket, by its mark.
#[test]
fn log_reports_contention() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(&format!("{ONE} --max-sources 64"));
    let mut log = Watcher::log(&hosts, &["--level", "warn"]);
    let traffic = Traffic::new(&hosts);
    traffic.passed(SOURCE, 1);
    let sets = Map::Array(MapData::from_pin(hosts.pins().join("SETS")).unwrap());
    let mut sets: Array<_, [u64; 8]> = sets.try_into().unwrap();
    let used = |set: &[u64; 8]| (0..2).find(|way| set[4 * way + TAT] != 0);
    let found = (0..sets.len()).find_map(|index| {
        let set = sets.get(&index, 0).unwrap();
        used(&set).map(|way| (index, way, set))
    });
    let (index, way, mut set) = found.unwrap();
    set[4 * way + TAT] = BUSY;
    sets.set(index, set, 0).unwrap();
    traffic.passed(SOURCE, 1);
    expect(&mut log, &["warn contended 192.0.2.7 default false"]);
    assert_eq!(log.end().sums(), (1, 0));
}

#[test]
fn messages_above_the_level_are_not_written() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    let traffic = Traffic::new(&hosts);
    let mut log = Watcher::log(&hosts, &["--level", "debug"]);
    traffic.passed(SOURCE, 50);
    traffic.passed("192.0.2.8", 1);
    traffic.passed("192.0.2.9", 1);
    expect(&mut log, &["debug new_source 192.0.2.9 default false"]);
    assert_eq!(log.end().sums(), (1, 0));
    let log = Watcher::log(&hosts, &["--level", "warn"]);
    traffic.passed("192.0.2.9", 50);
    assert_eq!(log.end().sums(), (0, 0));
}

/// Each CPU has a budget. Every decision is reported, or counted as lost.
#[test]
fn flood_is_reported_within_the_budget() {
    need_kernel!();
    const FLOOD: u64 = 20_000;
    let hosts = Hosts::new();
    hosts.run(ONE);
    let begin = Instant::now();
    let log = Watcher::log(&hosts, &["--level", "trace"]);
    assert_eq!(Traffic::new(&hosts).passed(SOURCE, FLOOD + 1), 1);
    let milliseconds = begin.elapsed().as_nanos() as u64 / EVENT_COST + 1;
    log.signal(Signal::SIGINT);
    let ended = log.wait();
    let (shown, lost) = ended.sums();
    assert_eq!(ended.stdout.lines().count() as u64, shown);
    assert_eq!(shown + lost, FLOOD, "{}", ended.stderr);
    assert!(ended.stderr.contains("a lower --level"), "{}", ended.stderr);
    let cpus = thread::available_parallelism().unwrap().get() as u64;
    let most = cpus * (EVENT_BURST + milliseconds);
    // The ring buffer has no room for more if the reader waits.
    assert!((200..=most).contains(&shown), "{shown} of {most}");
}

/// The same program runs before and after, over the same buckets, in each mode.
#[test]
fn log_keeps_buckets_and_leaves_the_program_as_it_was() {
    need_kernel!();
    for mode in ["xdp", "generic", "tc"] {
        if mode == "tc" && !need::tcx() {
            continue;
        }
        let hosts = Hosts::new();
        hosts.run(&format!("attach eth0 --rate 1/h --burst 9 --mode {mode}"));
        let traffic = Traffic::new(&hosts);
        let program = || {
            let id = number(&hosts.status()["program_id"]);
            let all = aya::programs::loaded_programs().filter_map(Result::ok);
            let program = all
                .into_iter()
                .find(|program| u64::from(program.id()) == id);
            let program = program.unwrap();
            (program.size_translated(), program.tag())
        };
        let (size, before) = (program(), pins(&hosts));
        assert_eq!(traffic.passed(SOURCE, 2), 2, "{mode}");
        let mut log = Watcher::log(&hosts, &["--level", "trace"]);
        assert!(program().0 > size.0, "{mode}: {:?}", program());
        assert_eq!(traffic.passed(SOURCE, 3), 3, "{mode}");
        let status = hosts.status();
        assert_eq!(status["log"]["level"], "trace");
        assert_eq!(status["try_until"], Value::Null);
        let text = hosts.run("status eth0");
        assert!(text.contains("LOGGING at level trace"), "{text}");
        // A change that lasts is made to both programs, and the log goes on.
        hosts.run("set eth0 --burst 10");
        assert_eq!(traffic.passed(SOURCE, 9), 5, "{mode}: 10 less 5");
        expect(&mut log, &["trace limit 192.0.2.7 default false"]);
        log.end();
        assert_eq!(traffic.passed(SOURCE, 9), 0, "{mode}");
        assert_eq!(traffic.passed("192.0.2.8", 20), 10, "{mode}");
        let after = program();
        assert_eq!(after.0, size.0, "{mode}");
        assert_eq!((pins(&hosts), generations(&hosts)), (before, 1), "{mode}");
        // Another burst makes other instructions. Without a change, they are the same.
        Watcher::log(&hosts, &["--level", "trace"]).end();
        assert_eq!(program(), after, "{mode}");
        assert_eq!(hosts.status()["log"], Value::Null);
        hosts.run("detach eth0");
        expect_nothing_left(&hosts);
    }
}

#[test]
fn log_ends_by_itself_after_a_kill() {
    need_kernel!();
    let hosts = Hosts::new();
    let began = Instant::now();
    hosts.run(ONE);
    let traffic = Traffic::new(&hosts);
    traffic.passed(SOURCE, 1);
    // On a busy machine, a command takes seconds.
    let seconds = 4 + 10 * began.elapsed().as_secs();
    let end = SystemTime::now() + Duration::from_secs(seconds);
    let log = Watcher::log(
        &hosts,
        &["--level", "trace", "--for", &format!("{seconds}s")],
    );
    let id = number(&hosts.status()["program_id"]);
    log.signal(Signal::SIGKILL);
    assert_eq!(log.wait().status, -1);
    assert_eq!(hosts.status()["log"]["level"], "trace", "it still runs");
    thread::sleep(end.duration_since(SystemTime::now()).unwrap_or_default());
    thread::sleep(Duration::from_millis(1_500));
    let status = hosts.status();
    assert_eq!(status["log"], Value::Null);
    assert_ne!(number(&status["program_id"]), id, "the program before it");
    assert_eq!(traffic.passed(SOURCE, 5), 0, "the bucket is as it was");
    // The next command removes what is left.
    hosts.run("set eth0 --burst 2");
    assert_eq!(generations(&hosts), 1);
    assert!(!pins(&hosts).contains("AYA_LOGS"), "{:?}", pins(&hosts));
    // Messages of the killed process are not shown by the next.
    let mut next = Watcher::log(&hosts, &["--level", "debug"]);
    traffic.passed("192.0.2.8", 1);
    traffic.passed("192.0.2.9", 1);
    expect(&mut next, &["debug new_source 192.0.2.9 default false"]);
    next.signal(Signal::SIGKILL);
    let _ = next.wait();
    hosts.run("detach eth0");
    expect_nothing_left(&hosts);
}

/// The program itself says so, with the first packet on each CPU.
#[test]
fn log_ends_when_its_time_is_over() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    let mut log = Watcher::log(&hosts, &["--level", "info", "--for", "3s"]);
    // Otherwise it puts the program before it back at once.
    log.signal(Signal::SIGSTOP);
    let traffic = Traffic::new(&hosts);
    let since = Instant::now();
    while hosts.status()["log"] != Value::Null {
        assert!(since.elapsed() < Duration::from_secs(20), "it does not end");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(traffic.passed(SOURCE, 500), 1);
    log.signal(Signal::SIGCONT);
    expect(&mut log, &["info ended null null false"]);
    let ended = log.wait();
    assert_eq!(ended.status, 0, "{ended:#?}");
    assert!(
        ended.stderr.contains("the log's time is over"),
        "{ended:#?}"
    );
    let cpus = thread::available_parallelism().unwrap().get() as u64;
    let (shown, lost) = ended.sums();
    assert!((1..=cpus).contains(&shown) && lost == 0, "{ended:#?}");
    assert_eq!(
        (generations(&hosts), pins(&hosts).contains("LOGGED")),
        (1, false)
    );
    // The deadline is over before the process has read it.
    assert_eq!(hosts.status()["trial_ended"], Value::Null);
}

#[test]
fn log_beside_a_trial_or_another_log_is_refused() {
    need_kernel!();
    let hosts = Hosts::new();
    let refused = |line: &str, status, words: &[&str]| {
        hosts.limiter(line).expect_error(status, words);
    };
    refused("log eth0", 1, &["not attached to 'eth0'"]);
    hosts.run(ONE);
    refused("log eth0 --level loud", 2, &["loud", "trace"]);
    refused("log eth0 --for 2h", 2, &["1s to 1h"]);
    hosts.run("set eth0 --burst 5 --try 1h");
    let keep = ["trial on 'eth0' runs until", "`limiter keep eth0 --revert`"];
    refused("log eth0", 1, &keep);
    hosts.run("keep eth0");
    let log = Watcher::log(&hosts, &[]);
    let other = ["log on 'eth0' runs until", "`limiter keep eth0 --revert`"];
    refused("log eth0", 1, &other);
    refused("set eth0 --burst 6 --try 1h", 1, &other);
    let unchanged = hosts.run("keep eth0");
    assert!(unchanged.contains("not on trial"), "{unchanged}");
    assert_eq!(hosts.status()["log"]["level"], "debug");
    let ended = hosts.run("keep eth0 --revert");
    assert!(ended.contains("log ended"), "{ended}");
    let ended = log.wait();
    assert!(
        ended.stderr.contains("another command has ended the log"),
        "{ended:#?}"
    );
    assert_eq!((ended.status, generations(&hosts)), (0, 1));
    // A watch and a log do not disturb each other, and a log ends with its attachment.
    let mut watcher = Watcher::start(&hosts, &["--json"]);
    let mut log = Watcher::log(&hosts, &["--level", "trace"]);
    Traffic::new(&hosts).passed(SOURCE, 6);
    assert_eq!(watcher.event()["reason"], "limit");
    expect(&mut log, &["trace limit 192.0.2.7 default false"]);
    watcher.end();
    hosts.run("detach eth0");
    assert_eq!(log.wait().status, 0);
    expect_nothing_left(&hosts);
}

/// The program of these constants that logs.
fn load(settings: &Settings, tc: bool, change: impl FnOnce(&mut Constants)) -> Program {
    let (mut config, prefixes) = constants(settings, CLOCK_KERNEL);
    (config.tc, config.log, config.chained, config.deadline) = (tc.into(), TRACE, 1, 1);
    if tc {
        config.proof = 0;
    }
    change(&mut config);
    let frags = !tc && requirements::has_frags();
    object::load(&config, Maps::New, ListMaps::New(&prefixes), frags).unwrap()
}

/// Linux 6.1 processes 391,655 (at the driver). The kernel's own maximum is 1,000,000.
#[test]
fn largest_program_is_verified_with_messages() {
    need_kernel!();
    let file = largest::file(
        "allow = [\"192.0.2.0/24\"]\ndeny = [\"2001:db8::/32\"]\ngold = [\"198.51.100.0/24\"]\nsilver = []\n",
    );
    for tc in [false, true] {
        if tc && !need::tcx() {
            continue;
        }
        let program = load(&settings(&file), tc, |config| {
            for limit in &mut config.limits {
                limit.epoch = PAST_QUOTAS;
                limit.past_length = PAST_QUOTAS;
            }
        });
        if let Some(verified) = verified_instructions(&program) {
            println!("verified {} {verified}", program.entry());
            assert!(verified < 330_000, "{verified}");
        }
    }
}
