//! Commands handle a read-only bpffs.

use limiter_tests::{command::limiter, need_kernel};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

use super::case::{ABSENT, BY_OLD, Case, EDITED, Place};

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
