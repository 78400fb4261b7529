//! All commands work for a user with three capabilities who is not root, on the user's own pins.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use limiter_kernel::sys::{folder::Dir, lock};
use limiter_tests::{
    command::{Arguments, Outcome, copy_binary},
    eventually,
    hosts::{Hosts, on},
    need, need_kernel, need_program, number,
    raw::Raw,
    screen::Screen,
    traffic::udp,
};
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
        copy_binary(folder.path().join("limiter"));
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
fn keys_of_the_live_view_work_for_a_user_with_three_capabilities() {
    need_kernel!();
    need_program!("setpriv");
    need_program!("tmux");
    let (hosts, limiter) = (Hosts::new(), Copy::new());
    on(&hosts.server, || {
        delegate();
        limiter.done("attach eth0 --rate 10/h --burst 3");
        Raw::open(&hosts.client).send(&udp(&hosts, [192, 0, 2, 7].into(), 9));
        let screen = Screen::open(&hosts.server, (80, 24));
        let top = limiter.command(CAPABILITIES, "top eth0 --interval 200ms");
        screen.run(&format!("{top:?}"));
        screen.wait_for(">192.0.2.7 ");
        screen.press("b");
        screen.press("Enter");
        screen.wait_for("--for 10m");
        screen.press("y");
        screen.wait_for("banned for 10m");
        screen.press("q");
        screen.wait_for("status 0");
        limiter.done("detach eth0");
    });
}

#[test]
fn every_command_works_for_a_user_with_three_capabilities() {
    need_kernel!();
    need_program!("setpriv");
    let (hosts, limiter) = (Hosts::new(), Copy::new());
    let file = limiter.folder().join("limits.toml");
    let text = "[[limit]]\nname = \"default\"\nrate = \"20/h\"\nburst = 4\n";
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let wire = Raw::open(&hosts.client);
    let send = |source: [u8; 4], count: u32| {
        let frame = udp(&hosts, source.into(), 9);
        (0..count).for_each(|_| wire.send(&frame));
    };
    let status = || limiter.json("status eth0 --json")["interfaces"][0].clone();
    on(&hosts.server, || {
        delegate();
        let doctor = limiter.json("doctor eth0 --json");
        let mode = if need::tcx() { "tc" } else { "native" };
        assert_eq!(doctor["mode"], mode, "{doctor}");
        for command in [
            "attach eth0 --rate 10/h --burst 3",
            "set eth0 --rate 30/h",
            "allow add eth0 192.0.2.77",
            "ban eth0 192.0.2.66 --for 1h",
        ] {
            limiter.done(command);
        }
        send([192, 0, 2, 7], 5);
        send([192, 0, 2, 66], 2);
        send([192, 0, 2, 77], 9);
        eventually("limiter has counted all packets", || {
            number(&status()["seen"]["packets"]) == 16
        });
        assert_eq!(number(&status()["dropped"]["packets"]), 2 + 2);
        assert!(number(&status()["sources"]["memory_bytes"]) > 0);
        let check = limiter.json("check eth0 192.0.2.7 --json");
        assert_eq!(number(&check["limits"][0]["dropped_packets"]), 2, "{check}");
        let top = limiter.json("top eth0 --once --json");
        assert_eq!(top["sources"][0]["source"], "192.0.2.7", "{top}");
        let mut watch = limiter.command(CAPABILITIES, "watch eth0 -n 1");
        let mut watch = watch.stdout(Stdio::null()).spawn().unwrap();
        while watch.try_wait().unwrap().is_none() {
            send([192, 0, 2, 66], 1);
            thread::sleep(Duration::from_millis(10));
        }
        assert!(watch.wait().unwrap().success());
        let reload = format!("reload eth0 --config {}", file.display());
        for (command, shown) in [
            ("reset eth0 192.0.2.7", "refilled"),
            (reload.as_str(), "20/h"),
            ("config show eth0", "20/h"),
            ("detach eth0", "eth0"),
        ] {
            let done = limiter.done(command);
            assert!(done.stdout.contains(shown), "{done:?}");
        }
        let left: Vec<_> = fs::read_dir(format!("{PINS}/limiter")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        limiter.done("attach eth0 --rate 1/s --try 60s");
        assert!(status()["try_until"].is_string());
        limiter.done("keep eth0");
        limiter.done("detach eth0");
    });
}

#[test]
fn feed_of_a_user_has_its_state_in_a_folder_of_the_user() {
    need_kernel!();
    need_program!("setpriv");
    let (hosts, limiter) = (Hosts::new(), Copy::new());
    let file = |name: &str, text: &str| {
        let path = limiter.folder().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path.display().to_string()
    };
    let list = file("list", "203.0.113.7\n");
    let feed = file("own.toml", &format!("list = '{list}'"));
    let own = limiter.folder().join("own");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(USER), Some(USER)).unwrap();
    let run = |arguments: &[&str], variable: Option<&str>| {
        let mut command = limiter.command(CAPABILITIES, arguments);
        command
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("RUNTIME_DIRECTORY");
        command.envs(variable.map(|name| (name, &own)));
        Outcome::of(arguments.join(" "), command.output().unwrap())
    };
    on(&hosts.server, || {
        delegate();
        limiter.done("attach eth0 --rate 1/s");
        let once = ["feed", &*feed, "--once"];
        let words = [
            "the state of feed own cannot be written",
            "only root writes to /run/limiter/feeds",
            "set RUNTIME_DIRECTORY to a folder of user 61234",
        ];
        run(&once, None).expect_error(1, &words);
        for variable in ["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"] {
            run(&once, Some(variable)).expect(0);
            let bans = limiter.json("bans eth0 --json");
            assert_eq!(bans["bans"][0]["origin"], "own", "{bans}");
            run(&["feed", &feed, "--remove"], Some(variable)).expect(0);
        }
        // The variable leads to a folder of root.
        chown(&own, Some(0), Some(0)).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
        let words = [&*own.display().to_string(), "ermission denied"];
        run(&once, Some("RUNTIME_DIRECTORY")).expect_error(1, &words);
        limiter.done("detach eth0");
    });
}

