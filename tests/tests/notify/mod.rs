//! `limiter notify` tells a program or a web server once when something begins, and once when it ends; whatever goes
//! wrong, the limits stay.

mod webhook;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{PermissionsExt as _, chown},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use limiter_tests::{
    command::prepared,
    eventually,
    hosts::{Hosts, on},
    need_kernel, number,
    processes::{helper_of, status_of},
    raw::Raw,
    schema,
    traffic::{Flood, udp},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// A running `limiter notify` on the server, with short times.
struct Notify {
    process: Child,
    /// Its notes, as far as they were read.
    notes: Arc<Mutex<String>>,
}

impl Notify {
    fn start(hosts: &Hosts, options: &[&str]) -> Self {
        let mut command = prepared(&["notify", "--drops", "500/s", "--window", "3s"]);
        command.args(options);
        Self::of(hosts, command)
    }

    fn of(hosts: &Hosts, mut command: Command) -> Self {
        command.stderr(Stdio::piped());
        let mut process = on(&hosts.server, || command.spawn()).unwrap();
        let notes = Arc::new(Mutex::new(String::new()));
        let (lines, stderr) = (Arc::clone(&notes), process.stderr.take().unwrap());
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                let line = line.unwrap();
                println!("{line}");
                *lines.lock().unwrap() += &(line + "\n");
            }
        });
        Self { process, notes }
    }

    fn id(&self) -> Pid {
        Pid::from_raw(self.process.id().try_into().unwrap())
    }

    fn notes(&self) -> String {
        self.notes.lock().unwrap().clone()
    }
}

impl Drop for Notify {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A program in a folder that everybody may use, and the events that it has written there.
struct Program {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Program {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let path = folder.path().join("on-event");
        fs::write(
            &path,
            text.replace("FOLDER", folder.path().to_str().unwrap()),
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, path }
    }

