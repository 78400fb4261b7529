//! All commands work for a user with three capabilities who is not root, on the user's own pins.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::{Command, Stdio},
};

use limiter_tests::{
    command::{Arguments, Outcome, binary},
    hosts::Hosts,
    need_kernel, need_program, number,
    raw::Raw,
    traffic::udp,
};
use limiter_user::kernel::sys::{folder::Dir, lock};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

pub const USER: u32 = 61_234;
pub const PINS: &str = "/sys/fs/bpf";

/// The capabilities that limiter needs, in the notation of `setpriv`.
pub const CAPABILITIES: &str = "-all,+bpf,+net_admin,+perfmon";

/// Runs a command as another user, with these capabilities and no way to gain more.
pub fn setpriv(user: u32, capabilities: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={user}")]);
    command.args(["--clear-groups", "--no-new-privs"]);
    for set in ["inh-caps", "ambient-caps", "bounding-set"] {
        command.arg(format!("--{set}={capabilities}"));
    }
    command
}

/// A copy of the command that every user may run.
pub struct Copy(tempfile::TempDir);

impl Copy {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(binary(), folder.path().join("limiter")).unwrap();
        Self(folder)
    }

    /// The folder of the copy.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// The command as the user, with these capabilities.
    pub fn command(&self, capabilities: &str, arguments: &(impl Arguments + ?Sized)) -> Command {
        let mut command = setpriv(USER, capabilities);
        command
            .arg(self.0.path().join("limiter"))
            .args(arguments.words());
        command
    }

    fn with(&self, capabilities: &str, arguments: &(impl Arguments + ?Sized)) -> Outcome {
        let output = self.command(capabilities, arguments).output().unwrap();
        Outcome::of(arguments.words().join(" "), output)
    }

    /// Runs the command with the needed capabilities. It must succeed.
    pub fn done(&self, arguments: &(impl Arguments + ?Sized)) -> Outcome {
        let outcome = self.with(CAPABILITIES, arguments);
        outcome.expect(0);
        outcome
    }

    pub fn json(&self, arguments: &(impl Arguments + ?Sized)) -> serde_json::Value {
        serde_json::from_str(&self.done(arguments).stdout).unwrap()
    }
}

/// Gives this thread and its children a bpffs of their own, mounted with these options.
pub fn own_pins(options: &str) {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    mount(
        Some("bpf"),
        PINS,
        Some("bpf"),
        MsFlags::empty(),
        Some(options),
    )
    .unwrap();
}

/// Runs root's one-time setup for a user, as documented in docs/security.md.
pub fn delegate() {
    own_pins("mode=0711");
    let folder = Path::new(PINS).join("limiter");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    chown(&folder, Some(USER), Some(USER)).unwrap();
}

