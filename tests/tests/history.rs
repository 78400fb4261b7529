//! `history` shows who changed an attachment, when, and from which values to which; it is bounded, survives killed
//! processes, and fails no command.

use std::{
    fs,
    io::Write as _,
    os::unix::{fs::MetadataExt, net::UnixDatagram},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use limiter_tests::{
    command::{Outcome, binary, prepared},
    eventually,
    exporter::Exporter,
    files::{Folder, at_driver},
    hosts::{Hosts, on},
    need_kernel, schema,
    traffic::{Flood, udp},
};
use nix::unistd::gettid;
use serde_json::Value;

/// The history of eth0 in the network namespace of these hosts, which goes with the test.
struct File(PathBuf);

impl File {
    fn of(hosts: &Hosts) -> Self {
        let pins = hosts.pins();
        let name = pins.file_name().unwrap().to_str().unwrap();
        Self(format!("/run/limiter/history/{name}.jsonl").into())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn entries(hosts: &Hosts) -> Vec<Value> {
    let history = hosts.json("history eth0 --json");
    history["entries"].as_array().unwrap().clone()
}

/// The events, each with its details.
fn events(hosts: &Hosts) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let details = |value: &Value| {
        let details = value["details"].as_array().unwrap().iter();
        details.map(text).collect::<Vec<_>>().join("; ")
    };
    let entries = entries(hosts).into_iter();
    entries
        .map(|entry| (text(&entry["event"]), details(&entry)))
        .collect()
}

#[test]
fn changes_are_recorded_with_user_time_and_values() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = File::of(&hosts);
    assert_eq!(
        hosts.run("history eth0"),
        "eth0: no changes in the last 7days\n"
    );
    let toml = folder.write(
        "limiter.toml",
        at_driver("[[limit]]\nname = \"all\"\nrate = \"10/s\"\n"),
    );
    hosts.run(&["attach", "eth0", "--config", &toml]);
    let mut set = prepared("set eth0 --rate 20/s");
    set.env("SUDO_USER", "alice").env("SUDO_UID", "1234");
    let set = on(&hosts.server, || set.output()).unwrap();
    assert!(set.status.success(), "{set:?}");
    for line in [
        // None of these changes anything.
        "set eth0 --rate 20/s",
        "set eth0 --rate 30/s --dry-run",
        "unban eth0 192.0.2.9",
        "keep eth0",
        "config diff eth0",
    ] {
        hosts.run(line);
    }
    hosts.limiter("set eth0 --limit none --rate 1/s").expect(1);
    for line in [
        "set eth0 --rate 30/s --try 2m",
        "keep eth0 --revert",
        "limit eth0 ssh --rate 5/m --try 2m",
        "keep eth0",
        "deny add eth0 203.0.113.0/24",
        "ban eth0 198.51.100.7 --for 10m --reason scan",
        // Programs ban all the time.
        "ban eth0 198.51.100.8 --origin script",
        "unban eth0 198.51.100.7",
        "config save eth0",
        "detach eth0",
    ] {
        hosts.run(line);
    }
    let found = events(&hosts);
    let wanted = [
        ("attach", "limit all new: 10/s"),
        ("change", "rate 10/s -> 20/s"),
        ("trial", "rate 20/s -> 30/s"),
        ("revert", ""),
        ("trial", "limit ssh new: 5/m"),
        ("keep", ""),
        ("change", "deny: 1 added, 0 removed"),
        ("ban", "for 10m: scan; 198.51.100.7"),
        ("unban", "198.51.100.7"),
        ("save", "limiter.toml"),
        ("detach", ""),
    ];
    let names: Vec<_> = found.iter().map(|(event, _)| event.as_str()).collect();
    assert_eq!(names, wanted.map(|(event, _)| event), "{found:#?}");
    for ((_, details), (_, words)) in found.iter().zip(wanted) {
        assert!(details.contains(words), "'{words}': {found:#?}");
    }
    let entries = entries(&hosts);
    assert_eq!(
        (&entries[1]["user"], &entries[1]["uid"]),
        (&"alice".into(), &1_234.into())
    );
    assert_eq!(
        (&entries[2]["user"], &entries[2]["uid"]),
        (&"root".into(), &0.into())
    );
    assert_eq!(entries[4]["command"], "limit");
    let text = hosts.run("history eth0 --last 1h");
    assert!(
        text.contains("eth0: change by alice (limiter set)\n    rate 10/s -> 20/s\n"),
        "{text}"
    );
    if schema::has_validator("history") {
        assert_eq!(
            schema::faults("history", &hosts.json("history eth0 --json")),
            ""
        );
    }
    let metadata = fs::metadata(&file.0).unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.uid()), (0o600, 0));
}

