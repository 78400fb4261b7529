//! A flood on a wire is explained, and the printed command stops it.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use fastrand::Rng;
use limiter_tests::{
    command::{Outcome, binary},
    eventually,
    hosts::{CLIENT, Hosts},
    need_kernel, number, schema,
    traffic::{Flood, ends, udp},
};
use serde_json::Value;

use super::generated::anywhere;

/// The saved picture of eth0 of these hosts, which goes with the test.
pub struct Saved(pub PathBuf);

impl Saved {
    pub fn of(hosts: &Hosts) -> Self {
        let pins = hosts.pins();
        let name = pins.file_name().unwrap().to_str().unwrap();
        Self(format!("/run/limiter/ordinary/{name}.json").into())
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Ordinary packets: questions to a name server and moves of a game, of all lengths.
pub fn ordinary(hosts: &Hosts) -> Vec<Vec<u8>> {
    let mut rng = Rng::with_seed(3);
    let frame = |rng: &mut Rng, number: usize| {
        let port = [53, 27_015, 443][number % 3];
        let payload: Vec<u8> = (0..rng.usize(20..600)).map(|_| rng.u8(..)).collect();
        let source = [198, 51, rng.u8(..), rng.u8(1..)];
        let from = ends(hosts, source.into(), port).at(rng.u16(1_024..), port);
        from.udp(&payload)
    };
    (0..200).map(|number| frame(&mut rng, number)).collect()
}

/// Answers of name servers that nobody asked for, to all ports of the server.
fn reflection(hosts: &Hosts) -> Vec<Vec<u8>> {
    let mut rng = Rng::with_seed(4);
    let frame = |rng: &mut Rng| {
        let mut payload: Vec<u8> = (0..rng.usize(900..1_300)).map(|_| rng.u8(..)).collect();
        payload[2..4].copy_from_slice(&[0x81, 0x80]);
        let answer = ends(hosts, anywhere(rng).into(), 53);
        answer.at(53, rng.u16(1_024..)).udp(&payload)
    };
    (0..500).map(|_| frame(&mut rng)).collect()
}

/// Runs a printed command in a shell on the server.
fn run_printed(hosts: &Hosts, command: &str) -> Outcome {
    let path = binary().parent().unwrap().display();
    let script = format!("PATH={path}:$PATH; {command}");
    let run = || Command::new("sh").args(["-c", &script]).output().unwrap();
    let output = hosts.server.namespace.run(run).unwrap();
    Outcome::of(command.to_owned(), output)
}

/// Packets that pass in a second.
fn passed(hosts: &Hosts) -> u64 {
    let count = || number(&hosts.status()["passed"]["packets"]);
    let (before, begun) = (count(), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    (count() - before) * 1_000 / u64::try_from(begun.elapsed().as_millis()).unwrap()
}

#[test]
fn flood_is_explained_and_the_printed_command_stops_it() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1M/s --new-sources none");
    let saved = Saved::of(&hosts);
    let quiet = Flood::start(&hosts, ordinary(&hosts), Duration::from_millis(300));
    hosts.run("explain eth0 --save --for 4s");
    assert!(saved.0.exists());
    let calm = hosts.json("explain eth0 --for 2s --json");
    assert_eq!(calm["answer"], "no-flood", "{calm:#}");
    let flood = Flood::start(&hosts, reflection(&hosts), Duration::from_millis(100));
    let explained = hosts.json("explain eth0 --for 3s --json");
    if schema::has_validator("explain") {
        assert_eq!(schema::faults("explain", &explained), "", "{explained:#}");
    }
    assert_eq!(explained["answer"], "pattern", "{explained:#}");
    let [pattern] = &explained["patterns"].as_array().unwrap()[..] else {
        panic!("{explained:#}");
    };
    let share = |key: &str| pattern[key].as_f64().unwrap();
    // The senders of ordinary packets are not equally fast at each moment.
    assert!(share("of_excess") >= 0.9, "{pattern:#}");
    assert!(share("of_ordinary") <= 0.001, "{pattern:#}");
    let before = passed(&hosts);
    run_printed(&hosts, pattern["command"].as_str().unwrap()).expect(0);
    eventually("the flood is dropped", || passed(&hosts) < before / 2);
    let status = hosts.status();
    assert_eq!(status["limits"][1]["name"], "flood", "{status:#}");
    assert!(!status["try_until"].is_null(), "{status:#}");
    let again = hosts.run("explain eth0 --for 3s");
    assert!(
        again.contains("The limit flood has this match already"),
        "{again}"
    );
    assert!(!again.contains("Try it"), "{again}");
    let left = passed(&hosts);
    flood.end();
    let without = passed(&hosts);
    assert!(left < 2 * without + 100, "{left} of {without}");
    assert!(quiet.end() > 0);
}

#[test]
fn program_looks_at_packets_that_pass_only_while_it_is_explained() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1M/s");
    let constants =
        || limiter_tests::constants::of_program(number(&hosts.status()["program_id"])).passed;
    let instructions =
        || limiter_tests::constants::tag_of_program(number(&hosts.status()["program_id"]));
    let before = instructions();
    assert_eq!(constants(), 0);
    let frame = udp(&hosts, CLIENT, 9);
    let flood = Flood::start(&hosts, vec![frame], Duration::from_millis(1));
    let text = hosts.run("explain eth0 --for 1s");
    flood.end();
    assert_eq!(constants(), 0);
    assert_eq!(instructions(), before, "the same program as before");
    for words in [
        "no picture of ordinary traffic",
        "--save",
        "destination_port",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn packets_of_the_allow_list_are_no_part_of_a_flood() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1M/s");
    hosts.run(&format!("allow add eth0 {CLIENT}"));
    let frame = udp(&hosts, CLIENT, 9);
    let flood = Flood::start(&hosts, vec![frame], Duration::from_micros(200));
    let explained = hosts.json("explain eth0 --for 2s --json");
    flood.end();
    assert_eq!(explained["answer"], "too-few", "{explained:#}");
    assert!(
        explained["packets_per_second"].as_f64().unwrap() > 100.0,
        "{explained:#}"
    );
    assert!(explained["exempt"].as_f64().unwrap() > 0.9, "{explained:#}");
    assert_eq!(
        explained["shares"].as_array().unwrap().len(),
        0,
        "{explained:#}"
    );
}

/// Memory of a process at its highest, in bytes.
fn peak_memory(outcome: &str) -> u64 {
    let line = outcome.lines().find(|line| line.contains("VmHWM"));
    let digits = line.unwrap().split_whitespace().nth(1).unwrap();
    1_024 * digits.parse::<u64>().unwrap()
}

#[test]
fn long_capture_takes_bounded_memory() {
    use limiter_tests::{
        captures::{Captured, add, header},
        files::Folder,
    };

    let (folder, mut rng) = (Folder::new(), Rng::with_seed(6));
    let mut file = header(1);
    for number in 0..400_000_u64 {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend(rng.u64(..).to_be_bytes());
        frame.extend(rng.u64(..).to_be_bytes());
        frame.resize(74, 0);
        add(&mut file, &Captured::whole(1_000 + number * 10_000, frame));
    }
    let capture = folder.write("long.pcap", &file);
    let mut child = Command::new(binary())
        .args(["explain", "--capture", &capture, "--ordinary", &capture])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        if let Ok(status) = status
            && status.contains("VmHWM")
        {
            peak = peak_memory(&status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success());
    assert!((1..64 << 20).contains(&peak), "{peak} bytes");
}

/// The answer of `explain` about captures.
pub fn of_captures(arguments: &[&str]) -> Value {
    let words = [&["explain", "--json"], arguments].concat();
    let outcome = limiter_tests::command::limiter(&words);
    outcome.expect(0);
    serde_json::from_str(&outcome.stdout).unwrap()
}