    /// A program that keeps its input.
    fn keeping() -> Self {
        Self::new("#!/bin/sh\ncat >>FOLDER/events\necho >>FOLDER/events\n")
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    fn kept(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    fn events(&self) -> Vec<Value> {
        let text = self.kept("events");
        // The last line may not be whole yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn told(events: &[Value]) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let events = events.iter();
    events
        .map(|event| (word(&event["event"]), word(&event["state"])))
        .collect()
}

fn all(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(event, state)| ((*event).to_owned(), (*state).to_owned()))
        .collect()
}

/// 2,000 packets a second, nearly all over the limit.
fn flood(hosts: &Hosts) -> Flood {
    let frame = udp(hosts, "198.51.100.7".parse().unwrap(), 9);
    Flood::start(hosts, vec![frame], Duration::from_micros(500))
}

#[test]
fn program_is_told_of_a_flood_once_when_it_begins_and_once_when_it_ends() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let program = Program::keeping();
    let notify = Notify::start(&hosts, &["--exec", program.path()]);
    let flooding = flood(&hosts);
    eventually("the flood begins", || !program.events().is_empty());
    // It goes on, and is not told again.
    thread::sleep(Duration::from_secs(6));
    assert_eq!(told(&program.events()), all(&[("flood", "begin")]));
    flooding.end();
    eventually("the flood ends", || program.events().len() > 1);
    let events = program.events();
    assert_eq!(told(&events), all(&[("flood", "begin"), ("flood", "end")]));
    let [begin, end] = &events[..] else {
        panic!("{events:?}")
    };
    for event in &events {
        assert_eq!(event["interface"], "eth0");
        assert_eq!(event["status"]["name"], "eth0");
        assert_eq!(event["table_percent"], 0);
        if schema::has_validator("notify") {
            assert_eq!(schema::faults("notify", event), "");
        }
    }
    let rate = begin["drops_per_second"].as_f64().unwrap();
    assert!((500.0..5_000.0).contains(&rate), "{rate}");
    assert_eq!(begin["reason"], "limit");
    assert_eq!(end["drops_per_second"], 0.0);
    // The end sums up the flood.
    for event in &events {
        assert_eq!(
            (&event["reason"], &event["limit"]),
            (&"limit".into(), &"default".into())
        );
        assert_eq!(event["sources"][0]["source"], "198.51.100.7", "{event}");
        let text = event["text"].as_str().unwrap();
        assert!(
            text.contains("over the limit default, most from 198.51.100.7; next: `limiter "),
            "{text}"
        );
    }
    let packets = |event: &Value| number(&event["dropped_packets"]);
    assert!(
        packets(begin) > 1_000 && packets(end) > packets(begin),
        "{begin} {end}"
    );
    let dropped = number(&hosts.status()["dropped"]["packets"]);
    assert!(
        packets(end) <= dropped && packets(end) > dropped / 2,
        "{dropped}: {end}"
    );
    assert!(
        number(&end["sources"][0]["dropped_packets"]) <= packets(end),
        "{end}"
    );
    let lasted = end["duration_seconds"].as_f64().unwrap();
    assert!((6.0..60.0).contains(&lasted), "{end}");
    assert_eq!(
        (&begin["next"], &end["next"]),
        (&"limiter top eth0".into(), &"limiter status eth0".into())
    );
    assert!(
        notify.notes().contains("eth0: flood begins"),
        "{}",
        notify.notes()
    );
    // Another flood within the pause is not told.
    let flooding = flood(&hosts);
    thread::sleep(Duration::from_secs(8));
    flooding.end();
    assert_eq!(program.events().len(), 2);
}

#[test]
fn flood_is_told_with_its_explanation() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let program = Program::keeping();
    let notify = Notify::start(&hosts, &["--explain", "--exec", program.path()]);
    let flooding = flood(&hosts);
    eventually("the flood begins", || !program.events().is_empty());
    flooding.end();
    eventually("the flood ends", || program.events().len() > 1);
    let [begin, end] = &program.events()[..] else {
        panic!("{}", notify.notes());
    };
    let explanation = begin["explanation"].as_str().unwrap();
    for words in [
        "eth0: ",
        " packets/s, ",
        "no picture of ordinary traffic",
        "destination_port",
    ] {
        assert!(explanation.contains(words), "{words}: {explanation}");
    }
    assert!(!explanation.contains("payload"), "{explanation}");
    assert_eq!(end["explanation"], Value::Null);
}

#[test]
fn full_table_and_end_of_the_attachment_are_told() {
    need_kernel!();
    let hosts = Hosts::new();
    let attach = "attach eth0 --rate 1/h --burst 1 --max-sources 100";
    hosts.run(attach);
    let program = Program::keeping();
    let options = ["--exec", program.path(), "--pause", "0s", "eth0"];
    let notify = Notify::start(&hosts, &options);
    let wire = Raw::open(&hosts.client);
    for last in 0..200 {
        wire.send(&udp(&hosts, [198, 51, 100, last].into(), 9));
    }
    eventually("the full table", || program.events().len() == 1);
    assert_eq!(program.events()[0]["table_percent"], 100);
    hosts.run("detach eth0");
    eventually("the end of the attachment", || program.events().len() == 3);
    hosts.run(attach);
    eventually("the new attachment", || program.events().len() == 4);
    let mut events = program.events();
    // The table and the attachment end at once.
    events[1..3].sort_by_key(|event| event["state"].to_string());
    let wanted = [
        ("table-full", "begin"),
        ("detached", "begin"),
        ("table-full", "end"),
        ("detached", "end"),
    ];
    assert_eq!(told(&events), all(&wanted));
    assert!(events[1]["status"].is_null());
    if schema::has_validator("notify") {
        assert_eq!(schema::faults("notify", &events[1]), "");
    }
    // The end of notify changes nothing.
    let status = hosts.status();
    drop(notify);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(hosts.status(), status);
}

#[test]
fn only_chosen_events_of_chosen_interfaces_are_told() {
    need_kernel!();
    let hosts = Hosts::new();
    let program = Program::keeping();
    // An interface that was never attached is told of by name, and no other.
    let named = ["eth0", "--exec", program.path()];
    let _named = Notify::start(&hosts, &named);
    let other = Program::keeping();
    let _all = Notify::start(&hosts, &["--exec", other.path()]);
    let third = Program::keeping();
    let floods = ["eth0", "--on", "flood", "--exec", third.path()];
    let _floods = Notify::start(&hosts, &floods);
    eventually("eth0 is not attached", || !program.events().is_empty());
    assert_eq!(told(&program.events()), all(&[("detached", "begin")]));
    thread::sleep(Duration::from_secs(3));
    assert!(other.events().is_empty() && third.events().is_empty());
}

#[test]
fn program_that_hangs_is_ended_with_its_children_and_run_again() {
    need_kernel!();
    let hosts = Hosts::new();
    let program = Program::new(
        "#!/bin/sh\n[ -e FOLDER/first ] && { cat >FOLDER/events; exit; }\n\
         sleep 1000 & echo $! >FOLDER/child; touch FOLDER/first; wait\n",
    );
    let notify = Notify::start(&hosts, &["eth0", "--exec", program.path()]);
    eventually("the first attempt", || !program.kept("child").is_empty());
    eventually("the second attempt", || !program.kept("events").is_empty());
    let child = program.kept("child");
    eventually("the end of the child", || {
        // It is a zombie until its new parent looks.
        let status = fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        status.map_or(true, |status| status.contains(") Z "))
    });
    let notes = notify.notes();
    assert!(
        notes.contains("attempt 1 of 10 to deliver it failed: deadline has elapsed"),
        "{notes}"
    );
    assert!(!notes.contains("attempt 2"), "{notes}");
}

#[test]
fn program_and_notify_have_no_privileges() {
    need_kernel!();
    let hosts = Hosts::new();
    let text =
        "#!/bin/sh\n{ cat /proc/$$/status; ls -l /proc/$$/fd; echo args: $#; } >FOLDER/events\n";
    for owner in [0, 1234] {
        let program = Program::new(text);
        chown(&program.path, Some(owner), Some(owner)).unwrap();
        let notify = Notify::start(&hosts, &["eth0", "--exec", program.path()]);
        let user = if owner == 0 { 65_533 } else { owner };
        let ids = format!("{user}\t{user}\t{user}\t{user}");
        eventually("the program", || program.kept("events").contains("args"));
        let own = fs::read_to_string(format!("/proc/{}/status", notify.id())).unwrap();
        let of_program = program.kept("events");
        for status in [&own, &of_program] {
            for field in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                assert!(
                    status.contains(&format!("{field}:\t0000000000000000\n")),
                    "{status}"
                );
            }
            for line in [
                format!("Uid:\t{ids}"),
                format!("Gid:\t{ids}"),
                "NoNewPrivs:\t1".to_owned(),
            ] {
                assert!(status.contains(&line), "{line}: {status}");
            }
        }
        // No map, link or socket of limiter.
        let leaked = ["anon_inode", "socket:"]
            .iter()
            .any(|kind| of_program.contains(kind));
        assert!(of_program.contains("args: 0\n") && !leaked, "{of_program}");
        assert_eq!(
            status_of(helper_of(notify.id()), "CapEff")
                .trim_start_matches('0')
                .len(),
            10
        );
    }
}

