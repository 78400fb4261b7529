//! Commands handle an interface that disappears under flood while they work on it.

use std::{
    os::fd::AsFd,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

use limiter_kernel::sys::bpf;
use limiter_tests::{
    command::ip,
    eventually,
    files::Folder,
    hosts::Hosts,
    need_kernel,
    objects::{Object, expect_gone},
    raw::Raw,
    trials::has_program,
};

/// Parts of the messages that commands may print when their interface disappears.
const WORDS: [&str; 8] = [
    "limiter does not run on 'eth0' any more",
    "no interface 'eth0'",
    "not attached",
    "another network namespace",
    "replacing the program failed",
    "No such device",
    "attached to 'eth0' already",
    "the kernel refused to attach",
];

/// Sends until the interface is gone, or until `over`.
fn flood(raw: &Raw, frame: &[u8], over: &AtomicBool, sent: &AtomicU32) {
    const MOST: u32 = 500_000;
    while !over.load(Ordering::Relaxed) && sent.load(Ordering::Relaxed) < MOST {
        match raw.try_send(frame) {
            Ok(()) => {
                sent.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(_) => return,
        }
    }
}

/// Removes the interface during commands. Returns the number of commands that ran, and of those that failed.
fn vanishes(mode: &str, delay: Duration) -> (u32, u32) {
    let hosts = Hosts::new();
    let attach = [
        "attach", "eth0", "--rate", "1/h", "--burst", "3", "--mode", mode,
    ];
    hosts.limiter(&attach).expect(0);
    let held = Object::pinned_in(&hosts.pins());
    assert!(held.len() > 15, "{held:?}");
    let raw = Raw::open(&hosts.client);
    let frame = hosts.frame("192.0.2.2".parse().unwrap()).bytes();
    let (over, sent) = (AtomicBool::new(false), AtomicU32::new(0));
    let (ran, failed) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| flood(&raw, &frame, &over, &sent));
        scope.spawn(|| {
            let commands = [
                &["set", "eth0", "--burst", "5"][..],
                &["deny", "add", "eth0", "10.9.9.9"],
                &["reset", "eth0", "--all"],
                &["check", "eth0", "192.0.2.2"],
                &attach,
            ];
            while !over.load(Ordering::Relaxed) {
                for command in commands {
                    let outcome = hosts.limiter(command);
                    ran.fetch_add(1, Ordering::Relaxed);
                    if outcome.status != 0 {
                        outcome.expect(1);
                        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
                        let known = WORDS.iter().any(|words| outcome.stderr.contains(words));
                        assert!(known, "{outcome:#?}");
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        eventually("a flood", || sent.load(Ordering::Relaxed) > 1_000);
        thread::sleep(delay);
        ip(&hosts.server.namespace, "link delete eth0");
        thread::sleep(Duration::from_millis(50));
        over.store(true, Ordering::Relaxed);
    });
    // The next command removes all leftovers and limits a new interface with the name.
    ip(
        &hosts.server.namespace,
        "link add eth0 type veth peer name far",
    );
    hosts.limiter("attach eth0 --rate 5").expect_error(
        1,
        &["does not run on 'eth0' any more", "limiter detach eth0"],
    );
    hosts.run("detach eth0");
    assert!(!hosts.pins().exists() && !has_program(&hosts));
    expect_gone(&held);
    hosts.run("attach eth0 --rate 5");
    assert!(has_program(&hosts));
    (ran.into_inner(), failed.into_inner())
}

#[test]
fn commands_survive_an_interface_that_vanishes_under_flood() {
    need_kernel!();
    let (mut ran, mut failed) = (0, 0);
    for round in 0..3 {
        for mode in ["native", "generic"] {
            let counts = vanishes(mode, Duration::from_millis(31 * round));
            ran += counts.0;
            failed += counts.1;
        }
    }
    assert!(ran >= 30 && failed >= 6, "{failed} of {ran}");
}

/// After `bpftool link detach`, the interface exists without limits.
#[test]
fn commands_report_a_link_detached_by_force() {
    need_kernel!();
    let hosts = Hosts::new();
    let attach = ["attach", "eth0", "--rate", "5/s"];
    hosts.limiter(&attach).expect(0);
    let link = bpf::open_pin(&hosts.pins().join("link")).unwrap();
    bpf::link_detach(link.as_fd()).unwrap();
    drop(link);
    let words = ["does not run on 'eth0' any more", "`limiter detach eth0`"];
    for command in [
        &["status", "eth0"][..],
        &["check", "eth0", "192.0.2.2"],
        &["set", "eth0", "--rate", "6/s"],
        &["deny", "add", "eth0", "192.0.2.2"],
        &["watch", "eth0"],
        &["keep", "eth0"],
        &attach,
    ] {
        hosts.limiter(command).expect_error(1, &words);
    }
    let status = hosts.limiter("status");
    status.expect(1);
    assert!(status.stderr.contains(words[0]), "{status:#?}");
    // The command that the message advises.
    hosts.run("detach eth0");
    hosts.limiter(&attach).expect(0);
    // The command of the service attaches limiter again.
    let link = bpf::open_pin(&hosts.pins().join("link")).unwrap();
    bpf::link_detach(link.as_fd()).unwrap();
    drop(link);
    let folder = Folder::new();
    let file = folder.write(
        "limiter.toml",
        "interfaces = [\"eth0\"]\n[[limit]]\nname = \"all\"\nrate = \"7/s\"\n",
    );
    hosts
        .limiter(&["attach", "eth0", "--or-reload", "--config", &file])
        .expect(0);
    assert_eq!(hosts.status()["limits"][0]["rate"], "7/s");
    hosts.run("detach eth0");
}
