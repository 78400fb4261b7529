//! `replay` gives every packet of a capture the verdict that the program in the kernel gives it.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    net::{IpAddr, Ipv4Addr},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use fastrand::Rng;
use limiter_common::policy::verdict::Reason;
use limiter_config::{Limit, Settings, file};
use limiter_tests::{
    captures::{Captured, add, fixtures, header, match_all_fields, pcap, replay, replay_by_both},
    command::{Outcome, copy_binary, limiter, prepared},
    cpus::pin_to,
    effort::repetitions,
    engine::Kernel,
    files::Folder,
    need_kernel,
    packet::{Frame, arp, udp_of_length},
    random::{moment, packets, seed, settings},
};
use limiter_user::{
    observe::Verdicts,
    plan::{
        capture::{Capture, Unread},
        replay::{Compiled, decide},
    },
};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// Start time of the captures.
const START: u64 = 1_700_000_000 * SECOND;
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

/// One limit on all packets.
fn one_limit(rate: &str, burst: &str) -> Settings {
    Settings {
        limits: vec![Limit {
            burst: Some(burst.parse().unwrap()),
            ..Limit::new("default", rate.parse().unwrap())
        }],
        ..Settings::default()
    }
}

/// All captures use one program and one model, because loading the program takes longest.
#[test]
fn kernel_and_model_agree_on_foreign_captures() {
    need_kernel!();
    pin_to(0);
    let files = fixtures();
    let mut refused = 0;
    let mut seen = BTreeMap::<&str, u64>::new();
    let roomy = Settings {
        max_sources: Settings::default().max_sources,
        ..match_all_fields()
    };
    for settings in [one_limit("1/s", "2"), one_limit("1kbit", "1522b"), roomy] {
        let compiled = Compiled::new(&settings).unwrap();
        let kernel = Kernel::replaying(&settings, 0);
        let mut model = compiled.model(0);
        let mut now = 0;
        for path in &files {
            let name = path.display();
            let mut capture = Capture::open(path).unwrap();
            // Each capture begins at the end of the one before.
            let (begin, mut first) = (now, None);
            for packet in &mut capture {
                now = begin + packet.time - *first.get_or_insert(packet.time);
                let by_kernel = kernel.offer_captured(&packet.frame, now);
                let by_model = decide(&mut model, &packet.frame, now);
                assert_eq!(by_kernel, by_model, "{name}, packet {}", packet.number);
                *seen.entry(by_model.name()).or_default() += 1;
            }
            assert_eq!(capture.cut, None, "{name}");
            for why in capture.unread.keys() {
                assert!(matches!(why, Unread::Link(_) | Unread::Time), "{why:?}");
                refused += 1;
            }
        }
    }
    // Link types of logs, and packets without a time, with each of the settings.
    assert_eq!(refused, 3 * 3);
    // The captures contain packets with each of these verdicts.
    for reason in "admitted limit malformed not_ip deny would_drop".split(' ') {
        assert!(seen.get(reason) > Some(&4), "{reason}: {seen:?}");
    }
}

/// Some packets are truncated. The limits are random, and the tables are too small.
#[test]
fn kernel_and_model_agree_on_random_captures() {
    need_kernel!();
    const PACKETS: usize = 1_200;
    let first = seed(0x5eed_0e91);
    let mut seen = BTreeMap::<&str, u64>::new();
    for seed in first..first + repetitions(25, 40) {
        let mut rng = Rng::with_seed(seed);
        let sources = [4, 8, 64, 20_000][rng.usize(0..4)];
        let settings = settings::settings(&mut rng, sources);
        let mut clock = moment::Clock::new(&mut rng);
        let packets: Vec<_> = (0..PACKETS)
            .map(|_| {
                clock.step(&mut rng, &settings);
                let bytes = packets::frame(&mut rng, &settings);
                let most = bytes.len();
                let kept = if rng.u8(0..10) == 0 {
                    rng.usize(0..=most)
                } else {
                    most
                };
                Captured {
                    time: clock.now,
                    bytes,
                    kept,
                }
            })
            .collect();
        let shown = file::show(&[], &settings);
        let about = format!("LIMITER_SEED={seed:#x}\n{shown}");
        let (_, verdicts) = replay_by_both(&about, &pcap(&packets), &settings);
        for verdict in verdicts {
            *seen
                .entry(verdict.map_or("outgoing", Reason::name))
                .or_default() += 1;
        }
    }
    println!("{seen:?}");
    let reasons = "admitted limit malformed not_ip deny would_drop new_source allowed unlimited \
                   malformed_passed malformed_would_drop";
    for reason in reasons.split(' ') {
        assert!(seen.get(reason) > Some(&20), "{reason}: {seen:?}");
    }
}

