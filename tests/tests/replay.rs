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
        capture::Capture,
        replay::{Compiled, decide},
    },
};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// Start time of the captures.
const START: u64 = 1_700_000_000 * SECOND;
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

/// One limit on all packets.
fn plain(rate: &str, burst: &str) -> Settings {
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
    for settings in [plain("1/s", "2"), plain("1kbit", "1522b"), roomy] {
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
                let packet = match packet {
                    Ok(packet) => packet,
                    Err(error) => {
                        let why = error.to_string();
                        assert!(
                            why.contains("link type") || why.contains("no time"),
                            "{why}"
                        );
                        refused += 1;
                        break;
                    }
                };
                now = begin + packet.time - *first.get_or_insert(packet.time);
                let by_kernel = kernel.offer_captured(&packet.frame, now);
                let by_model = decide(&mut model, &packet.frame, now);
                assert_eq!(by_kernel, by_model, "{name}, packet {}", packet.number);
                *seen.entry(by_model.name()).or_default() += 1;
            }
            assert_eq!(capture.cut, None, "{name}");
        }
    }
    // Link types of logs, wireless interfaces and BSD loopback, and packets without a time, with each of the settings.
    assert_eq!(refused, 3 * 6);
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
    let (_, verdicts) = replay_by_both(rate, &pcap(&packets), &plain(rate, burst));
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
        let settings = plain("8kbit", "9999b");
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
    cut.expect(0);
    assert!(cut.stderr.contains("cut off after packet 19"), "{cut:#?}");
    assert!(cut.stdout.contains("19 packets"), "{cut:#?}");
    // The headers were not captured completely.
    let too_short = twenty()
        .into_iter()
        .map(|packet| Captured { kept: 20, ..packet });
    let bytes = pcap(&too_short.collect::<Vec<_>>());
    let snapped = folder.write("snapped.pcap", &bytes);
    let snapped = replay(&[&snapped]);
    snapped.expect(0);
    let warning = "20 packets were truncated in the capture";
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
        let mut settings = plain("5/s", "10");
        settings.exempt.control = control;
        let (outcome, _) = replay(&file, &settings).unwrap();
        let sources = outcome.sources.iter();
        let sources = sources.map(|(source, counters)| (source.clone(), counters.passed));
        (outcome.not_ip, sources.collect::<Vec<_>>())
    };
    assert_eq!(shown(false), (2, vec![]));
    assert_eq!(shown(true), (1, vec![("192.0.2.7".to_owned(), 1)]));
}
