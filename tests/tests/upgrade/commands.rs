//! What each version says of what the other one has attached.

use std::fs;

use limiter_tests::{
    earlier, eventually,
    files::Folder,
    foreign::{Foreign, PLAIN, on_server},
    hosts::{CLIENT, Hosts},
    need, need_earlier, number,
    traffic::Traffic,
    trials::has_program,
    watcher::Watcher,
};

const ATTACH: [&str; 6] = ["attach", "eth0", "--rate", "1/h", "--burst", "10"];
const TOOK_OVER: &str = "took over from limiter 0.1.0 (layout 5)";
/// What is so already.
const UNCHANGED: [&str; 4] = ["set", "eth0", "--shadow", "off"];

/// An attachment of the earlier version that has seen four packets.
fn with_earlier() -> Hosts {
    let hosts = Hosts::new();
    earlier::limiter(&hosts, &ATTACH).expect(0);
    assert_eq!(Traffic::new(&hosts).passed("192.0.2.2", 4), 4);
    hosts
}

fn expect_nothing_left(hosts: &Hosts) {
    eventually("the program is off", || !has_program(hosts));
    assert!(!hosts.pins().exists() && !earlier::pins(hosts).exists());
}

#[test]
fn what_an_earlier_version_attached_is_read_as_it_is() {
    need_earlier!();
    let hosts = with_earlier();
    let status = hosts.status();
    assert_eq!(status["earlier_layout"], 5, "{status}");
    assert_eq!(status["packets"]["passed"], 4, "{status}");
    let text = hosts.limiter(&["status"]);
    text.expect(0);
    let advice = "`limiter set eth0 --shadow off` is enough";
    assert!(text.stdout.contains(advice), "{text:#?}");
    let check = hosts.json(&["check", "eth0", "192.0.2.2", "--json"]);
    assert_eq!(check["limits"][0]["passed"], 4, "{check}");
    let top = hosts.json(&["top", "eth0", "--once", "--json"]);
    assert_eq!(top["sources"][0]["passed"], 4, "{top}");
    hosts
        .limiter(&ATTACH)
        .expect_error(1, &["attached to 'eth0' already"]);
    // A bucket is forgotten in the table, which has not changed.
    hosts.limiter(&["reset", "eth0", "192.0.2.2"]).expect(0);
    assert_eq!(Traffic::new(&hosts).passed("192.0.2.2", 11), 10);
    // All of that has changed nothing for the earlier version.
    earlier::limiter(&hosts, &["set", "eth0", "--rate", "2/h"]).expect(0);
    hosts.limiter(&["detach", "eth0"]).expect(0);
    expect_nothing_left(&hosts);
}

/// Each command that changes something takes over, and says so once.
#[test]
fn every_change_takes_over() {
    need_earlier!();
    let folder = Folder::new();
    let text = "[[limit]]\nname = \"default\"\nrate = \"1/h\"\nburst = 10\n";
    let file = folder.write("limiter.toml", text);
    for change in [
        &UNCHANGED[..],
        &["reload", "eth0", "--config", &file],
        &["attach", "eth0", "--or-reload", "--config", &file],
        &["deny", "add", "eth0", "203.0.113.66"],
        &["allow", "add", "eth0", "203.0.113.5"],
    ] {
        let hosts = with_earlier();
        let said = hosts.limiter(change);
        said.expect(0);
        let told = format!("{}{}", said.stdout, said.stderr);
        assert_eq!(told.matches(TOOK_OVER).count(), 1, "{said:#?}");
        let status = hosts.status();
        assert!(status["earlier_layout"].is_null(), "{change:?}: {status}");
        assert_eq!(status["packets"]["seen"], 4, "{change:?}: {status}");
        // Six of the ten tokens are left.
        assert_eq!(Traffic::new(&hosts).passed("192.0.2.2", 10), 6);
        let check = hosts.json(&["check", "eth0", "192.0.2.2", "--json"]);
        assert_eq!(check["limits"][0]["passed"], 10, "{check}");
        let again = hosts.limiter(&UNCHANGED);
        again.expect(0);
        assert!(!again.stdout.contains("took over"), "{again:#?}");
        hosts.limiter(&["detach", "eth0"]).expect(0);
        expect_nothing_left(&hosts);
    }
}

#[test]
fn a_change_that_fails_takes_nothing_over() {
    need_earlier!();
    let hosts = with_earlier();
    let folder = Folder::new();
    let file = folder.write(
        "limiter.toml",
        "max_sources = 128\n[[limit]]\nname = \"default\"\nrate = \"1/h\"\n",
    );
    hosts
        .limiter(&["reload", "eth0", "--config", &file])
        .expect_error(1, &["max_sources"]);
    hosts
        .limiter(&["set", "eth0", "--limit", "other", "--rate", "1/h"])
        .expect_error(1, &["no limit 'other'"]);
    assert_eq!(hosts.status()["earlier_layout"], 5);
    let pinned = fs::read_dir(earlier::pins(&hosts)).unwrap().count();
    assert_eq!(pinned, 15, "link, thirteen maps, one generation");
    earlier::limiter(&hosts, &["set", "eth0", "--rate", "2/h"]).expect(0);
    assert_eq!(Traffic::new(&hosts).passed("192.0.2.2", 10), 6);
}