/// Replays UDP packets from one source at these times, in the model and in the kernel. Returns true for each packet that passes.
fn passing(rate: &str, burst: &str, times: impl IntoIterator<Item = u64>) -> Vec<bool> {
    let frame = Frame::from(SOURCE).bytes();
    let packets: Vec<_> = times
        .into_iter()
        .map(|moment| Captured::whole(START + moment, frame.clone()))
        .collect();
    let (_, verdicts) = replay_by_both(rate, &pcap(&packets), &one_limit(rate, burst));
    verdicts
        .into_iter()
        .map(|reason| reason.is_none_or(Reason::passes))
        .collect()
}

fn passed(verdicts: &[bool]) -> usize {
    verdicts.iter().filter(|passed| **passed).count()
}

#[test]
fn replay_reproduces_the_documented_examples() {
    need_kernel!();
    for rate in ["300/1m", "5/s"] {
        let times = [vec![0; 11], vec![200 * MS; 2], vec![400 * MS]].concat();
        let wanted = [vec![true; 10], vec![false, true, false, true]].concat();
        assert_eq!(passing(rate, "10", times), wanted, "{rate}");
    }
    assert_eq!(
        passed(&passing("5/s", "10", (0..20).map(|i| i * 50 * MS))),
        14
    );
    let spaced = passing("1/s", "10", (0..12).map(|i| i * 100 * MS));
    assert_eq!(spaced, [vec![true; 11], vec![false]].concat());
    // At 60 packets per second, packet 60 is the first to be dropped. After it, one packet of six passes.
    let long = passing("10/s", "50", (0..60 * 20).map(|i| i * SECOND / 60));
    assert_eq!(long.iter().position(|passed| !passed), Some(59));
    assert_eq!(passed(&long[120..]), (60 * 20 - 120) / 6);
    let hours = [vec![0; 5], (1..=120).map(|i| i * 720 * SECOND).collect()].concat();
    assert_eq!(passed(&passing("5/h", "5", hours)), 125);
    let leaky = passing("10/s", "1", [0, 99 * MS, 100 * MS, 100 * MS, 200 * MS]);
    assert_eq!(leaky, [true, false, true, false, true]);
    let after_months = passing("1/s", "1", [0, 0, 100 * 86_400 * SECOND]);
    assert_eq!(after_months, [true, false, true]);
}

#[test]
fn truncated_packets_count_with_their_wire_length() {
    need_kernel!();
    let bytes = udp_of_length(SOURCE, 1_000);
    for kept in [1_000, 60, 42, 34] {
        let packet = Captured {
            time: START,
            bytes: bytes.clone(),
            kept,
        };
        let packets = vec![packet; 20];
        let settings = one_limit("8kbit", "9999b");
        let (replay, verdicts) = replay_by_both("cut", &pcap(&packets), &settings);
        let passes: Vec<_> = verdicts
            .into_iter()
            .map(|reason| reason.is_none_or(Reason::passes))
            .collect();
        assert_eq!(passes, [vec![true; 9], vec![false; 11]].concat(), "{kept}");
        let Verdicts { seen, passed, .. } = replay.verdicts;
        assert_eq!((seen.bytes, passed.bytes), (20_000, 9_000));
    }
}

fn folder_with(packets: &[Captured]) -> (Folder, String) {
    let folder = Folder::new();
    let capture = folder.write("test.pcap", pcap(packets));
    (folder, capture)
}

fn twenty() -> Vec<Captured> {
    let frame = Frame::from(SOURCE).bytes();
    (0..20)
        .map(|i| Captured::whole(START + i * 50 * MS, frame.clone()))
        .collect()
}

