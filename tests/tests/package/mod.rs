//! The packages are complete, and install, upgrade and remove cleanly on a host with systemd.

mod image;
mod kubernetes;

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use limiter_kernel::sys::bpf;
use limiter_tests::{
    command::{Outcome, binary},
    container::Container,
    eventually,
    hosts::{CLIENT, Hosts, on},
    need, need_kernel, need_program, number,
    screen::Screen,
    service::counter,
    traffic::Flood,
};
use serde_json::Value;
use tempfile::TempDir;

/// The folder with the packages of the tested binary, built once.
fn packages() -> &'static Path {
    static PACKAGES: OnceLock<TempDir> = OnceLock::new();
    PACKAGES.get_or_init(pack).path()
}

/// A copy of the tested binary without symbols, which are most of its size.
fn stripped(folder: &Path) -> PathBuf {
    let stripped = folder.join("limiter");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(binary());
    assert!(strip.status().unwrap().success());
    stripped
}

fn pack() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let stripped = stripped(folder.path());
    let mut dist = Command::new(env!("CARGO"));
    dist.args(["xtask", "dist", "--out"]).arg(folder.path());
    dist.arg("--fast").arg("--binary").arg(&stripped);
    dist.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
    let packed = Outcome::of("cargo xtask dist".to_owned(), dist.output().unwrap());
    packed.expect(0);
    assert!(
        !packed.stderr.contains("packing"),
        "silent in a pipe: {packed:#?}"
    );
    fs::remove_file(stripped).unwrap();
    folder
}