#[test]
fn every_command_works_for_a_user_with_three_capabilities() {
    need_kernel!();
    need_program!("setpriv");
    let hosts = Hosts::new();
    let limiter = Copy::new();
    let file = limiter.0.path().join("limits.toml");
    fs::write(
        &file,
        "interfaces = [\"eth0\"]\n[[limit]]\nname = \"default\"\nrate = \"20/h\"\nburst = 4\n",
    )
    .unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let file = file.to_str().unwrap();
    let wire = Raw::open(&hosts.client);
    let send = |source: [u8; 4], count: u32| {
        let frame = udp(&hosts, source.into(), 9);
        (0..count).for_each(|_| wire.send(&frame));
    };
    hosts
        .server
        .namespace
        .run(|| {
            delegate();
            let doctor = limiter.json("doctor eth0 --json");
            assert_eq!(doctor["mode"], "native", "{doctor}");
            limiter.done("attach eth0 --rate 10/h --burst 3");
            limiter.done("set eth0 --rate 30/h");
            limiter.done("allow add eth0 192.0.2.77");
            limiter.done("deny add eth0 192.0.2.66");
            send([192, 0, 2, 7], 5);
            send([192, 0, 2, 66], 2);
            send([192, 0, 2, 77], 9);
            limiter_tests::eventually("limiter has counted all packets", || {
                let status = limiter.json("status eth0 --json");
                number(&status["interfaces"][0]["seen"]["packets"]) == 16
            });
            let status = limiter.json("status eth0 --json")["interfaces"][0].clone();
            assert_eq!(number(&status["dropped"]["packets"]), 2 + 2, "{status}");
            assert!(number(&status["sources"]["memory_bytes"]) > 0, "{status}");
            let check = limiter.json("check eth0 192.0.2.7 --json");
            assert_eq!(number(&check["limits"][0]["dropped_packets"]), 2, "{check}");
            let top = limiter.json("top eth0 --once --json");
            assert_eq!(top["sources"][0]["source"], "192.0.2.7", "{top}");

            let mut watch = limiter
                .command(CAPABILITIES, &["watch", "eth0", "--json", "-n", "1"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(watch.stderr.take().unwrap()).lines();
            let text = lines.next().unwrap().unwrap();
            assert!(text.contains("drops are shown"), "{text}");
            send([192, 0, 2, 66], 1);
            let watched = watch.wait_with_output().unwrap();
            let event: serde_json::Value = serde_json::from_slice(&watched.stdout).unwrap();
            assert_eq!(event["source"], "192.0.2.66", "{event}");

            let reset = limiter.done("reset eth0 192.0.2.7");
            assert!(reset.stdout.contains("full again"), "{reset:?}");
            limiter.done(&["reload", "eth0", "--config", file]);
            let shown = limiter.done("config show eth0");
            assert!(shown.stdout.contains("20/h"), "{shown:?}");
            limiter.done("detach eth0");
            let left: Vec<_> = fs::read_dir(format!("{PINS}/limiter")).unwrap().collect();
            assert!(left.is_empty(), "{left:?}");
            limiter.done("attach eth0 --rate 1/s --try 60s");
            let status = limiter.json("status eth0 --json");
            assert!(status["interfaces"][0]["try_until"].is_string(), "{status}");
            limiter.done("keep eth0");
            limiter.done("detach eth0");
        })
        .unwrap();
}

/// A bpffs with an owner needs Linux 6.9.
#[test]
fn commands_work_with_a_bpffs_of_the_user() {
    need_kernel!();
    need_program!("setpriv");
    let hosts = Hosts::new();
    let limiter = Copy::new();
    let run = || {
        own_pins(&format!("uid={USER},gid={USER},mode=0700"));
        if fs::metadata(PINS).is_ok_and(|root| std::os::unix::fs::MetadataExt::uid(&root) != USER) {
            // Older kernels ignore the owner.
            return;
        }
        limiter.done("attach eth0 --rate 1/s");
        limiter.done("detach eth0");
        assert!(
            !fs::exists(format!("{PINS}/limiter")).unwrap(),
            "pins are left"
        );
    };
    hosts.server.namespace.run(run).unwrap();
}

#[test]
fn missing_capabilities_are_reported_in_one_line() {
    need_kernel!();
    need_program!("setpriv");
    let hosts = Hosts::new();
    let limiter = Copy::new();
    let attach = ["attach", "eth0", "--rate", "1/s"];
    hosts
        .server
        .namespace
        .run(|| {
            delegate();
            for (too_few, missing, there) in [
                (
                    "-all,+net_admin,+perfmon",
                    "CAP_BPF (to load",
                    "CAP_NET_ADMIN",
                ),
                ("-all,+bpf,+perfmon", "CAP_NET_ADMIN (to attach", "CAP_BPF"),
                ("-all,+bpf,+net_admin", "CAP_PERFMON (to pass", "CAP_BPF"),
            ] {
                let outcome = limiter.with(too_few, &attach);
                outcome.expect_error(1, &["not permitted", missing, "docs/security.md"]);
                let lacks = outcome.stderr.split(": run it").next().unwrap();
                assert!(!lacks.contains(there), "{outcome:?}");
                let doctor = limiter.with(too_few, &["doctor", "eth0"]);
                doctor.expect(1);
                let name = missing.split(' ').next().unwrap();
                assert!(
                    doctor.stdout.contains(&format!("lacks {name}")),
                    "{doctor:?}"
                );
            }
            // Makes the pins belong to another user.
            chown(Path::new(PINS).join("limiter"), Some(0), Some(0)).unwrap();
            let words = [
                "not permitted",
                "/sys/fs/bpf/limiter",
                "user 61234",
                "docs/security.md",
            ];
            limiter.with(CAPABILITIES, &attach).expect_error(1, &words);
            let doctor = limiter.with(CAPABILITIES, &["doctor", "eth0"]);
            doctor.expect(1);
            assert!(doctor.stdout.contains("user 61234"), "{doctor:?}");
        })
        .unwrap();
}

/// The user cannot open root's lock.
#[test]
fn commands_of_root_and_the_user_wait_for_each_other() {
    need_kernel!();
    need_program!("setpriv");
    let hosts = Hosts::new();
    let limiter = Copy::new();
    hosts
        .server
        .namespace
        .run(|| {
            delegate();
            limiter.done("attach eth0 --rate 1/s");
            let pins = Dir::walk(&hosts.pins()).unwrap().unwrap();
            let lock = lock::lock(&pins).unwrap();
            let mut waiting = limiter
                .command(CAPABILITIES, &["set", "eth0", "--rate", "2/s"])
                .spawn()
                .unwrap();
            std::thread::sleep(std::time::Duration::from_millis(500));
            assert!(waiting.try_wait().unwrap().is_none(), "it did not wait");
            drop(lock);
            assert!(waiting.wait().unwrap().success());
            limiter.done("detach eth0");
        })
        .unwrap();
}