#[test]
fn replay_command_counts_by_limit_and_source() {
    let (folder, capture) = folder_with(&twenty());
    let limits = "[[limit]]\nname = \"default\"\nrate = \"5/s\"\nburst = 10\n";
    let config = folder.write("limits.toml", limits);
    let replay = |more: &[&str]| {
        let outcome = limiter(&[&["replay", &capture], more].concat());
        outcome.expect(0);
        outcome
    };
    let summary = replay(&["--rate", "5/s", "--burst", "10"]);
    assert_eq!(replay(&["--config", &config]).stdout, summary.stdout);
    assert_eq!(summary.stderr, "");
    let rows: Vec<_> = summary.stdout.lines().map(words).collect();
    for row in [
        "20 packets in 0.95 s: 14 passed, 6 dropped",
        "6 over the limit",
        "default 5/s 10 /32,/64 14 6 0",
        "192.0.2.7 20 14 6 0",
    ] {
        assert!(rows.iter().any(|line| line == row), "{row}: {summary:#?}");
    }
}

#[test]
fn replay_reports_to_programs() {
    let (folder, capture) = folder_with(&twenty());
    let replay = |status, more: &str| {
        let command = format!("replay {capture} --rate 5/s --burst 10 {more}");
        let outcome = limiter(&command.split_whitespace().collect::<Vec<_>>());
        outcome.expect(status);
        outcome.stdout
    };
    let report: Value = serde_json::from_str(&replay(0, "--json")).unwrap();
    for (place, wanted) in [
        ("/complete", json!(true)),
        ("/seconds", json!(0.95)),
        ("/seen/packets", json!(20)),
        ("/dropped/packets", json!(6)),
        ("/drops/limit/packets", json!(6)),
        ("/passes/allowed/packets", json!(0)),
        ("/other_direction/packets", json!(0)),
        ("/limits/0/admitted/packets", json!(14)),
        ("/limits/0/burst", json!("10")),
        ("/sources/0/source", json!("192.0.2.7")),
        ("/sources/0/dropped_packets", json!(6)),
        ("/unread", json!([])),
    ] {
        assert_eq!(report.pointer(place), Some(&wanted), "{place}: {report}");
    }
    for (more, word) in [("", "drop"), (" --shadow", "would_drop")] {
        let file = folder.path(word);
        replay(0, &format!("--verdicts {file}{more}"));
        let lines = fs::read_to_string(&file).unwrap();
        let lines: Vec<_> = lines.lines().collect();
        assert_eq!(lines.len(), 20);
        let first = "{\"number\":1,\"time\":\"2023-11-14T22:13:20.000000000Z\",\"source\":\"192.0.2.7\",\"verdict\":\"pass\",\"reason\":\"admitted\",\"limit\":null}";
        assert_eq!(lines[0], first);
        let refused =
            format!("\"verdict\":\"{word}\",\"reason\":\"limit\",\"limit\":\"default\"}}");
        let refused = lines.iter().filter(|line| line.ends_with(&refused));
        assert_eq!(refused.count(), 6, "{lines:#?}");
        // No file is replaced.
        let again = ["replay", &capture, "--rate", "5", "--verdicts", &file];
        limiter(&again).expect_error(1, &["cannot be created", "does not exist"]);
    }
    replay(3, "--fail-on-drops");
    replay(0, "--fail-on-drops --shadow");
    replay(0, "--fail-on-drops --allow 192.0.2.7");
}

/// A packet of a cooked capture.
fn cooked(time: u64, kind: u8) -> Captured {
    let frame = Frame::from(SOURCE).bytes();
    let mut header = [0; 16];
    header[1] = kind;
    header[14] = 8;
    Captured::whole(time, [&header[..], &frame[14..]].concat())
}

