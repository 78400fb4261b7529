//! The exporter's socket: members of a group see, and change nothing; nobody disturbs others through it.

use std::{
    fs::{self, Permissions},
    io::{ErrorKind, Read, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    command::Outcome,
    eventually,
    exporter::{Exporter, PATIENCE, loopback_up},
    hosts::{Hosts, on},
    need_kernel, need_program,
    traffic::Traffic,
    trials::{attach, wait_for_the_end},
};
use nix::{
    mount::{MsFlags, mount},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::unprivileged::{Copy, USER, own_pins};

const GROUP: u32 = 61_235;
const SOCKET: &str = "/run/limiter-export/socket";

/// Gives this thread a `/run` and pins of its own.
fn own_run() {
    own_pins("mode=0700");
    let options = Some("mode=0755");
    mount(
        Some("none"),
        "/run",
        Some("tmpfs"),
        MsFlags::empty(),
        options,
    )
    .unwrap();
}

/// Runs limiter as a user with this group, without capabilities.
fn as_user(limiter: &Copy, group: u32, line: &str) -> Outcome {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={USER}"), &format!("--regid={group}")]);
    command.args(["--clear-groups", "--no-new-privs", "--bounding-set=-all"]);
    command.args(["--inh-caps=-all", "--ambient-caps=-all"]);
    command
        .arg(limiter.folder().join("limiter"))
        .args(line.split(' '));
    Outcome::of(line.to_owned(), command.output().unwrap())
}

fn export(hosts: &Hosts) -> Exporter<'_> {
    Exporter::start_with(&hosts.server, &["--socket-group", &GROUP.to_string()])
}

fn connect() -> UnixStream {
    let stream = UnixStream::connect(SOCKET).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a message behind its length.
fn send(stream: &mut UnixStream, message: &str) {
    let length = u32::try_from(message.len()).unwrap();
    stream.write_all(&length.to_be_bytes()).unwrap();
    stream.write_all(message.as_bytes()).unwrap();
}

/// The answer until the connection is closed.
fn answer(mut stream: UnixStream) -> Vec<u8> {
    let mut read = Vec::new();
    let _ = stream.read_to_end(&mut read);
    read
}

#[test]
fn member_of_the_group_sees_what_root_sees_and_changes_nothing() {
    need_kernel!();
    need_program!("setpriv");
    let (hosts, limiter) = (Hosts::new(), Copy::new());
    on(&hosts.server, || {
        own_run();
        hosts.run("attach eth0 --rate 1/h --burst 3");
        hosts.run("ban eth0 203.0.113.7 --reason noise");
        let traffic = Traffic::new(&hosts);
        traffic.passed("198.51.100.7", 10);
        for line in [
            "status eth0",
            "check eth0 198.51.100.7",
            "bans",
            "top eth0 --once",
        ] {
            let without = as_user(&limiter, GROUP, line);
            without.expect_error(
                1,
                &["not permitted", "CAP_BPF", "sudo", "export --socket-group"],
            );
        }
        for line in ["top --once", "ban 192.0.2.7"] {
            let words = ["without root, limiter cannot look up the interface", "eth0"];
            as_user(&limiter, GROUP, line).expect_error(2, &words);
        }
        let words = ["/history is root's alone: run it with sudo"];
        as_user(&limiter, GROUP, "history eth0").expect_error(1, &words);
        let exporter = export(&hosts);
        let metadata = fs::metadata(SOCKET).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.gid()), (0o660, GROUP));
        for line in [
            "status --json",
            "status eth0",
            "check eth0 198.51.100.7 --protocol tcp --port 22",
            "bans eth0 --sort drops",
            "bans --origin hand",
        ] {
            let seen = as_user(&limiter, GROUP, line);
            seen.expect(0);
            let root = hosts.limiter(line);
            // The time goes on between the two.
            let same = |text: &str| {
                if line.contains("--json") {
                    return text.to_owned();
                }
                let lines = text.lines().filter(|line| !line.contains("passes in"));
                let lines = lines.map(|line| line.replace(|c: char| c.is_ascii_digit(), ""));
                lines.collect::<Vec<_>>().join("\n")
            };
            assert_eq!(same(&seen.stdout), same(&root.stdout), "{line}");
        }
        let top = as_user(&limiter, GROUP, "top eth0 --once --json");
        top.expect(0);
        let top: serde_json::Value = serde_json::from_str(&top.stdout).unwrap();
        assert_eq!(top["sources"][0]["source"], "198.51.100.7", "{top:#}");
        assert_eq!(
            top["sources"][0]["dropped_packets_per_second"], 0.0,
            "{top:#}"
        );
        let other = as_user(&limiter, USER, "status eth0");
        other.expect_error(1, &["not permitted", SOCKET, "61235", "usermod"]);
        as_user(&limiter, GROUP, "status nosuch").expect_error(1, &["nosuch"]);
        as_user(&limiter, GROUP, "check eth1 192.0.2.7").expect_error(1, &["eth1"]);
        let before = hosts.status();
        for line in [
            "set eth0 --rate 5/s",
            "unban eth0 --all",
            "detach eth0",
            "config show eth0",
        ] {
            as_user(&limiter, GROUP, line).expect_error(1, &["not permitted"]);
        }
        assert_eq!(hosts.status(), before);
        drop(exporter);
        // A killed exporter leaves the socket, which the next one replaces.
        as_user(&limiter, GROUP, "status").expect_error(1, &["does not run"]);
        let exporter = export(&hosts);
        as_user(&limiter, GROUP, "status").expect(0);
        drop(exporter);
        hosts.run("detach eth0");
    });
}

