//! The files that `watch --write` makes: complete, none overwritten, and a new one when one is full.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
    process::Command,
    time::SystemTime,
};

use limiter_common::abi::events::EVENTS_BYTES;
use limiter_tests::{
    eventually,
    files::Folder,
    hosts::{CLIENT, Hosts},
    need_kernel,
    traffic::{Traffic, ends, udp},
    watcher::Watcher,
};
use nix::sys::signal::Signal;

use super::{Written, read, times};

/// Long packets fill the ring buffer before the budget is empty.
#[test]
fn every_drop_is_written_or_counted_as_lost() {
    const FLOOD: usize = 2_000;
    need_kernel!();
    let since = SystemTime::now();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let traffic = Traffic::new(&hosts);
    let frame = ends(&hosts, CLIENT, 9).udp(&[0x5a; 1_400]);
    assert_eq!(traffic.send(&[&frame]), 1);
    let path = folder.path("drops");
    let watcher = Watcher::start(&hosts, &["--write", &path, "--snap", "1536"]);
    // The process does not read meanwhile.
    watcher.signal(Signal::SIGSTOP);
    traffic.send(&[&frame[..]; FLOOD]);
    watcher.signal(Signal::SIGCONT);
    let (written, lost) = watcher.end().sums();
    assert_eq!(written + lost, FLOOD as u64);
    let packets = read(&path, since, false).1;
    assert_eq!(packets.len() as u64, written);
    let wanted = Written::of(&frame, 1_536, "dropped: over the limit default");
    assert!(packets.iter().all(|packet| *packet == wanted));
    // One packet has 88 bytes of the event, 8 of the ring buffer's header, and 6 to align it.
    let room = u64::from(EVENTS_BYTES) / (frame.len() as u64 + 102);
    assert_eq!(written, room);
}

#[test]
fn full_file_is_renamed_and_a_new_one_begins() {
    const MOST: u64 = 4 << 10;
    need_kernel!();
    let since = SystemTime::now();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed("192.0.2.7", 1), 1);
    let (path, full) = (folder.path("drops"), folder.path("drops.1"));
    let watcher = Watcher::start(&hosts, &["--write", &path, "--rotate", "4kB"]);
    // The ports count the packets.
    let frames: Vec<_> = (1..=100)
        .map(|port| udp(&hosts, "192.0.2.7".parse().unwrap(), port))
        .collect();
    traffic.send(&frames.iter().map(|frame| &frame[..]).collect::<Vec<_>>());
    eventually("all drops are written", || times(&path, &frames[99]) == 1);
    // Each packet is complete in the file when it is written.
    watcher.signal(Signal::SIGKILL);
    let _ = watcher.wait();
    let mut packets = Vec::new();
    for file in [&full, &path] {
        let (_, some) = read(file, since, false);
        let metadata = fs::metadata(file).unwrap();
        assert!(
            metadata.len() <= MOST && !some.is_empty(),
            "{file}: {metadata:?}"
        );
        assert_eq!(metadata.mode() & 0o777, 0o600, "{file}");
        packets.extend(some.into_iter().map(|packet| packet.bytes));
    }
    let full_length = fs::metadata(&full).unwrap().len();
    assert!(full_length + 200 > MOST, "{full_length}");
    assert!(
        frames.ends_with(&packets),
        "the last packets, without a gap"
    );
}

#[test]
fn file_that_exists_is_refused_and_left_alone() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    hosts.run("attach eth0 --rate 1/h");
    let refused = |arguments: &str, status, words: &[&str]| {
        hosts
            .limiter(&format!("watch eth0 {arguments}"))
            .expect_error(status, words);
    };
    let there = folder.write("there", "mine");
    refused(
        &format!("--write {there}"),
        1,
        &["there cannot be created (File exists", "does not exist"],
    );
    assert_eq!(fs::read_to_string(&there).unwrap(), "mine");
    let (link, target) = (folder.path("link"), folder.path("target"));
    symlink(&target, &link).unwrap();
    refused(&format!("--write {link}"), 1, &["link cannot be created"]);
    assert!(!Path::new(&target).exists(), "the link was followed");
    folder.write("new.1", "mine");
    let new = folder.path("new");
    refused(
        &format!("--write {new} --rotate 1MB"),
        1,
        &["new.1 exists, and --rotate"],
    );
    assert!(!Path::new(&new).exists());
    refused(
        "--write /nowhere/drops",
        1,
        &["/nowhere/drops cannot be created (No such file"],
    );
    for (arguments, word) in [
        ("--snap 64", "--write"),
        ("--rotate 1MB", "--write"),
        ("--write x --json", "--json"),
        ("--write x --snap 0", "1536"),
        ("--write x --snap 1537", "1536"),
        ("--write x --rotate 4095b", "100MB"),
        ("--write x --rotate 100", "100MB"),
    ] {
        refused(arguments, 2, &[word]);
    }
    // The refused commands have switched nothing on.
    Watcher::start(&hosts, &[]).end();
}

#[test]
fn file_on_a_full_disk_ends_with_a_whole_packet() {
    need_kernel!();
    let since = SystemTime::now();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let disk = folder.path("disk");
    fs::create_dir(&disk).unwrap();
    let run = |words: &[&str]| {
        assert!(
            Command::new(words[0])
                .args(&words[1..])
                .status()
                .unwrap()
                .success()
        )
    };
    run(&["mount", "-t", "tmpfs", "-o", "size=16k", "none", &disk]);
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let path = format!("{disk}/drops");
    let watcher = Watcher::start(&hosts, &["--write", &path, "--snap", "1536"]);
    let frame = ends(&hosts, CLIENT, 9).udp(&[0x5a; 1_400]);
    Traffic::new(&hosts).send(&[&frame[..]; 30]);
    let ended = watcher.wait();
    let words = "drops cannot be written (No space left";
    assert!(
        ended.status == 1 && ended.stderr.contains(words),
        "{ended:?}"
    );
    let packets = read(&path, since, false).1;
    run(&["umount", &disk]);
    assert_eq!(
        packets,
        vec![Written::of(&frame, 1_536, "dropped: over the limit default"); packets.len()]
    );
    assert!(packets.len() >= 5, "{}", packets.len());
}