#[test]
fn limits_apply_to_the_packets_of_their_direction() {
    const SENT: u8 = 4;
    let folder = Folder::new();
    let mut file = header(113);
    // Three packets that were received, and five that were sent.
    for (number, kind) in (0..).zip([0, SENT, SENT, 2, SENT, 3, SENT, SENT]) {
        add(&mut file, &cooked(START + number, kind));
    }
    let capture = folder.write("cooked.pcap", file);
    let limits = "[[limit]]\nname = \"default\"\nrate = \"1/h\"\nburst = 1\n";
    let both = |direction: &str, counts: &str, other: &str| {
        let text = format!("direction = \"{direction}\"\n{limits}");
        let config = folder.write(&format!("{direction}.toml"), text);
        let flags = ["--rate", "1/h", "--burst", "1", "--direction", direction];
        for more in [&flags[..], &["--config", &config]] {
            let outcome = limiter(&[&["replay", &capture], more].concat());
            outcome.expect(0);
            let text = &outcome.stdout;
            assert!(text.contains(counts) && text.contains(other), "{text}");
            assert_eq!(outcome.stderr, "");
        }
    };
    both("in", "6 passed, 2 dropped\n", "5 sent by the host itself");
    both("out", "4 passed, 4 dropped\n", "3 received by the host");
    // This capture says no direction.
    let unknown = folder.write("ethernet.pcap", pcap(&twenty()));
    let outcome = limiter(&["replay", &unknown, "--rate", "1/h", "--direction", "out"]);
    outcome.expect(0);
    assert!(
        outcome.stdout.contains("1 passed, 19 dropped\n"),
        "{outcome:#?}"
    );
    assert!(
        outcome.stderr.contains("20 packets; limits apply"),
        "{outcome:#?}"
    );
}

#[test]
fn buckets_are_full_after_long_gaps() {
    need_kernel!();
    let frame = Frame::from(SOURCE).bytes();
    // 47 years, and then twice 3 years; three packets each.
    let years = [0, 47, 50, 53].map(|year| year * 365 * 86_400 * SECOND);
    let times = years.into_iter().flat_map(|time| [time, time, time]);
    let packets: Vec<_> = times
        .map(|time| Captured::whole(time, frame.clone()))
        .collect();
    let file = pcap(&packets);
    let (_, verdicts) = replay_by_both("gaps", &file, &one_limit("1/s", "2"));
    let passes = verdicts
        .iter()
        .map(|reason| reason.is_none_or(Reason::passes));
    assert_eq!(passes.collect::<Vec<_>>(), [true, true, false].repeat(4));
    let folder = Folder::new();
    let capture = folder.write("gaps.pcap", file);
    let outcome = limiter(&["replay", &capture, "--rate", "1/s", "--burst", "2"]);
    outcome.expect(0);
    assert!(
        outcome.stderr.contains("3 gaps of more than a year"),
        "{outcome:#?}"
    );
    assert!(
        outcome.stdout.contains("8 passed, 4 dropped\n"),
        "{outcome:#?}"
    );
}

#[test]
fn packets_that_cannot_be_read_are_named() {
    let folder = Folder::new();
    let mut file = header(147);
    (0..3).for_each(|number| add(&mut file, &cooked(START + number, 0)));
    let capture = folder.write("user.pcap", file);
    let none = ["none of 3 packets can be read", "link type 147"];
    limiter(&["replay", &capture, "--rate", "5"]).expect_error(1, &none);
    limiter(&["learn", "--capture", &capture]).expect_error(1, &none);
}

/// The words of a line, with one space between them.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn piped(arguments: &[&str]) -> Child {
    let mut command = prepared(arguments);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn replay_warns_of_exemptions_and_truncated_captures() {
    let (folder, capture) = folder_with(&twenty());
    let replay = |arguments: &[&str]| limiter(&[&["replay", "--rate", "5"], arguments].concat());
    let established = replay(&[&capture, "--exempt", "established"]);
    established.expect(0);
    let warning = &established.stderr;
    assert!(
        warning.contains("established") && warning.lines().count() == 1,
        "{warning}"
    );
    // The capture ends within a packet.
    let bytes = pcap(&twenty());
    let short = folder.write("short.pcap", &bytes[..bytes.len() - 1]);
    let cut = replay(&[&short]);
    cut.expect(1);
    assert!(cut.stderr.contains("cut off after packet 19"), "{cut:#?}");
    assert!(cut.stdout.contains("19 packets"), "{cut:#?}");
    // Packets before the end decide nothing about the rest.
    let drops = replay(&["--burst", "10", &short, "--fail-on-drops"]);
    drops.expect(1);
    // The headers were not captured completely.
    let too_short = twenty()
        .into_iter()
        .map(|packet| Captured { kept: 20, ..packet });
    let bytes = pcap(&too_short.collect::<Vec<_>>());
    let snapped = folder.write("snapped.pcap", &bytes);
    let snapped = replay(&[&snapped]);
    snapped.expect(0);
    let warning = "the capture cut off 20 packets; ";
    assert!(snapped.stderr.contains(warning), "{snapped:#?}");
}

