//! Other local users can neither misdirect, block nor undo the work of root's commands.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use limiter_tests::testbed::Host;
use limiter_tests::{
    command::{Outcome, binary, ip, limiter},
    hosts::{Hosts, on},
    need_kernel, need_program,
    trials::has_program,
};

use crate::unprivileged::{Copy, PINS, USER, delegate, own_pins, setpriv};

const OTHER_USER: u32 = 65_534;
const ATTACH: [&str; 4] = ["attach", "eth0", "--rate", "5/s"];

/// A shell of a user without any capability.
fn shell(user: u32, script: &str) -> Command {
    let mut command = setpriv(user, "-all");
    command.args(["sh", "-c", script]);
    command
}

fn done_by(user: u32, script: &str) {
    let output = shell(user, script).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
}

/// Makes files of other software: in bpffs, and on another file system.
fn victims() -> (Vec<PathBuf>, tempfile::TempDir) {
    let elsewhere = tempfile::tempdir().unwrap();
    fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let in_bpffs = Path::new(PINS).join("victim");
    fs::create_dir_all(in_bpffs.join("docker/inner")).unwrap();
    fs::create_dir_all(elsewhere.path().join("docker")).unwrap();
    fs::write(elsewhere.path().join("docker/data"), "kept").unwrap();
    let all = vec![
        in_bpffs.join("docker/inner"),
        elsewhere.path().join("docker/data"),
    ];
    (all, elsewhere)
}

/// Runs root's commands that remove pins, and the package's removal script, on planted paths. The victims must stay.
fn expect_left_alone(victims: &[PathBuf], planted: &Path, words: &[&str]) {
    let script = removal_script();
    let removal = || {
        let mut command = Command::new("sh");
        let output = command.arg(script.path()).arg("removing").output().unwrap();
        Outcome::of("the package's removal".to_owned(), output)
    };
    let commands = [
        limiter("detach --all"),
        limiter("detach docker"),
        limiter(&ATTACH),
        limiter("status"),
        removal(),
    ];
    for outcome in &commands {
        assert!(!outcome.stdout.contains("detached"), "{outcome:#?}");
        for victim in victims {
            assert!(
                victim.exists(),
                "{} is gone: {outcome:#?}",
                victim.display()
            );
        }
        assert!(planted.symlink_metadata().is_ok(), "{outcome:#?}");
        for word in words {
            assert!(outcome.stderr.contains(word), "'{word}': {outcome:#?}");
        }
    }
    for refused in &commands[..4] {
        refused.expect(1);
    }
}

/// The packages' removal script, with the tested binary.
fn removal_script() -> tempfile::NamedTempFile {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("packaging/systemd/service")).unwrap();
    let text = text
        .replace("/usr/bin/limiter", binary().to_str().unwrap())
        // Keeps the script from stopping units of this machine.
        .replace("/run/systemd/system", "/nonexistent");
    let script = tempfile::NamedTempFile::new().unwrap();
    fs::write(script.path(), text).unwrap();
    script
}

#[test]
fn links_in_an_open_bpffs_are_not_followed() {
    need_kernel!();
    need_program!("setpriv");
    let hosts = Hosts::new();
    on(&hosts.server, || {
        own_pins("mode=1777");
        let (victims, elsewhere) = victims();
        for target in [Path::new(PINS).join("victim"), elsewhere.path().to_owned()] {
            let target = target.display();
            done_by(
                OTHER_USER,
                &format!("mkdir {PINS}/limiter && ln -s {target} {PINS}/limiter/v6"),
            );
            let planted = Path::new(PINS).join("limiter/v6");
            expect_left_alone(&victims, &planted, &["/sys/fs/bpf/limiter", "65534"]);
            done_by(OTHER_USER, &format!("rm -r {PINS}/limiter"));

            done_by(OTHER_USER, &format!("ln -s {target} {PINS}/limiter"));
            let planted = Path::new(PINS).join("limiter");
            expect_left_alone(&victims, &planted, &["/sys/fs/bpf/limiter"]);
            done_by(OTHER_USER, &format!("rm {PINS}/limiter"));
        }
        limiter(&ATTACH).expect(0);
        limiter("detach eth0").expect(0);
    });
}