#[test]
fn program_gets_an_environment_without_secrets() {
    need_kernel!();
    let hosts = Hosts::new();
    let program = Program::new("#!/bin/sh\n{ env; pwd; echo end; } >FOLDER/events\n");
    let mut command = prepared(&["notify", "--window", "1s", "eth0", "--exec", program.path()]);
    command.envs([
        ("LIMITER_TOKEN", "secret"),
        ("SSH_AUTH_SOCK", "/root/agent"),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("TZ", "UTC"),
        ("PATH", "/usr/bin:/bin"),
    ]);
    let _notify = Notify::of(&hosts, command);
    eventually("the program", || program.kept("events").contains("end"));
    let text = program.kept("events");
    let lines: std::collections::BTreeSet<_> = text.lines().collect();
    for line in [
        "HOME=/",
        "LANG=C.UTF-8",
        "TZ=UTC",
        "PATH=/usr/bin:/bin",
        "/",
    ] {
        assert!(lines.contains(line), "{line}: {text}");
    }
    // The shell adds the last two.
    let known = [
        "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PATH", "PWD", "OLDPWD", "_", "SHLVL",
    ];
    let names = lines
        .iter()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name);
    assert_eq!(
        names.filter(|name| !known.contains(name)).count(),
        0,
        "{text}"
    );
}