#[test]
fn remains_of_killed_processes_and_control_characters_do_no_harm() {
    need_kernel!();
    let hosts = Hosts::new();
    let file = File::of(&hosts);
    hosts.run("attach eth0 --rate 10/s");
    let mut history = fs::File::options().append(true).open(&file.0).unwrap();
    history.write_all(b"\x00\xff{\"time\":\"20").unwrap();
    let mut ban = prepared("ban eth0 192.0.2.7");
    ban.env("SUDO_USER", "a\u{1b}[2J\nb");
    assert!(on(&hosts.server, || ban.output()).unwrap().status.success());
    let shown = hosts.limiter("history eth0");
    shown.expect(0);
    assert!(
        shown.stderr.contains("1 line of the history left out"),
        "{shown:#?}"
    );
    assert!(!shown.stdout.contains('\u{1b}'), "{shown:#?}");
    let names: Vec<_> = events(&hosts).into_iter().map(|(event, _)| event).collect();
    assert_eq!(names, ["attach", "ban"]);
}

/// Texts of users, files and reasons have control characters, and look like events of their own.
#[test]
fn no_text_makes_a_line_of_its_own() {
    const FORGED: &str = "x\n2026-01-01T00:00:00Z  eth0: y\u{1b}[2J";
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let _file = File::of(&hosts);
    let text = at_driver("[[limit]]\nname = \"all\"\nrate = \"10/s\"\n");
    let path = folder.write(&format!("{FORGED}.toml"), text);
    hosts.run(&["attach", "eth0", "--config", &path]);
    let mut ban = prepared("ban eth0 192.0.2.7");
    ban.args(["--reason", "scan"]).env("SUDO_USER", FORGED);
    assert!(on(&hosts.server, || ban.output()).unwrap().status.success());
    let saved = folder.path(&format!("{FORGED}.saved"));
    hosts.run(&["config", "save", "eth0", &saved]);
    let shown = hosts.run("history eth0");
    assert!(shown.contains("2026-01-01T00:00:00Z"), "{shown}");
    for line in shown.lines() {
        let is_detail = line.starts_with("    ");
        let is_event = [" attach by root ", " ban by x", " save by root "]
            .iter()
            .any(|words| line.contains(&format!("Z  eth0:{words}")));
        assert!(is_detail != is_event, "{line:?} in {shown:?}");
        assert!(
            !line.starts_with("2026-01-01") && !line.contains('\u{1b}'),
            "{shown:?}"
        );
    }
    let json = hosts.run("history eth0 --json");
    assert_eq!(
        (json.lines().count(), json.contains('\u{1b}')),
        (1, false),
        "{json:?}"
    );
    // Programs get the text as it is. A name has 32 characters at most.
    let user = entries(&hosts)[1]["user"].as_str().unwrap().to_owned();
    assert!(user.starts_with(&FORGED[..32]), "{user:?}");
}

#[test]
fn trial_that_nobody_kept_has_an_end() {
    need_kernel!();
    let hosts = Hosts::new();
    let _file = File::of(&hosts);
    hosts.run("attach eth0 --rate 10/s");
    let mut set = prepared("set eth0 --rate 30/s --try 1s");
    set.env("SUDO_USER", "alice");
    assert!(on(&hosts.server, || set.output()).unwrap().status.success());
    let names = || -> Vec<_> { events(&hosts).into_iter().map(|(event, _)| event).collect() };
    assert_eq!(names()[..2], ["attach", "trial"]);
    eventually("the end of the trial", || names().len() == 3);
    let (event, details) = events(&hosts).pop().unwrap();
    assert_eq!(event, "trial-end");
    let words = "nobody kept the trial: the settings before it are in force again";
    let undone = "undone: rate 10/s -> 30/s; undone: burst 10 by the rate -> 30 by the rate";
    assert_eq!(details, format!("{words}; {undone}"));
    assert_eq!(
        entries(&hosts)[2]["time"],
        entries(&hosts)[1]["trial_until"]
    );
    let text = hosts.run("history eth0");
    assert!(
        text.contains("eth0: trial-end by itself (limiter set by alice)"),
        "{text}"
    );
    // It stays when a later command has cleared the trial.
    hosts.run("set eth0 --rate 20/s");
    assert_eq!(names(), ["attach", "trial", "trial-end", "change"]);
    hosts.run("set eth0 --rate 40/s --try 60s");
    hosts.run("keep eth0");
    hosts.run("detach eth0");
    hosts.run("attach eth0 --rate 10/s --try 1s");
    eventually("the end of the first trial", || {
        names()[4..] == ["trial", "keep", "detach", "attach", "trial-end"]
    });
    let end = events(&hosts).pop().unwrap().1;
    assert_eq!(end, "nobody kept the trial: nothing is limited");
    if schema::has_validator("history") {
        assert_eq!(
            schema::faults("history", &hosts.json("history eth0 --json")),
            ""
        );
    }
    hosts.run("detach eth0");
}

/// Runs `limiter` on the server with other mounts: `sh` runs these commands before.
fn with_mounts(hosts: &Hosts, mounts: &str, line: &str) -> Outcome {
    let script = format!("set -e; {mounts}; exec {} {line}", binary().display());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    Outcome::of(
        line.to_owned(),
        on(&hosts.server, || command.output()).unwrap(),
    )
}