#[test]
fn unreadable_captures_and_missing_limits_are_refused() {
    let (folder, capture) = folder_with(&twenty());
    for path in ["/nonexistent.pcap", "/"] {
        let cannot = format!("{path} cannot be read");
        limiter(&["replay", path, "--rate", "5"]).expect_error(1, &[&cannot]);
    }
    let text = folder.write("text", "not a capture, but long enough for one to begin\n");
    limiter(&["replay", &text, "--rate", "5"]).expect_error(1, &["neither pcap", "pcapng"]);
    limiter(&["replay", &capture]).expect_error(2, &["--rate"]);
}

#[test]
fn replay_needs_no_privileges() {
    need_kernel!();
    let (folder, capture) = folder_with(&twenty());
    let copy = folder.path("limiter");
    copy_binary(&copy);
    let open: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let path = std::path::Path::new(&copy).parent().unwrap();
    fs::set_permissions(path, open).unwrap();
    let arguments = ["replay", &capture, "--rate", "5/s", "--burst", "10"];
    let mut command = Command::new(&copy);
    command.args(arguments).uid(65_534).gid(65_534);
    let outcome = Outcome::of(arguments.join(" "), command.output().unwrap());
    outcome.expect(0);
    assert!(
        outcome.stdout.contains("14 passed, 6 dropped\n"),
        "{outcome:#?}"
    );
    assert_eq!(outcome.stderr, "");
}

/// Peak memory in KiB of a replay of `packets` packets, each from its own source.
fn memory(packets: u32) -> u64 {
    let arguments = ["replay", "-", "--rate", "5"];
    let mut child = piped(&arguments);
    let mut input = child.stdin.take().unwrap();
    let mut chunk = header(1);
    for number in 0..packets {
        let mut frame = Frame::from(SOURCE).bytes();
        frame[26..30].copy_from_slice(&(0x0100_0000 + number).to_be_bytes());
        let time = START + u64::from(number) * 1_000;
        add(&mut chunk, &Captured::whole(time, frame));
        if chunk.len() > 1 << 20 {
            input.write_all(&chunk).unwrap();
            chunk.clear();
        }
    }
    input.write_all(&chunk).unwrap();
    // The process has read everything and waits for more, so its memory can be read.
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB").parse();
    drop(input);
    let outcome = Outcome::of("memory".to_owned(), child.wait_with_output().unwrap());
    outcome.expect(0);
    let seen = format!("{packets} packets in").replace("000 ", ",000 ");
    assert!(outcome.stdout.contains(&seen), "{outcome:#?}");
    kilobytes.unwrap()
}

#[test]
fn replay_memory_does_not_grow_with_the_capture() {
    let short = memory(150_000);
    // A replay that kept their bytes would need 9 MiB more.
    let long = memory(300_000);
    println!("{short} KiB, {long} KiB");
    assert!(long < short + 4_096, "{short} KiB, then {long} KiB");
}

#[test]
fn arp_packet_has_a_source_only_if_control_traffic_is_exempt() {
    let mut frame = arp();
    // The sender's address, which ends at byte 32.
    frame[28..32].copy_from_slice(&[192, 0, 2, 7]);
    let short = frame[..31].to_vec();
    let file = pcap(&[Captured::whole(START, frame), Captured::whole(START, short)]);
    let shown = |control| {
        let mut settings = one_limit("5/s", "10");
        settings.exempt.control = control;
        let (outcome, _) = replay(&file, &settings).unwrap();
        let sources = outcome.sources.iter();
        let sources = sources.map(|(source, counters)| (source.clone(), counters.passed));
        (outcome.not_ip, sources.collect::<Vec<_>>())
    };
    assert_eq!(shown(false), (2, vec![]));
    assert_eq!(shown(true), (1, vec![("192.0.2.7".to_owned(), 1)]));
}