/// A folder with the programs that make each package. They wait first: packing is slow then without using a processor.
fn slow_packers(folder: &Path) -> PathBuf {
    let slow = folder.join("slow");
    fs::create_dir(&slow).unwrap();
    // Manual pages are compressed at another level.
    for (program, condition) in [
        ("gzip", "[ \"$1\" = -1n ]"),
        ("dpkg-deb", "true"),
        ("rpmbuild", "true"),
    ] {
        let path = slow.join(program);
        let script = format!(
            "#!/bin/sh\nif {condition}; then sleep 2; fi\nPATH=\"${{PATH#*:}}\" exec {program} \"$@\"\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    slow
}

#[test]
fn packing_shows_its_progress_on_a_terminal() {
    need_kernel!();
    need_program!("tmux");
    if !need::packages("package") {
        return;
    }
    let (hosts, folder) = (Hosts::new(), tempfile::tempdir().unwrap());
    let stripped = stripped(folder.path());
    let screen = Screen::open(&hosts.server, (100, 24));
    screen.run(&format!(
        "cd {}/.. && PATH={}:$PATH {} xtask dist --fast --binary {} --out {}",
        env!("CARGO_MANIFEST_DIR"),
        slow_packers(folder.path()).display(),
        env!("CARGO"),
        stripped.display(),
        folder.path().join("dist").display()
    ));
    for file in ["tarball", ".deb", ".rpm", "image"] {
        screen.wait_for(&format!(" packing the {file}, "));
    }
    screen.wait_for("status 0");
    assert!(!screen.text().contains("packing"), "{}", screen.text());
}

fn package(folder: &Path, extension: &str) -> PathBuf {
    let found = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found = found.filter(|path| path.extension().is_some_and(|own| own == extension));
    let package = found.next().unwrap();
    assert_eq!(found.next(), None, "one .{extension}");
    package
}

fn lines(command: &mut Command) -> Vec<String> {
    let outcome = Outcome::of(format!("{command:?}"), command.output().unwrap());
    outcome.expect(0);
    outcome.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn all_packages_contain_the_same_complete_files() {
    if !need::packages("package") {
        return;
    }
    // Files of each package, behind a prefix of the listing's lines.
    let files = |listing: &[&str], extension: &str, prefix: &str| {
        let mut list = Command::new(listing[0]);
        list.args(&listing[1..]).arg(package(packages(), extension));
        let lines = lines(&mut list).into_iter();
        let names = lines.filter_map(|line| Some(line.split_once(prefix)?.1.to_owned()));
        let folders = ["", "etc/limiter", "usr/lib/limiter"];
        let names = names.filter(|file| !file.ends_with('/') && !folders.contains(&file.as_str()));
        let names = names.filter(|file| extension == "rpm" || !file.ends_with("/copyright"));
        let names = names.map(|file| file.replace("vendor-completions", "site-functions"));
        names.collect::<BTreeSet<_>>()
    };
    let rpm_files = files(&["rpm", "-qpl"], "rpm", "/");
    assert_eq!(files(&["dpkg-deb", "--contents"], "deb", " ./"), rpm_files);
    assert_eq!(files(&["tar", "-tf"], "gz", "/"), rpm_files);
    for file in [
        "etc/default/limiter",
        "etc/fail2ban/action.d/limiter.conf",
        "etc/limiter/limiter.toml",
        "usr/bin/limiter",
        "usr/lib/limiter/service",
        "usr/lib/systemd/system/limiter-notify.service",
        "usr/lib/systemd/system/limiter@.service",
        "usr/share/bash-completion/completions/limiter",
        "usr/share/doc/limiter/LICENSE-MIT",
        "usr/share/doc/limiter/docs/service.md",
        "usr/share/man/man8/limiter-attach.8.gz",
    ] {
        assert!(rpm_files.contains(file), "{file} is in {rpm_files:?}");
    }
    let root = tempfile::tempdir().unwrap();
    let mut install = Command::new("rpm");
    install.arg("--root").arg(root.path()).arg("--install");
    let rpm = package(packages(), "rpm");
    lines(install.args(["--nodeps", "--noscripts"]).arg(rpm));
    let mut installed = Command::new(root.path().join("usr/bin/limiter"));
    assert_eq!(lines(installed.arg("--version")).len(), 1);

    let sums = fs::read_to_string(packages().join("SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), 4);
    let mut check = Command::new("sha256sum");
    check
        .args(["--check", "SHA256SUMS"])
        .current_dir(packages());
    lines(&mut check);
}

/// They are valid roff, refer only to installed pages, and have the usual sections.
#[test]
fn manual_pages_are_complete() {
    if !need::packages("package") || !need::program("package", "groff") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut extract = Command::new("dpkg-deb");
    extract.arg("--extract").arg(package(packages(), "deb"));
    lines(extract.arg(root.path()));
    let mut find = Command::new("find");
    find.arg(root.path().join("usr/share/man"))
        .args(["-type", "f"]);
    let pages: Vec<_> = lines(&mut find).iter().map(PathBuf::from).collect();
    let name = |page: &PathBuf| {
        let file = page.file_stem().unwrap().to_str().unwrap();
        let (name, section) = file.rsplit_once('.').unwrap();
        format!("{name}({section})")
    };
    let names: BTreeSet<_> = pages.iter().map(name).collect();
    assert!(
        names.len() > 30 && names.contains("limiter.toml(5)"),
        "{names:?}"
    );
    for page in &pages {
        let roff = lines(Command::new("zcat").arg(page)).join("\n");
        let plain = page.with_extension("");
        fs::write(&plain, &roff).unwrap();
        let mut groff = Command::new("groff");
        groff.args(["-man", "-ww", "-z"]).arg(&plain);
        let output = groff.output().unwrap();
        assert!(output.stderr.is_empty(), "{}: {output:?}", name(page));
        for section in ["NAME", "DESCRIPTION", "SEE ALSO"] {
            let heading = format!(".SH {section}\n");
            let (_, text) = roff.split_once(&heading).unwrap_or_default();
            assert!(
                !text.is_empty() && !text.starts_with(".SH"),
                "{section} of {}",
                name(page)
            );
        }
        let words = roff.replace('\\', "").replace(" (", "(");
        let named = words.split([' ', '\n', ',']).filter_map(|word| {
            let (name, section) = word.strip_suffix(')')?.split_once('(')?;
            let digit = section.len() == 1 && section.as_bytes()[0].is_ascii_digit();
            digit.then(|| format!("{name}({section})"))
        });
        for named in named.filter(|named| named.starts_with("limiter")) {
            assert!(names.contains(&named), "{} names {named}", name(page));
        }
    }
}

/// A host with systemd, and the package at `/mnt`.
struct Installed {
    hosts: Hosts,
    container: Container,
    deb: String,
}

impl Installed {
    fn new() -> Self {
        let hosts = Hosts::new();
        let container = Container::boot(&hosts.server, packages());
        let deb = package(packages(), "deb");
        let deb = format!("/mnt/{}", deb.file_name().unwrap().to_str().unwrap());
        container.done(&["dpkg", "--no-triggers", "--install", &deb]);
        Self {
            hosts,
            container,
            deb,
        }
    }

    fn systemctl(&self, arguments: &[&str]) {
        let line = [&["systemctl"], arguments].concat();
        let outcome = self.container.run(&line);
        let why = ["journalctl", "--no-pager", "--lines=30"];
        assert_eq!(
            outcome.status,
            0,
            "{outcome:#?}\n{}",
            self.container.run(&why).stdout
        );
    }

    fn state(&self, unit: &str) -> String {
        let state = self.container.run(&["systemctl", "is-active", unit]).stdout;
        state.trim_end().to_owned()
    }

    /// The attached interfaces, from `status --json`.
    fn attached(&self) -> Vec<Value> {
        let status = self.container.done(&["limiter", "status", "--json"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        status["interfaces"].as_array().unwrap().clone()
    }

    fn status(&self) -> Value {
        let attached = self.attached();
        assert_eq!(attached.len(), 1, "{attached:?}");
        attached[0].clone()
    }

    /// True if the kernel runs a program on the interface, which is a veth. Does not use limiter's reports.
    fn runs(&self) -> bool {
        let server = &self.hosts.server;
        let programs = on(server, || bpf::programs(server.index, bpf::BPF_TCX_INGRESS));
        !programs.unwrap().is_empty()
    }

    /// The exporter's answer at its default address; empty if it does not run.
    fn metrics(&self) -> String {
        let ask = "exec 3<>/dev/tcp/127.0.0.1/10546 && printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3";
        self.container.run(&["bash", "-c", ask]).stdout
    }

    /// Waits until the exporter reports the running program.
    fn exported(&self) {
        let program = number(&self.status()["program_id"]);
        let wanted = format!("program_id=\"{program}\"}} 1");
        eventually("the exporter reports the program", || {
            let metrics = self.metrics();
            let mut lines = metrics.lines();
            lines.any(|line| line.starts_with("limiter_attached_info") && line.ends_with(&wanted))
        });
        assert_eq!(self.state(EXPORT), "active");
    }

    fn exporter(&self) -> String {
        let show = ["systemctl", "show", "--value", "--property=MainPID", EXPORT];
        self.container.done(&show)
    }

    /// Number of IPv4 packets that the host's stack has received, after limiter.
    fn received(&self) -> u64 {
        counter(&self.hosts.server, "Ip:", "InReceives")
    }

    /// Floods from one source while `during` runs. Returns the number of packets sent, after all have arrived.
    fn flood(&self, during: impl FnOnce(&dyn Fn())) -> u64 {
        let frame = self.hosts.frame(CLIENT).bytes();
        // The pauses leave processor time to systemd.
        let flood = Flood::start(&self.hosts, vec![frame], Duration::from_micros(100));
        let more = || {
            let before = flood.sent();
            while flood.sent() < before + 100 {
                thread::yield_now();
            }
        };
        during(&more);
        let sent = flood.end();
        thread::sleep(Duration::from_millis(100));
        sent
    }
}

const FILE: &str = "/etc/limiter/eth0.toml";
const UNIT: &str = "limiter@eth0";
const ONLINE: &str = "limiter-online@eth0";
const EXPORT: &str = "limiter-export";
const ORDINARY: &str = "limiter-ordinary@eth0.timer";
const STRICT: &str = "[[limit]]\nname = \"default\"\nrate = \"1/h\"\nburst = 3\n";

/// One source floods the host, under a limit of three packets and one more per hour. Meanwhile, the unit is reloaded,
/// restarted, stopped and started, and the package is installed over itself. A packet that meets no program, or a lost
/// bucket, shows in the count of packets that the host's stack has received.
#[test]
fn package_keeps_limits_from_installation_to_purge() {
    need_kernel!();
    if !need::packages("package") || !need::container("package") {
        return;
    }
    let host = Installed::new();
    let container = &host.container;
    // The installation attaches nothing, and starts nothing.
    assert!(host.attached().is_empty() && !host.runs());
    assert_eq!(host.state(EXPORT), "inactive");
    container.done(&["systemctl", "is-system-running"]);
    let units = [
        "limiter@eth0",
        "limiter-online@eth0",
        "limiter-export",
        "limiter-notify",
        "limiter-agent",
        "limiter-adapt@eth0",
        "limiter-drops@eth0",
        "limiter-ordinary@eth0",
        "limiter-feed@drop",
    ]
    .map(|unit| format!("{unit}.service"));
    let units: Vec<_> = units.iter().map(String::as_str).chain([ORDINARY]).collect();
    let verified =
        container.run(&[&["systemd-analyze", "verify", "--man=no"][..], &units[..]].concat());
    assert!(!verified.stderr.contains("limiter"), "{verified:#?}");
    verified.expect(0);

    // The default configuration drops nothing.
    host.systemctl(&["enable", "--now", UNIT]);
    assert_eq!(host.state(UNIT), "active");
    container.done(&["systemctl", "is-enabled", ONLINE]);
    let status = host.status();
    assert_eq!(status["shadow"], true, "{status}");
    assert!(host.runs());

    // The file of the interface takes precedence.
    container.write(FILE, STRICT);
    host.systemctl(&["reload", UNIT]);
    let status = host.status();
    assert_eq!(status["limits"][0]["rate"], "1/h", "{status}");
    assert_eq!(status["shadow"], false, "{status}");

    host.systemctl(&["enable", "--now", EXPORT]);
    host.exported();
    drops_in_the_journal(&host);
    picture_of_ordinary_traffic(&host);
    flood_is_explained(&host);
    through_a_flood(&host);
    mistakes_change_nothing(&host);
    falls_back_at_boot(&host);
    late_address(&host);
    late_network(&host);
    stopped(&host);
    removed(&host);
    from_rpm(&host);
}

/// Checks that a bounded sample of drops is in the journal.
fn drops_in_the_journal(host: &Installed) {
    const DROPS: &str = "limiter-drops@eth0";
    let journal = || {
        let unit = ["journalctl", "--output=cat", "--unit", DROPS];
        host.container.run(&unit).stdout
    };
    host.systemctl(&["start", DROPS]);
    eventually("the watch begins", || journal().contains("until you press"));
    let begun = Instant::now();
    let sent = host.flood(|more| (0..5).for_each(|_| more()));
    eventually("drops are in the journal", || {
        journal().contains("dropped: over the limit")
    });
    let lines = journal().matches("dropped: ").count() as u64;
    let most = 5 * (begun.elapsed().as_secs() + 2);
    assert!(lines <= most, "{lines} lines of {sent} packets");
    host.systemctl(&["stop", DROPS]);
    assert_eq!(host.state(DROPS), "inactive", "{}", journal());
}

/// Checks that the timer keeps a picture of ordinary traffic, and not of a flood.
fn picture_of_ordinary_traffic(host: &Installed) {
    const FILE: &str = "/var/lib/limiter/ordinary/eth0.json";
    const ONCE: &str = "limiter-ordinary@eth0";
    let container = &host.container;
    let picture = || container.run(&["sha256sum", FILE]).stdout;
    host.systemctl(&["enable", "--now", ORDINARY]);
    assert_eq!(host.state(ORDINARY), "active");
    host.systemctl(&["start", ONCE]);
    let mode = container.done(&["stat", "--format=%a %U", FILE, "/var/lib/limiter/ordinary"]);
    assert_eq!(mode, "600 root\n700 root\n");
    let before = picture();
    host.flood(|more| {
        more();
        // A flood is nothing that the unit fails for.
        host.systemctl(&["start", ONCE]);
    });
    let journal = ["journalctl", "--output=cat", "--unit", ONCE];
    let journal = container.run(&journal).stdout;
    assert!(journal.contains("nothing is saved"), "{journal}");
    assert_eq!(picture(), before);
    host.systemctl(&["disable", "--now", ORDINARY]);
}

/// Checks that the unit of `notify` may explain a flood.
fn flood_is_explained(host: &Installed) {
    const NOTIFY: &str = "limiter-notify";
    const PROGRAM: &str = "/etc/limiter/on-event";
    let container = &host.container;
    container.done(&["install", "-d", "-m", "777", "/var/spool/events"]);
    container.write(PROGRAM, "#!/bin/sh\nexec cat >/var/spool/events/$$\n");
    container.done(&["chmod", "755", PROGRAM]);
    container.done(&["mkdir", "/etc/systemd/system/limiter-notify.service.d"]);
    container.write(
        "/etc/systemd/system/limiter-notify.service.d/events.conf",
        "[Service]\nReadWritePaths=/var/spool/events\n",
    );
    let options = format!("--explain --on flood --drops 50/s --window 1s --exec {PROGRAM}");
    let settings = format!("LIMITER_NOTIFY_OPTIONS=\"{options}\"\n");
    container.write("/etc/default/limiter", &settings);
    host.systemctl(&["daemon-reload"]);
    host.systemctl(&["start", NOTIFY]);
    let told = || {
        container
            .run(&["sh", "-c", "cat /var/spool/events/*"])
            .stdout
    };
    host.flood(|more| {
        eventually("the flood is told", || {
            more();
            told().contains("begin")
        });
    });
    let event = told();
    let event: Value = serde_json::from_str(event.lines().next().unwrap()).unwrap();
    let explanation = event["explanation"].as_str().unwrap();
    assert!(explanation.starts_with("eth0: "), "{explanation}");
    assert!(
        explanation.contains("packets/s, 100 % dropped"),
        "{explanation}"
    );
    host.systemctl(&["stop", NOTIFY]);
    container.write("/etc/default/limiter", "");
    let folders = [
        "/etc/systemd/system/limiter-notify.service.d",
        "/var/spool/events",
    ];
    container.done(&[&["rm", "-r", PROGRAM][..], &folders].concat());
}

fn through_a_flood(host: &Installed) {
    let (container, start) = (&host.container, Instant::now());
    let seen = || number(&host.status()["seen"]["packets"]);
    let (received, seen_before) = (host.received(), seen());
    let program = || number(&host.status()["program_id"]);
    let sent = host.flood(|more| {
        more();
        for verb in ["reload", "restart", "stop", "start"] {
            host.systemctl(&[verb, UNIT]);
            more();
        }
        let before = program();
        let exporter = host.exporter();
        let upgraded = container.run(&["dpkg", "--no-triggers", "--install", &host.deb]);
        upgraded.expect(0);
        more();
        assert_ne!(program(), before, "the new program runs: {upgraded:#?}");
        assert_ne!(host.exporter(), exporter, "the new exporter runs");
    });
    assert_eq!(host.state(UNIT), "active");
    let passed = host.received() - received;
    let hours = start.elapsed().as_secs() / 3_600;
    assert!(passed <= 3 + hours, "{passed} passed of {sent}");
    assert_eq!(seen() - seen_before, sent, "limiter has seen every packet");
    assert!(sent >= 600, "too few packets were sent: {sent}");
    // This comes last, because the host's stack also counts requests to the exporter.
    host.exported();
}

/// Checks that an invalid configuration leaves the current one in force.
fn mistakes_change_nothing(host: &Installed) {
    let container = &host.container;
    container.write(FILE, "[[limit]]\nrate = \"fast\"\n");
    for verb in ["reload", "restart"] {
        let outcome = container.run(&["systemctl", verb, UNIT]);
        assert_ne!(outcome.status, 0, "{outcome:#?}");
        assert_eq!(host.status()["limits"][0]["rate"], "1/h");
    }
    container.write(FILE, STRICT);
    host.systemctl(&["restart", UNIT]);
}

/// Checks that a start with nothing attached, as at boot, limits by the last configuration if the file has a mistake.
fn falls_back_at_boot(host: &Installed) {
    let container = &host.container;
    container.write(FILE, "[[limit]]\nrate = \"fast\"\n");
    host.systemctl(&["stop", UNIT]);
    container.done(&["limiter", "detach", "eth0"]);
    assert!(!host.runs());
    host.systemctl(&["start", UNIT]);
    assert_eq!(host.state(UNIT), "active");
    assert!(host.runs());
    let status = host.status();
    assert_eq!(status["limits"][0]["rate"], "1/h", "{status}");
    let why = status["instead_of_file"].as_str().unwrap_or_default();
    assert!(why.contains(FILE), "{status}");
    let journal = ["journalctl", "--output=cat", "--unit", UNIT];
    let journal = container.run(&journal).stdout;
    assert!(
        journal.contains("WARNING: eth0 gets the last configuration"),
        "{journal}"
    );
    container.write(FILE, STRICT);
    host.systemctl(&["reload", UNIT]);
    assert!(host.status()["instead_of_file"].is_null());
}

/// Checks that the exporter waits for an address that comes late, and does not try wrong options again.
fn late_address(host: &Installed) {
    let container = &host.container;
    let options = |text: &str| {
        let text = format!("LIMITER_EXPORT_OPTIONS={text}\n");
        container.write("/etc/default/limiter", &text);
        host.systemctl(&["restart", EXPORT]);
    };
    options("--listen=192.0.2.77");
    // By default, systemd gives up after five starts within ten seconds.
    thread::sleep(Duration::from_secs(12));
    assert_ne!(host.state(EXPORT), "failed");
    container.done(&["ip", "address", "add", "192.0.2.77/32", "dev", "lo"]);
    let page = || {
        let scrape = ["curl", "--silent", "http://192.0.2.77:10546/metrics"];
        container.run(&scrape).stdout
    };
    eventually("the exporter listens", || page().contains("limiter_"));
    options("--wrong");
    eventually("the exporter gives up", || host.state(EXPORT) == "failed");
    options("");
    host.exported();
}

/// Checks that a handshake proof answers for an address that the interface gets after its limits, as at boot.
fn late_network(host: &Installed) {
    let container = &host.container;
    let proof = format!("{STRICT}proof = \"syn-cookie\"\n");
    container.write(FILE, &proof);
    container.done(&["sysctl", "--write", "net.ipv4.tcp_syncookies=2"]);
    // The network is up when the file exists.
    let network = "[Unit]\nBefore=network-online.target\n[Service]\nType=oneshot\n\
                   ExecStart=sh -c 'until [ -e /run/up ]; do sleep 0.1; done'\n";
    container.write("/etc/systemd/system/slow.service", network);
    let wants = "/etc/systemd/system/network-online.target.d";
    container.done(&["mkdir", wants]);
    container.write(
        &format!("{wants}/slow.conf"),
        "[Unit]\nWants=slow.service\n",
    );
    host.systemctl(&["stop", UNIT, "network-online.target"]);
    // An attachment keeps its mode, and the proof needs XDP.
    container.done(&["limiter", "detach", "eth0"]);
    host.systemctl(&["daemon-reload"]);
    host.systemctl(&["start", UNIT]);
    host.systemctl(&["start", "--no-block", ONLINE]);
    let before = number(&host.status()["program_id"]);
    let lacks = || {
        let doctor = container.run(&["limiter", "doctor", "eth0"]);
        doctor
            .stdout
            .contains("packets to new addresses get no answer")
    };
    container.done(&["ip", "address", "add", "192.0.2.78/24", "dev", "eth0"]);
    assert!(lacks(), "the program does not know the address yet");
    container.done(&["touch", "/run/up"]);
    eventually("the unit reloads once the network is up", || !lacks());
    assert_ne!(number(&host.status()["program_id"]), before);
    container.write(FILE, STRICT);
    host.systemctl(&["reload", UNIT]);
}

/// Checks that limits stay when the unit stops, unless the configuration says to detach.
fn stopped(host: &Installed) {
    host.systemctl(&["stop", UNIT]);
    assert_eq!(host.state(UNIT), "inactive");
    assert_eq!(host.status()["limits"][0]["rate"], "1/h");
    host.systemctl(&["start", UNIT]);
    host.container
        .write("/etc/default/limiter", "LIMITER_DETACH_ON_STOP=yes\n");
    host.systemctl(&["stop", UNIT]);
    assert!(host.attached().is_empty() && !host.runs());
    host.systemctl(&["start", UNIT]);
    assert!(host.runs());
    host.exported();
    host.systemctl(&["stop", EXPORT]);
    assert_eq!(
        (host.state(EXPORT), host.metrics()),
        ("inactive".to_owned(), String::new())
    );
    host.systemctl(&["start", EXPORT]);
    // A start makes a trial permanent.
    host.systemctl(&["stop", UNIT]);
    let attach = ["limiter", "attach", "eth0", "--config", FILE, "--try", "1h"];
    host.container.done(&attach);
    host.systemctl(&["start", UNIT]);
    assert_eq!(host.status()["try_until"], Value::Null);
}

fn removed(host: &Installed) {
    let container = &host.container;
    // The removal of the package must detach limiter, even if the unit does not.
    container.write("/etc/default/limiter", "LIMITER_DETACH_ON_STOP=no\n");
    container.done(&["dpkg", "--no-triggers", "--remove", "limiter"]);
    assert!(!host.runs());
    assert_eq!(host.state(UNIT), "inactive");
    assert_eq!(host.state(EXPORT), "inactive");
    container.done(&["test", "-e", FILE]);
    container.done(&["dpkg", "--no-triggers", "--purge", "limiter"]);
    container.done(&["test", "!", "-e", "/var/lib/limiter"]);
    let find = "find /etc /usr /sys/fs/bpf /run/systemd /var/lib/dpkg/info -xdev -name '*limiter*'";
    let left = container.done(&["sh", "-c", find]);
    // Other packages may have files with `limiter` in their names (delimiter.hpp).
    let of_others =
        lines(Command::new("find").args(["/etc", "/usr", "-xdev", "-name", "*limiter*"]));
    let left: Vec<_> = left
        .lines()
        .filter(|file| !of_others.iter().any(|other| other == file))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Runs the scripts of the RPM package: installation, upgrade, and removal.
fn from_rpm(host: &Installed) {
    let container = &host.container;
    let rpm = package(packages(), "rpm");
    let rpm = format!("/mnt/{}", rpm.file_name().unwrap().to_str().unwrap());
    let install = ["rpm", "--nodeps", "--force", "--upgrade", &rpm];
    container.done(&install);
    assert!(host.attached().is_empty() && !host.runs());
    container.write(FILE, STRICT);
    host.systemctl(&["start", UNIT]);
    let before = host.status();
    container.done(&install);
    let after = host.status();
    assert_ne!(before["program_id"], after["program_id"], "{after}");
    assert_eq!(before["attached_at"], after["attached_at"], "{after}");
    container.done(&["rpm", "--nodeps", "--erase", "limiter"]);
    assert!(!host.runs());
    assert_eq!(host.state(UNIT), "inactive");
}