/// A trial that is over has nothing to show, for root and for others: it is no attachment that cannot be read.
#[test]
fn trial_that_is_over_fails_no_status() {
    need_kernel!();
    need_program!("setpriv");
    let (hosts, limiter) = (Hosts::new(), Copy::new());
    on(&hosts.server, || {
        own_run();
        attach(&hosts, "10s");
        let exporter = export(&hosts);
        wait_for_the_end(&hosts);
        eventually("the exporter reads again", || {
            exporter
                .samples()
                .get("limiter_attached")
                .is_none_or(|attached| *attached == 0.0)
                && exporter.json("/api/status")["interfaces"] == serde_json::json!([])
        });
        let root = hosts.limiter("status --json");
        root.expect(0);
        let seen = as_user(&limiter, GROUP, "status --json");
        seen.expect(0);
        assert_eq!(seen.stdout, root.stdout);
        assert!(seen.stderr.contains("nothing is limited"), "{seen:#?}");
        as_user(&limiter, GROUP, "status eth0").expect_error(1, &["the trial on 'eth0' ended at"]);
        let status = exporter.json("/api/status");
        assert_eq!(status["errors"], serde_json::json!([]), "{status}");
        let over = status["trials_over"][0].as_str().unwrap();
        assert!(over.contains("the trial on 'eth0' ended at"), "{status}");
        assert_eq!(exporter.samples()["limiter_unreadable_attachments"], 0.0);
        drop(exporter);
        hosts.run("detach eth0");
    });
}