#[test]
fn links_and_foreign_files_in_an_operators_folder_are_left_alone() {
    need_kernel!();
    need_program!("setpriv");
    let hosts = Hosts::new();
    let operator = Copy::new();
    on(&hosts.server, || {
        delegate();
        let (victims, elsewhere) = victims();
        for target in [Path::new(PINS).join("victim"), elsewhere.path().to_owned()] {
            done_by(
                USER,
                &format!("ln -s {} {PINS}/limiter/v6", target.display()),
            );
            let planted = Path::new(PINS).join("limiter/v6");
            expect_left_alone(&victims, &planted, &["/sys/fs/bpf/limiter"]);
            done_by(USER, &format!("rm {PINS}/limiter/v6"));
        }
        // Plants paths among the pins of an attachment, and in place of one of them.
        operator.done(&ATTACH);
        let pins = hosts.pins();
        let folder = pins.display();
        let link = format!("cd {folder} && mkdir -p docker/inner && ln -s {PINS}/victim g7");
        done_by(
            USER,
            &format!("{link} && rm WATCH && ln -s {PINS}/victim/docker WATCH"),
        );
        let detached = limiter("detach eth0");
        detached.expect_error(
            1,
            &["limiter is detached from 'eth0'", "docker", "g7", "WATCH"],
        );
        assert!(!has_program(&hosts));
        assert!(pins.join("docker/inner").exists() && pins.join("g7").is_symlink());
        assert!(!pins.join("SETS").exists() && !pins.join("g0").exists());
        assert!(victims.iter().all(|victim| victim.exists()));
    });
}

/// A process of another user that runs until it is dropped.
struct Running(Child);

/// A script that locks every file that it can open below a folder.
const LOCK_ALL: &str = "import fcntl, os, sys, time\n\
    top = sys.argv[1]\n\
    held = []\n\
    for folder in [top] + [os.path.join(at, name) for at, names, _ in os.walk(top) for name in names]:\n    \
    try:\n        \
    held.append(os.open(folder, os.O_RDONLY))\n        \
    fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)\n    \
    except OSError: pass\n\
    print(len(held), flush=True)\n\
    time.sleep(60)\n";

impl Running {
    fn lock_all(user: u32) -> Self {
        let mut command = shell(user, "exec python3 -c \"$1\" \"$2\"");
        let mut child = command
            .args(["sh", LOCK_ALL, PINS])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut held = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut held)
            .unwrap();
        assert_ne!(held.trim(), "0", "the user can open no file");
        Self(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The user locks every file that it can open.
#[test]
fn locks_of_another_user_delay_no_command() {
    need_kernel!();
    need_program!("setpriv");
    let hosts = Hosts::new();
    on(&hosts.server, || {
        own_pins("mode=1777");
        limiter(&ATTACH).expect(0);
        let _locked = Running::lock_all(OTHER_USER);
        let start = Instant::now();
        limiter("set eth0 --rate 6/s").expect(0);
        limiter("deny add eth0 192.0.2.9").expect(0);
        limiter("reset eth0 --all").expect(0);
        limiter("detach eth0").expect(0);
        limiter("attach eth0 --rate 5/s --try 60s").expect(0);
        limiter("keep eth0").expect(0);
        let spent = start.elapsed();
        assert!(spent < Duration::from_secs(8), "{spent:?}");
    });
}

/// The owners of a folder and of everything below it.
fn owners(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = vec![(
        folder.to_owned(),
        fs::symlink_metadata(folder).unwrap().uid(),
    )];
    if folder.is_dir() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            found.extend(owners(&entry.path()));
        }
    }
    found
}

fn second_interface(host: &Host) {
    let add = "link add other0 type veth peer name other1";
    ip(&host.namespace, add);
}