/// The earlier version's trial is held by a process of its own, which knows its pins by their place.
#[test]
fn a_trial_is_kept_before_it_is_taken_over() {
    need_earlier!();
    let hosts = Hosts::new();
    let on_trial = [&ATTACH[..], &["--try", "1h"]].concat();
    earlier::limiter(&hosts, &on_trial).expect(0);
    hosts
        .limiter(&UNCHANGED)
        .expect_error(1, &["on trial", "limiter keep eth0"]);
    assert!(!hosts.status()["try_until"].is_null());
    hosts.limiter(&["keep", "eth0"]).expect(0);
    let said = hosts.limiter(&UNCHANGED);
    said.expect(0);
    assert!(said.stdout.contains(TOOK_OVER), "{said:#?}");
    assert!(hosts.status()["try_until"].is_null());
    hosts.limiter(&["detach", "eth0"]).expect(0);
    expect_nothing_left(&hosts);

    earlier::limiter(&hosts, &on_trial).expect(0);
    hosts.limiter(&["detach", "eth0"]).expect(0);
    expect_nothing_left(&hosts);
}

#[test]
fn the_program_behind_is_put_back_in_the_end() {
    need_earlier!();
    if !need::tool("the_program_behind_is_put_back_in_the_end", "bpftool") {
        return;
    }
    let foreign = Foreign::load(PLAIN);
    let hosts = Hosts::new();
    foreign.attach(&hosts, "xdpdrv");
    earlier::limiter(&hosts, &[&ATTACH[..], &["--chain"]].concat()).expect(0);
    assert_eq!(Traffic::new(&hosts).passed("192.0.2.2", 4), 4);
    assert_eq!(foreign.seen(), 4);
    hosts.limiter(&UNCHANGED).expect(0);
    assert_eq!(Traffic::new(&hosts).passed("192.0.2.2", 10), 6);
    assert_eq!(foreign.seen(), 10);
    hosts.limiter(&["detach", "eth0"]).expect(0);
    assert_eq!(on_server(&hosts), Some(("native", foreign.id)));
}

/// Who watches is told of drops before and after.
#[test]
fn a_watcher_goes_on() {
    need_earlier!();
    let hosts = with_earlier();
    let mut watcher = Watcher::start(&hosts, &["--json"]);
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed("192.0.2.2", 7), 6);
    assert_eq!(watcher.event()["source"], "192.0.2.2");
    hosts.limiter(&UNCHANGED).expect(0);
    // It looks for the link twice a second.
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    assert_eq!(traffic.passed("192.0.2.2", 1), 0);
    assert_eq!(watcher.event()["source"], "192.0.2.2");
    assert!(!watcher.has_ended());
}

/// The earlier version says what is there, and touches nothing.
#[test]
fn a_downgrade_is_refused() {
    need_earlier!();
    let hosts = with_earlier();
    hosts.limiter(&UNCHANGED).expect(0);
    let before = hosts.status();
    let pins = || {
        let entries = fs::read_dir(hosts.pins()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let pinned = pins();
    for arguments in [
        &ATTACH[..],
        &["status", "eth0"],
        &["set", "eth0", "--rate", "2/h"],
        &["deny", "add", "eth0", "203.0.113.66"],
        &["reset", "eth0", "--all"],
        &["keep", "eth0"],
        &["detach", "eth0"],
    ] {
        earlier::limiter(&hosts, arguments).expect_error(1, &["another version", "'eth0'"]);
    }
    assert_eq!(hosts.status(), before);
    assert_eq!(pins(), pinned);
    assert_eq!(Traffic::new(&hosts).passed(&CLIENT.to_string(), 10), 6);
}

/// The same of this version, and of one that does not exist yet.
#[test]
fn what_a_newer_version_attached_is_left_alone() {
    need_earlier!();
    let hosts = Hosts::new();
    hosts.limiter(&ATTACH).expect(0);
    let pins = hosts.pins();
    let newer = pins.parent().unwrap().with_file_name("v8");
    fs::create_dir_all(&newer).unwrap();
    let newer = newer.join(pins.file_name().unwrap());
    fs::rename(&pins, &newer).unwrap();
    let told = ["a newer version", "(layout 8)", "'eth0'", "install that"];
    for arguments in [
        &ATTACH[..],
        &["status", "eth0"],
        &UNCHANGED,
        &["keep", "eth0"],
        &["detach", "eth0"],
    ] {
        hosts.limiter(arguments).expect_error(1, &told);
    }
    assert!(newer.join("link").exists() && has_program(&hosts));
    fs::create_dir_all(pins.parent().unwrap()).unwrap();
    fs::rename(&newer, &pins).unwrap();
    let _ = fs::remove_dir(newer.parent().unwrap());
    assert_eq!(number(&hosts.status()["packets"]["seen"]), 0);
    hosts.limiter(&["detach", "eth0"]).expect(0);
}