#[test]
fn end_of_either_process_ends_the_other_and_keeps_the_limits() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let program = Program::keeping();
    let status = hosts.status();
    let mut notify = Notify::start(&hosts, &["--exec", program.path()]);
    eventually("a helper", || {
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", notify.id()))
            .is_ok_and(|children| !children.is_empty())
    });
    let helper = helper_of(notify.id());
    kill(helper, Signal::SIGKILL).unwrap();
    assert_eq!(notify.process.wait().unwrap().code(), Some(1));
    eventually("the reason", || {
        notify.notes().contains("the helper process has ended")
    });
    let mut notify = Notify::start(&hosts, &["--exec", program.path()]);
    eventually("a helper", || {
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", notify.id()))
            .is_ok_and(|children| !children.is_empty())
    });
    let helper = helper_of(notify.id());
    notify.process.kill().unwrap();
    eventually("its end", || {
        kill(helper, None).is_err() || status_of(helper, "State").starts_with('Z')
    });
    let mut notify = Notify::start(&hosts, &["--exec", program.path()]);
    eventually("a helper", || {
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", notify.id()))
            .is_ok_and(|children| !children.is_empty())
    });
    thread::sleep(Duration::from_secs(1));
    kill(notify.id(), Signal::SIGTERM).unwrap();
    assert_eq!(notify.process.wait().unwrap().code(), Some(0));
    assert_eq!(hosts.status(), status);
}

#[test]
fn test_event_shows_what_was_sent_and_the_answer() {
    need_kernel!();
    let hosts = Hosts::new();
    let program = Program::keeping();
    let sent = hosts.limiter(&["notify", "eth0", "--test", "--exec", program.path()]);
    sent.expect(0);
    let events = program.events();
    assert_eq!(told(&events), all(&[("test", "begin")]));
    assert_eq!(events[0]["interface"], "eth0");
    for words in [
        &format!("sent to {}:\n{{\"event\":\"test\",", program.path()),
        "taken: the program ended with exit status: 0",
    ] {
        assert!(sent.stdout.contains(words), "'{words}': {sent:#?}");
    }
    let refusing = Program::new("#!/bin/sh\ncat >/dev/null\nexit 3\n");
    let refused = hosts.limiter(&["notify", "--test", "--exec", refusing.path()]);
    refused.expect(1);
    let why = "did not take it: exit status: 3";
    assert!(refused.stderr.contains(why), "{refused:#?}");
    assert!(refused.stdout.contains("sent to"), "{refused:#?}");
    if schema::has_validator("notify") {
        assert_eq!(schema::faults("notify", &events[0]), "");
    }
}

#[test]
fn wrong_command_lines_name_the_mistake() {
    need_kernel!();
    let hosts = Hosts::new();
    let program = Program::keeping();
    fs::set_permissions(&program.path, fs::Permissions::from_mode(0o644)).unwrap();
    let missing = format!("{}-none", program.path());
    for (words, status, why) in [
        (&["notify"][..], 2, "--exec <PATH>|--webhook <URL>"),
        (
            &["notify", "--exec", "/bin/true", "--webhook", "http://a/"],
            2,
            "cannot be used with",
        ),
        (
            &["notify", "--exec", "on-event"],
            2,
            "not an absolute path of a file: write one as in",
        ),
        (
            &["notify", "--exec", "/tmp"],
            2,
            "not an absolute path of a file",
        ),
        (
            &["notify", "--webhook", "chat.example/hook"],
            2,
            "not a URL: write one as in",
        ),
        (
            &["notify", "--webhook", "ftp://chat.example/hook"],
            2,
            "not a URL",
        ),
        (
            &["notify", "--exec", "/bin/true", "--on", "floods"],
            2,
            "possible values: flood, table-full, detached",
        ),
        (
            &["notify", "--exec", "/bin/true", "--full", "101"],
            2,
            "--full",
        ),
        (
            &["notify", "--exec", "/bin/true", "--window", "0s"],
            2,
            "write 1s to 1day",
        ),
        (
            &["notify", "--exec", program.path()],
            1,
            "user 65533 cannot run",
        ),
        (&["notify", "--exec", &missing], 1, "No such file"),
    ] {
        let outcome = hosts.limiter(words);
        outcome.expect(status);
        assert!(outcome.stderr.contains(why), "{why}: {}", outcome.stderr);
    }
}