/// A failing command leaves nothing behind. A successful `detach` leaves the folder.
#[test]
fn root_leaves_nothing_in_an_operators_folder() {
    need_kernel!();
    need_program!("setpriv");
    let hosts = Hosts::new();
    second_interface(&hosts.server);
    let operator = Copy::new();
    on(&hosts.server, || {
        delegate();
        let folder = Path::new(PINS).join("limiter");
        let expect_owned = |what: &str| {
            let others: Vec<_> = owners(&folder)
                .into_iter()
                .filter(|(_, owner)| *owner != USER)
                .collect();
            assert!(others.is_empty(), "{what}: {others:?}");
        };
        let user = USER.to_string();
        let words = ["/sys/fs/bpf/limiter", user.as_str()];
        // The folder is empty, and then has an attachment.
        let attach = ["attach", "other0", "--rate", "5/s"];
        limiter(&attach).expect_error(1, &words);
        assert_eq!(owners(&folder).len(), 1);
        operator.done(&ATTACH);
        let before = owners(&folder);
        for refused in [
            &attach[..],
            &["set", "eth0", "--rate", "6/s"],
            &["deny", "add", "eth0", "192.0.2.9"],
            &["attach", "other0", "--rate", "5/s", "--try", "1h"],
        ] {
            limiter(refused).expect_error(1, &words);
            assert_eq!(owners(&folder), before, "{refused:?}");
        }
        // The commands of the operator still work.
        operator.done(&["set", "eth0", "--rate", "7/s"]);
        expect_owned("after set");
        limiter("detach eth0").expect(0);
        expect_owned("after detach");
        assert!(!hosts.pins().exists());
        // Root may not keep a trial of the operator, because the new pin would belong to root.
        operator.done(&["attach", "eth0", "--rate", "5/s", "--try", "1h"]);
        limiter("keep eth0").expect_error(1, &words);
        expect_owned("after keep");
        limiter("detach eth0").expect(0);
        assert!(folder.exists());
        operator.done(&ATTACH);
        operator.done(&["detach", "eth0"]);
    });
}

/// The operator makes a misleading pin.
#[test]
fn root_does_not_restore_a_program_of_an_operator() {
    need_kernel!();
    need_program!("setpriv");
    let hosts = Hosts::new();
    second_interface(&hosts.server);
    let operator = Copy::new();
    on(&hosts.server, || {
        delegate();
        operator.done(&ATTACH);
        let index = nix::net::if_::if_nametoindex("other0").unwrap();
        // The operator owns the folder, and so can rename pins without capabilities.
        let pins = hosts.pins();
        let folder = pins.display();
        done_by(
            USER,
            &format!("cd {folder} && mv g0/program foreign_generic_{index}"),
        );
        let detached = limiter("detach eth0");
        let shown = Command::new("ip").args(["link", "show", "other0"]).output();
        let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
        assert!(!shown.contains("prog/xdp"), "{detached:#?}\n{shown}");
        detached.expect_error(1, &["limiter is detached from 'eth0'", "foreign_generic_"]);
        assert!(!has_program(&hosts));
    });
}

/// A folder that other users may write to is refused, even if root owns it.
#[test]
fn open_folder_is_refused_before_anything_is_created() {
    need_kernel!();
    let hosts = Hosts::new();
    on(&hosts.server, || {
        own_pins("mode=0755");
        let folder = Path::new(PINS).join("limiter");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        limiter(&ATTACH).expect_error(1, &["/sys/fs/bpf/limiter", "777"]);
        assert_eq!(owners(&folder).len(), 1, "the command has created a file");
        // A folder of another user is refused too.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        chown(&folder, Some(OTHER_USER), None).unwrap();
        limiter(&ATTACH).expect_error(1, &["/sys/fs/bpf/limiter", "65534"]);
        assert_eq!(owners(&folder).len(), 1, "the command has created a file");
    });
}
