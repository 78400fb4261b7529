//! Other local users can neither misdirect, block nor undo the work of root's commands.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use limiter_tests::{
    command::{ip, limiter},
    eventually,
    hosts::{Hosts, on},
    need_kernel, need_program,
    trials::has_program,
};

use super::unprivileged::{Copy, PINS, USER, delegate, own_pins, setpriv};

const OTHER_USER: u32 = 65_534;
const ATTACH: [&str; 4] = ["attach", "eth0", "--rate", "5/s"];
const LIMITER: &str = "/sys/fs/bpf/limiter";
/// A folder of other software.
const VICTIM: &str = "/sys/fs/bpf/victim";

/// Runs a script in bpffs as a user without any capability.
fn done_by(user: u32, script: &str) {
    let mut command = setpriv(user, "-all");
    command.args(["sh", "-c", &format!("cd {PINS} && {script}")]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
}

/// Runs root's commands that read or remove pins; packages run the first one. They refuse the planted link, and the
/// folder that it leads to stays.
fn expect_left_alone(planted: &str, words: &[&str]) {
    for command in [
        "detach --all --everywhere",
        "detach docker",
        "attach eth0 --rate 5",
        "status",
    ] {
        let outcome = limiter(command);
        outcome.expect(1);
        assert!(!outcome.stdout.contains("detached"), "{outcome:#?}");
        for word in words {
            assert!(outcome.stderr.contains(word), "'{word}': {outcome:#?}");
        }
        let inner = Path::new(VICTIM).join("docker/inner");
        let is_link = Path::new(PINS).join(planted).is_symlink();
        assert!(inner.exists() && is_link, "{outcome:#?}");
    }
}

#[test]
fn links_in_an_open_bpffs_are_not_followed() {
    need_kernel!();
    need_program!("setpriv");
    let hosts = Hosts::new();
    on(&hosts.server, || {
        own_pins("mode=1777");
        fs::create_dir_all(Path::new(VICTIM).join("docker/inner")).unwrap();
        let inside = format!("mkdir limiter && ln -s {VICTIM} limiter/v6");
        done_by(OTHER_USER, &inside);
        expect_left_alone("limiter/v6", &[LIMITER, "65534"]);
        done_by(
            OTHER_USER,
            &format!("rm -r limiter && ln -s {VICTIM} limiter"),
        );
        expect_left_alone("limiter", &[LIMITER]);
        done_by(OTHER_USER, "rm limiter");
        limiter(&ATTACH).expect(0);
        limiter("detach eth0").expect(0);
    });
}

#[test]
fn links_and_foreign_files_in_an_operators_folder_are_left_alone() {
    need_kernel!();
    need_program!("setpriv");
    let (hosts, operator) = (Hosts::new(), Copy::new());
    on(&hosts.server, || {
        delegate();
        fs::create_dir_all(Path::new(VICTIM).join("docker/inner")).unwrap();
        done_by(USER, &format!("ln -s {VICTIM} limiter/v6"));
        expect_left_alone("limiter/v6", &[LIMITER]);
        done_by(USER, "rm limiter/v6");
        // Plants paths among the pins of an attachment, and in place of one of them.
        operator.done(&ATTACH);
        let pins = hosts.pins();
        let plant = format!(
            "cd {} && mkdir -p docker/inner && ln -s {VICTIM} g7 && rm SWITCHES && ln -s {VICTIM}/docker SWITCHES",
            pins.display()
        );
        done_by(USER, &plant);
        let words = [
            "limiter is detached from 'eth0'",
            "docker",
            "g7",
            "SWITCHES",
        ];
        limiter("detach eth0").expect_error(1, &words);
        assert!(!has_program(&hosts));
        assert!(pins.join("docker/inner").exists() && pins.join("g7").is_symlink());
        assert!(!pins.join("SETS").exists() && !pins.join("g0").exists());
        assert!(Path::new(VICTIM).join("docker/inner").exists());
    });
}

/// Another user can open and lock only the root of an open bpffs: see `modes`.
#[test]
fn locks_of_another_user_delay_no_command() {
    need_kernel!();
    need_program!("setpriv");
    let hosts = Hosts::new();
    on(&hosts.server, || {
        own_pins("mode=1777");
        limiter(&ATTACH).expect(0);
        let mut lock = setpriv(OTHER_USER, "-all");
        lock.args(["flock", "--no-fork", PINS, "sleep", "120"]);
        let mut lock = lock.spawn().unwrap();
        eventually("bpffs is locked", || {
            fs::File::open(PINS).unwrap().try_lock().is_err()
        });
        let start = Instant::now();
        for command in [
            "set eth0 --rate 6/s",
            "deny add eth0 192.0.2.9",
            "reset eth0 --all",
            "detach eth0",
            "attach eth0 --rate 5/s --try 60s",
            "keep eth0",
        ] {
            limiter(command).expect(0);
        }
        let spent = start.elapsed();
        lock.kill().unwrap();
        lock.wait().unwrap();
        // Far less than the lock lasts, also on a busy machine.
        assert!(spent < Duration::from_secs(60), "{spent:?}");
    });
}

/// The owners of a folder and of everything below it.
fn owners(folder: &Path) -> Vec<(PathBuf, u32)> {
    let owner = fs::symlink_metadata(folder).unwrap().uid();
    let mut found = vec![(folder.to_owned(), owner)];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        found.extend(owners(&entry.path()));
    }
    found
}