#[test]
fn only_the_fixed_requests_are_answered_and_slow_readers_stop_nobody() {
    need_kernel!();
    need_program!("setpriv");
    let (hosts, limiter) = (Hosts::new(), Copy::new());
    on(&hosts.server, || {
        own_run();
        hosts.run("attach eth0 --rate 1/h --burst 3");
        hosts.run("ban eth0 203.0.113.7 --for 1h");
        let exporter = export(&hosts);
        let before = hosts.json("bans eth0 --json")["count"].clone();
        for wrong in [
            r#""Forget""#,
            r#"{"Change":["eth0",{}]}"#,
            r#"{"Bans":["eth0"]}"#,
            r#"{"Check":{"interface":"eth0"}}"#,
            "[",
            "",
        ] {
            let mut stream = connect();
            send(&mut stream, wrong);
            assert_eq!(answer(stream), b"", "{wrong}");
        }
        // A name that leads elsewhere is no name of an interface.
        let mut stream = connect();
        let bans = r#"{"Bans":{"interface":"../../x","origin":null,"order":"Prefix","most":9}}"#;
        send(&mut stream, bans);
        let refused = String::from_utf8_lossy(&answer(stream)).into_owned();
        assert!(
            refused.contains("is not the name of an interface"),
            "{refused}"
        );
        // A long message is refused by its length.
        let mut stream = connect();
        stream.write_all(&(1_u32 << 20).to_be_bytes()).unwrap();
        assert_eq!(answer(stream), b"");
        assert_eq!(hosts.json("bans eth0 --json")["count"], before);
        // Neither the silent nor those that take no answer.
        let slow: Vec<_> = (0..40)
            .map(|number| {
                let mut stream = connect();
                if number % 2 == 0 {
                    send(&mut stream, r#""Snapshot""#);
                }
                stream
            })
            .collect();
        for line in ["status eth0", "check eth0 192.0.2.7", "bans eth0"] {
            as_user(&limiter, GROUP, line).expect(0);
        }
        assert_eq!(exporter.ask("GET", "/healthz").status, 200);
        drop(slow);
        // Many questions at once take their turns, and a scrape comes between them.
        let check = r#"{"Check":{"interface":"eth0","query":{"source":"192.0.2.7","to":null,"port":null,"vlan":null,"from_port":null,"protocol":null},"flags":null}}"#;
        let asking: Vec<_> = (0..16)
            .map(|_| {
                let mut stream = connect();
                send(&mut stream, check);
                stream
            })
            .collect();
        assert_eq!(exporter.ask("GET", "/healthz").status, 200);
        let answers = asking.into_iter().map(answer);
        let right = answers.filter(|answer| String::from_utf8_lossy(answer).contains("192.0.2.7"));
        assert_eq!(right.count(), 16);
        drop(exporter);
        hosts.run("detach eth0");
    });
}

/// Silent clients have two seconds. Here is one that ends before, because others came after it.
#[test]
fn one_more_connection_than_the_bound_closes_the_oldest() {
    const BOUND: usize = 16;
    need_kernel!();
    let hosts = Hosts::new();
    on(&hosts.server, || {
        own_run();
        let exporter = export(&hosts);
        let is_open = |mut stream: &UnixStream| {
            let read = stream.read(&mut [0]);
            read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        // On a busy machine, the two seconds may be over.
        let round = || {
            let begun = Instant::now();
            let silent: Vec<_> = (0..BOUND + 4).map(|_| connect()).collect();
            for stream in &silent {
                stream.set_nonblocking(true).unwrap();
            }
            let are_open = || silent.iter().map(is_open).collect::<Vec<_>>();
            let wanted = [[false; 4].as_slice(), &[true; BOUND]].concat();
            while begun.elapsed() < Duration::from_millis(1_500) {
                if are_open() == wanted {
                    return true;
                }
                thread::sleep(Duration::from_millis(20));
            }
            false
        };
        assert!((0..9).any(|_| round()));
        assert_eq!(exporter.ask("GET", "/healthz").status, 200);
    });
}

#[test]
fn planted_socket_is_neither_used_nor_believed() {
    need_kernel!();
    need_program!("setpriv");
    let (hosts, limiter) = (Hosts::new(), Copy::new());
    on(&hosts.server, || {
        own_run();
        loopback_up(&hosts.server);
        let folder = Path::new(SOCKET).parent().unwrap();
        fs::create_dir(folder).unwrap();
        // A user listens where the exporter would.
        fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
        let mut planted = Command::new("setpriv");
        planted.args([
            "--reuid=61236",
            "--regid=61236",
            "--clear-groups",
            "timeout",
            "100",
            "/usr/bin/python3",
            "-c",
        ]);
        planted.arg(format!(
            "import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('{SOCKET}')\nos.chmod('{SOCKET}', 0o666)\ns.listen()\ns.accept()\ns.accept()"
        ));
        let mut planted = planted.stdout(Stdio::null()).spawn().unwrap();
        eventually("the socket", || {
            fs::metadata(SOCKET).is_ok_and(|found| found.mode() & 0o777 == 0o666)
        });
        as_user(&limiter, GROUP, "status").expect_error(1, &["user 61236", SOCKET]);
        let line = [
            "export",
            "--listen",
            "127.0.0.1:0",
            "--socket-group",
            "61235",
        ];
        let refused = hosts.limiter(&line);
        refused.expect_error(1, &["other users could replace it"]);
        // `timeout` passes the signal on.
        let process = Pid::from_raw(planted.id().try_into().unwrap());
        kill(process, Signal::SIGTERM).unwrap();
        planted.wait().unwrap();
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
        // Root's file is not removed, and neither is a socket in use.
        fs::remove_file(SOCKET).unwrap();
        fs::write(SOCKET, "text").unwrap();
        hosts.limiter(&line).expect_error(1, &["a file is there"]);
        assert_eq!(fs::read_to_string(SOCKET).unwrap(), "text");
        fs::remove_file(SOCKET).unwrap();
        let listener = UnixListener::bind(SOCKET).unwrap();
        hosts
            .limiter(&line)
            .expect_error(1, &["another process listens"]);
        drop(listener);
        let wrong = ["export", "--socket-group", "nosuchgroup"];
        hosts
            .limiter(&wrong)
            .expect_error(2, &["there is no such group"]);
    });
}
