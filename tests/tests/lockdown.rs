//! Uses of limiter while the kernel is locked down, as with Secure Boot. Runs in the machines `lockdown-*` of `cargo
//! xtask test --kernels`.

use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use limiter_tests::{
    exporter::{Exporter, loopback_up},
    files::Folder,
    hosts::{Hosts, SERVER, on},
    newcomers::{PORT, prepare_answers},
    traffic::{Flood, Traffic, udp},
    watcher::Watcher,
};

const PAGE: &str = include_str!("../../docs/lockdown.md");

/// The limit of most commands here.
const LIMIT: &str = "--rate 1/h --burst 3";

/// Few new sources at once, and an answer to all others.
const FEW: &str = "interfaces = \"eth0\"\nsecond_chance = false\nnew_sources = \"1/h\"\nnew_sources_burst = 4\n\
    [[limit]]\nname = \"default\"\nrate = \"1/h\"\nburst = 10\nproof = \"syn-cookie\"\n";

/// A use of limiter: its name on the page; the test, which returns what it found wrong.
type Use = (&'static str, fn() -> Result<(), String>);

const USES: [Use; 10] = [
    ("attach, native mode", || limits("native")),
    ("attach, generic mode", || limits("generic")),
    ("attach, mode tc", || limits("tc")),
    ("status, set, top, doctor", change),
    ("watch", watch),
    ("watch --write", write),
    ("learn", learn),
    ("proof by SYN cookies", prove),
    ("export", export),
    ("the driver's own words if attach fails", say),
];

/// The kernel's lockdown, from its list with brackets around the one in force; none if it has no lockdown.
fn in_force() -> Option<String> {
    let list = fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let (_, rest) = list.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

#[test]
fn uses_of_limiter_work_in_lockdown() {
    // The first process of an emulated machine gets the name of the kernel.
    let machine = env::var("release").unwrap_or_default();
    let Some(wanted) = machine.strip_prefix("lockdown-") else {
        return;
    };
    assert_eq!(in_force().as_deref(), Some(wanted));
    let mut rows = Vec::new();
    for (name, works) in USES {
        let result = match works() {
            Ok(()) => "works".to_owned(),
            Err(why) => format!("no: {}", why.lines().last().unwrap_or_default()),
        };
        rows.push(format!("| {wanted} | {name} | {result} |"));
        println!("{}", rows[rows.len() - 1]);
    }
    let is_other = |row: &&String| !PAGE.lines().any(|line| line == *row);
    let other: Vec<_> = rows.iter().filter(is_other).collect();
    assert!(
        other.is_empty() || env::var_os("LIMITER_WRITE_DOCS").is_some(),
        "not in docs/lockdown.md: {other:#?}\nIf that is right, record it: LIMITER_WRITE_DOCS=1 cargo xtask test --kernels {machine}"
    );
}

/// Fails with the command's words.
fn run(hosts: &Hosts, command: &str) -> Result<String, String> {
    let outcome = hosts.limiter(command);
    match outcome.status {
        0 => Ok(outcome.stdout),
        _ => Err(outcome.stderr),
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Result<(), String> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{found:?} instead of {wanted:?}")),
    }
}

fn limits(mode: &str) -> Result<(), String> {
    let hosts = Hosts::new();
    run(&hosts, &format!("attach eth0 {LIMIT} --mode {mode}"))?;
    expect(hosts.status()["mode"].as_str(), Some(mode))?;
    expect(Traffic::new(&hosts).passed("10.0.0.1", 10), 3)?;
    run(&hosts, "detach eth0").map(drop)
}

fn change() -> Result<(), String> {
    let hosts = Hosts::new();
    run(&hosts, "doctor eth0")?;
    run(&hosts, &format!("attach eth0 {LIMIT}"))?;
    run(&hosts, "set eth0 --burst 5")?;
    expect(Traffic::new(&hosts).passed("10.0.0.1", 10), 5)?;
    for command in [
        "status",
        "top eth0 --once",
        "check eth0 10.0.0.1",
        "doctor eth0",
    ] {
        run(&hosts, command)?;
    }
    Ok(())
}

fn watch() -> Result<(), String> {
    let hosts = Hosts::new();
    run(&hosts, &format!("attach eth0 {LIMIT}"))?;
    let mut watcher = Watcher::try_to_start(&hosts, &["--json"])?;
    Traffic::new(&hosts).passed("10.0.0.1", 4);
    expect(watcher.event()["reason"].as_str(), Some("limit"))
}

fn write() -> Result<(), String> {
    let (hosts, files) = (Hosts::new(), Folder::new());
    let path = files.path("drops.pcapng");
    run(&hosts, &format!("attach eth0 {LIMIT}"))?;
    let frame = udp(&hosts, "10.0.0.1".parse().unwrap(), 9);
    let watcher = Watcher::try_to_start(&hosts, &["--write", &path])?;
    Traffic::new(&hosts).send(&[&frame[..]; 6]);
    thread::sleep(Duration::from_secs(2));
    let ended = watcher.end();
    expect(ended.status, 0)?;
    let written = fs::read(&path).map_err(|error| error.to_string())?;
    expect(
        written.windows(frame.len()).any(|bytes| bytes == frame),
        true,
    )
}

fn learn() -> Result<(), String> {
    let hosts = Hosts::new();
    let source = |number| udp(&hosts, Ipv4Addr::new(10, 0, 0, number).into(), 9);
    let flood = Flood::start(
        &hosts,
        (1..9).map(source).collect(),
        Duration::from_millis(20),
    );
    let learnt = run(&hosts, "learn eth0 --for 3s --mode native");
    flood.end();
    expect(learnt?.contains("rate"), true)
}

fn prove() -> Result<(), String> {
    let hosts = Hosts::of_both_families();
    prepare_answers(&hosts);
    let listener = on(&hosts.server, || TcpListener::bind((SERVER, PORT)).unwrap());
    thread::spawn(move || while listener.accept().is_ok() {});
    hosts.attach_file(FEW);
    let refused: Vec<_> = (1..30)
        .map(|number| udp(&hosts, Ipv4Addr::new(10, 0, 0, number).into(), 9))
        .collect();
    let refused: Vec<_> = refused.iter().map(Vec::as_slice).collect();
    Traffic::new(&hosts).send(&refused);
    let patience = Duration::from_secs(5);
    let connected = on(&hosts.client, || {
        TcpStream::connect_timeout(&(SERVER, PORT).into(), patience)
            .map_err(|error| error.to_string())
    });
    connected?;
    let status = hosts.status();
    expect(limiter_tests::number(&status["sources"]["proven"]), 1)
}

fn export() -> Result<(), String> {
    let hosts = Hosts::new();
    run(&hosts, &format!("attach eth0 {LIMIT}"))?;
    loopback_up(&hosts.server);
    let exporter = Exporter::start(&hosts.server);
    let metrics = exporter.get("/metrics");
    expect(metrics.contains("limiter_packets_total{"), true)
}

/// The driver refuses a program if the other end of the veth has more queues.
fn say() -> Result<(), String> {
    let hosts = Hosts::new();
    let veth = "link add v1 numtxqueues 2 numrxqueues 2 type veth peer name v2 numtxqueues 2 numrxqueues 1";
    hosts
        .server
        .namespace
        .ip(veth)
        .map_err(|error| error.to_string())?;
    let refused = hosts.limiter("attach v2 --rate 5 --mode native");
    expect(refused.stderr.contains("the kernel says 'veth: "), true)
        .map_err(|_| "left out".to_owned())
}