/// A failing command leaves nothing behind. A successful `detach` leaves the folder.
#[test]
fn root_leaves_nothing_in_an_operators_folder() {
    need_kernel!();
    need_program!("setpriv");
    let (hosts, operator) = (Hosts::new(), Copy::new());
    on(&hosts.server, || {
        delegate();
        let folder = Path::new(LIMITER);
        let words = [LIMITER, "61234"];
        // The folder is empty, and then has an attachment.
        limiter("attach lo --rate 5").expect_error(1, &words);
        assert_eq!(owners(folder).len(), 1);
        operator.done(&ATTACH);
        let before = owners(folder);
        for refused in [
            "attach lo --rate 5",
            "set eth0 --rate 6/s",
            "deny add eth0 192.0.2.9",
            "attach lo --rate 5/s --try 1h",
        ] {
            limiter(refused).expect_error(1, &words);
            assert_eq!(owners(folder), before, "{refused:?}");
        }
        // The commands of the operator still work.
        operator.done("set eth0 --rate 7/s");
        limiter("detach eth0").expect(0);
        assert!(!hosts.pins().exists());
        // Root may not keep a trial of the operator, because the new pin would belong to root.
        operator.done("attach eth0 --rate 5/s --try 1h");
        limiter("keep eth0").expect_error(1, &words);
        assert!(owners(folder).iter().all(|(_, owner)| *owner == USER));
        limiter("detach eth0").expect(0);
        operator.done(&ATTACH);
        operator.done("detach eth0");
    });
}

/// The operator makes a misleading pin.
#[test]
fn root_does_not_restore_a_program_of_an_operator() {
    need_kernel!();
    need_program!("setpriv");
    let (hosts, operator) = (Hosts::new(), Copy::new());
    let add = "link add other0 type veth peer name other1";
    ip(&hosts.server.namespace, add);
    on(&hosts.server, || {
        delegate();
        operator.done(&ATTACH);
        // The operator owns the folder, and so can rename pins without capabilities.
        let pins = hosts.pins().display().to_string();
        let mut name = "g0/program".to_owned();
        for (interface, why) in [("other0", "another interface"), ("eth0", "has pinned it")] {
            let index = nix::net::if_::if_nametoindex(interface).unwrap();
            let new = format!("foreign_generic_{index}");
            done_by(USER, &format!("cd {pins} && mv {name} {new}"));
            let detached = limiter("detach eth0");
            let shown = Command::new("ip")
                .args(["link", "show", interface])
                .output();
            let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
            assert!(!shown.contains("prog/xdp"), "{detached:#?}\n{shown}");
            detached.expect_error(1, &["limiter is detached from 'eth0'", why, &new]);
            name = new;
        }
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
        let folder = Path::new(LIMITER);
        fs::create_dir(folder).unwrap();
        for (owner, mode, word) in [(0, 0o777, "777"), (OTHER_USER, 0o700, "65534")] {
            chown(folder, Some(owner), None).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
            limiter(&ATTACH).expect_error(1, &[LIMITER, word]);
            assert_eq!(owners(folder).len(), 1, "the command has created a file");
        }
    });
}