/// A bpffs with an owner needs Linux 6.9.
#[test]
fn commands_work_with_a_bpffs_of_the_user() {
    need_kernel!();
    need_program!("setpriv");
    let (hosts, limiter) = (Hosts::new(), Copy::new());
    on(&hosts.server, || {
        own_pins(&format!("uid={USER},gid={USER},mode=0700"));
        // Older kernels ignore the owner.
        if fs::metadata(PINS).unwrap().uid() == USER {
            limiter.done("attach eth0 --rate 1/s");
            limiter.done("detach eth0");
            assert!(!fs::exists(format!("{PINS}/limiter")).unwrap());
        }
    });
}

#[test]
fn missing_rights_are_reported_in_one_line() {
    need_kernel!();
    need_program!("setpriv");
    let (hosts, limiter) = (Hosts::new(), Copy::new());
    on(&hosts.server, || {
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
            // The agent exits, because it could never share.
            for command in ["attach eth0 --rate 1/s", "agent --store unix:///none"] {
                let outcome = limiter.with(too_few, command);
                outcome.expect_error(1, &["not permitted", missing, "sudo", "docs/security.md"]);
                let lacks = outcome.stderr.split(": run it").next().unwrap();
                assert!(!lacks.contains(there), "{outcome:?}");
            }
            let doctor = limiter.with(too_few, "doctor eth0");
            doctor.expect(1);
            let lacks = format!("lacks {}", missing.split(' ').next().unwrap());
            assert!(doctor.stdout.contains(&lacks), "{doctor:?}");
        }
        limiter.done("attach eth0 --rate 1/s");
        // Makes the pins belong to another user.
        chown(Path::new(PINS).join("limiter"), Some(0), Some(0)).unwrap();
        let of_root = ["/sys/fs/bpf/limiter", "user 61234", "docs/security.md"];
        let before = hosts.status();
        for command in [
            "attach eth0 --rate 1/s",
            "set eth0 --rate 5",
            "deny add eth0 192.0.2.7",
            "ban eth0 192.0.2.7",
            "bans eth0",
            "unban eth0 192.0.2.7",
            "reset eth0 --all",
            "check eth0 192.0.2.7",
            "top eth0 --once",
            "status eth0",
            "detach eth0",
        ] {
            let without = limiter.with("-all", command);
            without.expect_error(1, &["not permitted", "CAP_BPF", "sudo"]);
            let attempt = limiter.with(CAPABILITIES, command);
            attempt.expect_error(1, &["not permitted"]);
            attempt.expect_error(1, &of_root);
        }
        assert_eq!(hosts.status(), before);
        let doctor = limiter.with(CAPABILITIES, "doctor eth0");
        doctor.expect(1);
        assert!(doctor.stdout.contains("user 61234"), "{doctor:?}");
    });
}

/// The user cannot open root's lock.
#[test]
fn commands_of_root_and_the_user_wait_for_each_other() {
    need_kernel!();
    need_program!("setpriv");
    let (hosts, limiter) = (Hosts::new(), Copy::new());
    on(&hosts.server, || {
        delegate();
        limiter.done("attach eth0 --rate 1/s");
        let pins = Dir::walk(&hosts.pins()).unwrap().unwrap();
        let lock = lock::lock(&pins).unwrap();
        let mut waiting = limiter.command(CAPABILITIES, "set eth0 --rate 2/s");
        let mut waiting = waiting.spawn().unwrap();
        thread::sleep(Duration::from_millis(500));
        assert!(waiting.try_wait().unwrap().is_none(), "it did not wait");
        drop(lock);
        assert!(waiting.wait().unwrap().success());
        limiter.done("detach eth0");
    });
}
