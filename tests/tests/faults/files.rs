//! Commands handle file systems that are full, read-only, or owned by another user.

use std::{fs, process::Command, thread};

use limiter_tests::{
    captures::{Captured, pcap},
    command::{Outcome, binary, limiter},
    files::Folder,
    need_kernel,
    packet::Frame,
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

use crate::case::{ABSENT, BY_OLD, Case, EDITED, Place};

/// Gives this thread and its children their own mounts.
fn own_mounts() {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).unwrap();
}

#[test]
fn commands_on_a_read_only_bpffs_change_nothing() {
    need_kernel!();
    let place = Place::new();
    let case = Case::new(&place, &[], ABSENT, BY_OLD);
    let read_only = |arguments: &[&str]| {
        let run = || {
            const NONE: Option<&str> = None;
            own_mounts();
            let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
            mount(NONE, "/sys/fs/bpf", NONE, flags, NONE).unwrap();
            limiter(arguments)
        };
        place.hosts.server.namespace.run(run).unwrap()
    };
    let words = ["Read-only file system", "mount -o remount,rw /sys/fs/bpf"];
    read_only(&["attach", "eth0", "--config", &place.old]).expect_error(1, &words);
    assert_eq!(case.settled("attach"), ABSENT);
    case.expect_tidy("attach");

    place.attach().expect(0);
    for command in [
        &["set", "eth0", "--limit", "strangers", "--burst", "5"][..],
        &["reload", "eth0", "--config", &place.new],
        &["deny", "add", "eth0", EDITED],
        &["detach", "eth0"],
    ] {
        read_only(command).expect_error(1, &words);
        assert_eq!(case.settled(command[0]), BY_OLD);
        case.expect_tidy(command[0]);
    }
    // Commands that make and remove no pins work.
    read_only(&["status", "eth0"]).expect(0);
    read_only(&["reset", "eth0", "--all"]).expect(0);
    place.hosts.run("detach eth0");
    assert_eq!(case.settled("detach"), ABSENT);
}

/// The user has all capabilities that limiter needs, but is not the user who attached it.
#[test]
fn commands_on_pins_of_another_user_are_refused() {
    need_kernel!();
    let place = Place::attached();
    let case = Case::new(&place, &[], ABSENT, BY_OLD);
    let folder = Folder::new();
    // Any user may run this copy.
    let copy = folder.path("limiter");
    fs::copy(binary(), &copy).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(std::path::Path::new(&copy).parent().unwrap(), open).unwrap();
    let capabilities = "+bpf,+net_admin,+perfmon";
    for command in [
        &["set", "eth0", "--limit", "strangers", "--burst", "5"][..],
        &["deny", "add", "eth0", EDITED],
        &["reset", "eth0", "--all"],
        &["status", "eth0"],
        &["attach", "eth0", "--rate", "5"],
        &["detach", "eth0"],
    ] {
        let run = || {
            let mut prepared = Command::new("setpriv");
            prepared.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
            prepared.args(["--inh-caps", capabilities, "--ambient-caps", capabilities]);
            prepared.arg(&copy).args(command).output().unwrap()
        };
        let output = place.hosts.server.namespace.run(run).unwrap();
        let outcome = Outcome::of(command.join(" "), output);
        outcome.expect_error(1, &["not permitted", "user 65534"]);
        assert_eq!(case.settled(command[0]), BY_OLD);
        case.expect_tidy(command[0]);
    }
}

/// A capture of two minutes with clients that send at times.
fn traffic() -> Vec<u8> {
    let second = 1_000_000_000;
    let packets = (0..120).flat_map(|time| {
        (1..=40_u8).map(move |client| {
            let frame = Frame::from([198, 51, 100, client].into());
            Captured::whole((1_000 + time) * second, frame.bytes())
        })
    });
    pcap(&packets.collect::<Vec<_>>())
}

#[test]
fn learn_on_a_full_disk_leaves_the_existing_file() {
    need_kernel!();
    let folder = Folder::new();
    let capture = folder.write("traffic.pcap", traffic());
    let disk = tempfile::tempdir().unwrap();
    let at = |name: &str| disk.path().join(name).to_str().unwrap().to_owned();
    let (old, new) = (at("old.toml"), at("new.toml"));
    let learn = |output: &str| {
        let learn = [
            "learn",
            "--capture",
            &capture,
            "--force",
            "--output",
            output,
        ];
        limiter(&learn)
    };
    let work = || {
        own_mounts();
        // The file system has one page, which is less than the file needs.
        let size = Some("size=4k,mode=0700");
        mount(
            Some("tmpfs"),
            disk.path(),
            Some("tmpfs"),
            MsFlags::empty(),
            size,
        )
        .unwrap();
        fs::write(&old, "rate = \"5/s\"\n").unwrap();
        for output in [&new, &old] {
            let full = learn(output);
            full.expect(1);
            assert!(full.stderr.contains("No space left on device"), "{full:#?}");
            assert!(full.stdout.contains("[[limit]]"), "not lost: {full:#?}");
            assert_eq!(fs::read_to_string(&old).unwrap(), "rate = \"5/s\"\n");
            let there: Vec<_> = fs::read_dir(disk.path()).unwrap().collect();
            assert_eq!(there.len(), 1, "nothing else: {there:?}");
        }
        mount(
            None::<&str>,
            disk.path(),
            None::<&str>,
            MsFlags::MS_REMOUNT,
            Some("size=1m"),
        )
        .unwrap();
        for output in [&new, &old] {
            learn(output).expect(0);
            limiter(&["config", "check", output]).expect(0);
        }
    };
    thread::scope(|scope| scope.spawn(work).join().unwrap());
}
