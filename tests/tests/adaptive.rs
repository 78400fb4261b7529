//! An adaptive limit admits exactly what the part of its rate that is in force allows, and is never left lowered.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::{Child, ChildStderr, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use limiter_common::arithmetic::scale::{ONE, word};
use limiter_tests::{
    captures::{Captured, pcap},
    command::{limiter, prepared},
    engine::Kernel,
    eventually,
    exporter::Exporter,
    files::{Folder, at_driver},
    hosts::{Hosts, on},
    need_kernel,
    packet::Frame,
    settings,
    traffic::Traffic,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const START: u64 = 1_000 * SECOND;
/// A time of captures, since 1970.
const TODAY: u64 = 1_795_000_000 * SECOND;
/// The end of a word is rounded up to this many nanoseconds.
const UNIT: u64 = 1 << 20;

fn from(source: &str) -> Vec<u8> {
    Frame::from(source.parse().unwrap()).bytes()
}

#[test]
fn scale_applies_exactly_until_its_end() {
    need_kernel!();
    let mut kernel = Kernel::of(&settings(
        "[[limit]]\nname = \"one\"\nrate = \"10/s\"\nburst = 10\nadaptive = { floor = \"10%\", when = { cpu_pressure = \"1%\" } }\n",
    ));
    let burst = |kernel: &Kernel, source: &str, moment| {
        let frame = from(source);
        (0..20)
            .filter(|_| kernel.passes(&frame, START + moment))
            .count()
    };
    assert_eq!(burst(&kernel, "192.0.2.1", 0), 10);
    let half = word(2 * ONE, START + 10 * SECOND);
    kernel.tables.set_scale(0, half).unwrap();
    assert_eq!(burst(&kernel, "192.0.2.2", 0), 5, "half of the burst");
    let frame = from("192.0.2.2");
    for token in 1..5 {
        let moment = START + token * 200 * MS;
        assert!(!kernel.passes(&frame, moment - 1), "token {token}");
        assert!(kernel.passes(&frame, moment), "token {token}");
    }
    // An empty bucket stays empty, and refills at half of the rate.
    let frame = from("192.0.2.1");
    assert!(!kernel.passes(&frame, START + 200 * MS - 1));
    assert!(kernel.passes(&frame, START + 200 * MS));
    // A tenth; then nobody writes the scale any more.
    let tenth = word(10 * ONE, START + 10 * SECOND);
    kernel.tables.set_scale(0, tenth).unwrap();
    assert_eq!(burst(&kernel, "192.0.2.3", 0), 1);
    assert_eq!(burst(&kernel, "192.0.2.4", 10 * SECOND - 1), 1);
    assert_eq!(burst(&kernel, "192.0.2.5", 10 * SECOND + 2 * UNIT), 10);
    assert_eq!(burst(&kernel, "192.0.2.3", 10 * SECOND + 2 * UNIT), 10);
}

/// A packet that a later limit refuses costs an adaptive limit nothing.
#[test]
fn refused_packets_are_not_charged_to_an_adaptive_limit() {
    need_kernel!();
    let mut kernel = Kernel::of(&settings(
        "[[limit]]\nname = \"one\"\nrate = \"1/h\"\nburst = 10\nadaptive = { floor = \"10%\", when = { cpu_pressure = \"1%\" } }\n\
         [[limit]]\nname = \"two\"\nrate = \"1/h\"\nburst = 2\nkey = \"/24,/48\"\nmatch = { length = \"0-60\" }\n",
    ));
    let half = word(2 * ONE, START + 3_600 * SECOND);
    kernel.tables.set_scale(0, half).unwrap();
    let frame = Frame::from("192.0.2.1".parse().unwrap());
    let long = Frame {
        payload: 200,
        ..frame
    }
    .bytes();
    let short = frame.bytes();
    let count = |frame: &[u8]| (0..20).filter(|_| kernel.passes(frame, START)).count();
    assert_eq!(count(&short), 2);
    assert_eq!(count(&long), 3, "five in all");
}

/// A running `limiter adapt eth0`.
struct Adapting {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Adapting {
    fn start(hosts: &Hosts) -> Self {
        Self::by(hosts, prepared("adapt eth0"))
    }

    fn by(hosts: &Hosts, mut command: Command) -> Self {
        let spawn = || command.stderr(Stdio::piped()).spawn();
        let mut child = on(&hosts.server, spawn).unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr }
    }

    fn expect(&mut self, words: &str) {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        assert!(line.contains(words), "{line}");
    }

    fn end(mut self, signal: Signal) -> bool {
        let id = self.child.id().try_into().unwrap();
        kill(Pid::from_raw(id), signal).unwrap();
        self.child.wait().unwrap().success()
    }
}

impl Drop for Adapting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that closes each connection with its answer, as some do. It ends with the test.
struct Server(Arc<AtomicBool>);

impl Server {
    fn start(hosts: &Hosts) -> Self {
        let listener = on(&hosts.server, || TcpListener::bind("192.0.2.1:7").unwrap());
        listener.set_nonblocking(true).unwrap();
        let ended = Arc::<AtomicBool>::default();
        let seen = Arc::clone(&ended);
        thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                if let Ok((mut client, _)) = listener.accept() {
                    client.set_nonblocking(false).unwrap();
                    let mut request = [0; 1_024];
                    let read = client.read(&mut request).unwrap();
                    assert!(request[..read].starts_with(b"GET /health HTTP/1.1\r\n"));
                    let answer =
                        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    client.write_all(answer).unwrap();
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        Self(ended)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const FILE: &str = "interfaces = [\"eth0\"]\n[[limit]]\nname = \"web\"\nrate = \"1/h\"\nburst = 10\n\
                    adaptive = { floor = \"40%\", when = { probe = \"http://192.0.2.1:7/health > 500ms\" } }\n";

#[test]
fn rate_follows_a_server_and_recovers_without_the_process() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(FILE);
    let scale = || hosts.status()["limits"][0]["scale"].as_f64().unwrap();
    assert!((scale() - 1.0).abs() < 1e-9);
    // Nobody listens on the port.
    let mut adapting = Adapting::start(&hosts);
    adapting.expect("eth0: web may fall to 40% of the rate when probe http://192.0.2.1:7/health");
    adapting.expect("web: 1/h falls (probe: ");
    adapting.expect("web: 40% of 1/h, the floor (probe: ");
    assert!((scale() - 0.4).abs() < 0.001);
    assert_eq!(Traffic::new(&hosts).passed("192.0.2.9", 20), 4);
    let shown = hosts.run("status eth0");
    assert!(shown.contains("  web    40% of 1/h  10 "), "{shown}");
    assert!(!shown.contains("does not run"), "{shown}");
    hosts
        .limiter("adapt eth0")
        .expect_error(1, &["another process adapts eth0"]);
    let checked = hosts.json("check eth0 192.0.2.8 --json");
    let tokens = checked["limits"][0]["tokens"].as_f64().unwrap();
    assert!((tokens - 4.0).abs() < 0.001, "{tokens}");
    assert_eq!(checked["limits"][0]["burst_tokens"], 4);
    let metrics = Exporter::start(&hosts.server).get("/metrics");
    let ratio = "limiter_rate_ratio{interface=\"eth0\",limit=\"web\"} 0.4";
    assert!(metrics.contains(ratio), "{metrics}");
    // Another rate keeps the scale.
    hosts.run("set eth0 --rate 2/h");
    assert!(scale() < 0.5);
    let _server = Server::start(&hosts);
    eventually("the rate rises", || scale() > 0.5);
    assert!(adapting.end(Signal::SIGTERM));
    assert!((scale() - 1.0).abs() < 1e-9, "at once");
}

#[test]
fn killed_process_leaves_no_limit_lowered() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(FILE);
    let scale = || hosts.status()["limits"][0]["scale"].as_f64().unwrap();
    let adapting = Adapting::start(&hosts);
    eventually("the rate falls", || scale() < 0.75);
    let lowered = scale();
    assert!(!adapting.end(Signal::SIGKILL));
    // A process that is started again continues.
    let mut again = Adapting::start(&hosts);
    again.expect("web may fall");
    assert!(scale() <= lowered + 0.001);
    // It survives that the interface is detached, and attached again.
    hosts.run("detach eth0");
    again.expect("until this is mended: ");
    hosts.attach_file(FILE);
    again.expect("web may fall");
    eventually("the rate falls", || scale() < 0.75);
    assert!(!again.end(Signal::SIGKILL));
    eventually("the configured rate holds", || scale() > 0.99);
    let shown = hosts.run("status eth0");
    assert!(shown.contains("limiter adapt does not run"), "{shown}");
    // Settings without an adaptive limit.
    hosts.run("detach eth0");
    hosts.run("attach eth0 --rate 1/s");
    hosts
        .limiter("adapt eth0")
        .expect_error(1, &["eth0 has no adaptive limit", "write adaptive"]);
    hosts.run("detach eth0");
    hosts
        .limiter("adapt eth0")
        .expect_error(1, &["not attached"]);
}

/// Without the kernel's counter, the second limit cannot be adapted.
#[test]
fn no_rate_stays_lowered_while_another_limit_cannot_be_adapted() {
    need_kernel!();
    let (hosts, files) = (Hosts::new(), Folder::new());
    hosts.attach_file(FILE);
    let scale = || hosts.status()["limits"][0]["scale"].as_f64().unwrap();
    // On a kernel that measures the pressure, the process sees an empty file.
    let hidden = format!(
        "for file in /proc/pressure/*; do mount --bind /dev/null $file; done; exec {} adapt eth0",
        prepared("").get_program().to_str().unwrap()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &hidden]);
    let mut adapting = Adapting::by(&hosts, command);
    adapting.expect("web may fall");
    eventually("the rate falls", || scale() < 0.75);
    let second = "[[limit]]\nname = \"other\"\nrate = \"5/s\"\nburst = 10\nadaptive = { when = { cpu_pressure = \"20%\" } }\n";
    let [single, two] = [FILE.to_owned(), format!("{FILE}{second}")];
    let reload = |text: &str| {
        let file = files.write("limiter.toml", at_driver(text));
        hosts.run(&["reload", "eth0", "--config", &file]);
    };
    reload(&two);
    let mut said = String::new();
    while !said.contains("until this is mended") {
        said.clear();
        assert_ne!(adapting.stderr.read_line(&mut said).unwrap(), 0);
    }
    assert!(said.contains("cpu_pressure"), "{said}");
    for _ in 0..20 {
        assert!(scale() > 0.99, "the configured rate, as the message says");
        thread::sleep(Duration::from_millis(200));
    }
    reload(&single);
    adapting.expect("web may fall");
    eventually("the rate falls", || scale() < 0.75);
    assert!(adapting.end(Signal::SIGTERM));
}

#[test]
fn simulation_shows_the_rates_of_each_second() {
    let folder = Folder::new();
    let frame = from("192.0.2.1");
    // 30 packets in each of three seconds, then 5.
    let packets = (0..4).flat_map(|second| {
        let count = if second < 3 { 30 } else { 5 };
        let frame = frame.clone();
        (0..count).map(move |packet| {
            Captured::whole(TODAY + second * SECOND + packet * MS, frame.clone())
        })
    });
    let capture = folder.write("flood.pcap", pcap(&packets.collect::<Vec<_>>()));
    let file = folder.write(
        "limiter.toml",
        "[[limit]]\nname = \"all\"\nrate = \"20/s\"\nadaptive = { when = { cpu_pressure = \"20%\" } }\n",
    );
    let words = [
        "adapt",
        "--simulate",
        &capture,
        "--config",
        &file,
        "--capacity",
        "10/s",
    ];
    let outcome = limiter(&words);
    outcome.expect(0);
    let lines: Vec<Vec<_>> = outcome
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[1], ["0", "30", "20", "20", "all", "100%"]);
    // 70 % of the rate and the burst: 14 packets at most, and what was left.
    assert_eq!(lines[2][..4], ["1", "30", "20", "14"]);
    assert_eq!(lines[3][5], "49%");
    assert_eq!(lines.len(), 5);
    let words = ["adapt", "--simulate", &capture];
    limiter(&words).expect_error(2, &["--config", "--capacity"]);
    limiter(&["adapt"]).expect_error(2, &["IFACE"]);
}