#[test]
fn full_disk_fails_no_command() {
    need_kernel!();
    let hosts = Hosts::new();
    let _file = File::of(&hosts);
    hosts.run("attach eth0 --rate 10/s");
    let full = "mount -t tmpfs -o size=64k none /run/limiter/history; \
                dd if=/dev/zero of=/run/limiter/history/x bs=4k 2>/dev/null || true";
    let outcome = with_mounts(&hosts, full, "set eth0 --rate 20/s");
    outcome.expect(0);
    assert!(outcome.stdout.contains("rate 10/s -> 20/s"), "{outcome:#?}");
    for words in ["done, but not in the history", "No space left"] {
        assert!(outcome.stderr.contains(words), "'{words}': {outcome:#?}");
    }
    assert_eq!(hosts.status()["limits"][0]["rate"], "20/s");
}

#[test]
fn journal_gets_each_change() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let _file = File::of(&hosts);
    hosts.run("attach eth0 --rate 10/s");
    for (place, name) in [("/run/systemd/journal", "socket"), ("/dev", "log")] {
        let socket = folder.path(name);
        let journal = UnixDatagram::bind(&socket).unwrap();
        journal
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mounts = match name {
            "socket" => format!(
                "mount -t tmpfs none /run; mkdir -p {place}; touch {place}/{name}; mount --bind {socket} {place}/{name}"
            ),
            _ => format!(
                "mount -t tmpfs none /run; touch /run/x; mount --bind {socket} /run/x; \
                 mkdir /run/dev; mount -t tmpfs none /dev; ln -s /run/x /dev/log; mknod -m 666 /dev/null c 1 3"
            ),
        };
        let line = format!("ban eth0 192.0.2.{} --reason scan", name.len());
        with_mounts(&hosts, &mounts, &line).expect(0);
        let mut datagram = [0; 4_096];
        let length = journal.recv(&mut datagram).unwrap();
        let text = String::from_utf8(datagram[..length].to_vec()).unwrap();
        assert!(
            text.contains("eth0: ban by root (limiter ban): without end: scan; 192.0.2."),
            "{text}"
        );
        let fields = text.contains("\nLIMITER_INTERFACE=eth0\n");
        assert_eq!(fields, name == "socket", "{text}");
    }
}

/// Puts this thread, and everything that it starts, before other processes: a flood has its rate on a busy machine.
fn hurry() {
    let thread = gettid().to_string();
    let mut renice = Command::new("renice");
    renice
        .args(["-n", "-20", "-p", &thread])
        .stdout(Stdio::null());
    assert!(renice.status().unwrap().success());
}

/// The exporter has the thresholds of `notify` without options: 10,000 packets per second, for ten seconds.
#[test]
fn floods_are_recorded_while_export_runs() {
    need_kernel!();
    let hosts = Hosts::new();
    let _file = File::of(&hosts);
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let _exporter = Exporter::start(&hosts.server);
    hurry();
    let frame = udp(&hosts, "198.51.100.7".parse().unwrap(), 9);
    let flood = Flood::start(&hosts, vec![frame; 200], Duration::from_millis(2));
    let told = || -> Vec<_> {
        let entries = entries(&hosts).into_iter();
        entries
            .filter(|entry| entry["command"] == "export")
            .map(|entry| entry["event"].as_str().unwrap().to_owned())
            .collect()
    };
    eventually("the flood begins", || {
        told().contains(&"flood-begin".to_owned())
    });
    let sent = flood.end();
    assert!(sent > 100_000, "a flood of {sent} packets");
    eventually("the flood ends", || told().last().unwrap() == "flood-end");
    let text = hosts.run("history eth0");
    for words in [
        "flood-begin by root (limiter export)",
        "flood-end by root",
        "packets dropped, up to",
    ] {
        assert!(text.contains(words), "'{words}': {text}");
    }
}

#[test]
fn floods_are_recorded_while_notify_runs() {
    need_kernel!();
    let hosts = Hosts::new();
    let _file = File::of(&hosts);
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let mut notify = prepared("notify eth0 --exec /bin/true --drops 500/s --window 2s");
    let mut notify = on(&hosts.server, || notify.stderr(Stdio::null()).spawn()).unwrap();
    hurry();
    let frame = udp(&hosts, "198.51.100.7".parse().unwrap(), 9);
    let flood = Flood::start(&hosts, vec![frame], Duration::from_micros(500));
    let told = || -> Vec<_> {
        let events = events(&hosts).into_iter().map(|(event, _)| event);
        events.filter(|event| event.starts_with("flood")).collect()
    };
    eventually("the flood begins", || !told().is_empty());
    flood.end();
    // A busy machine may send in several bursts.
    eventually("the flood ends", || {
        let told = told();
        told[0] == "flood-begin" && told.last().unwrap() == "flood-end"
    });
    let end = events(&hosts).pop().unwrap().1;
    assert!(end.contains("packets dropped, up to"), "{end}");
    notify.kill().unwrap();
    notify.wait().unwrap();
}
