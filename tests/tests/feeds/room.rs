//! Room for bans: a part of it is kept for bans by hand, and bans that feeds share are counted once.

use limiter_tests::{
    eventually,
    feeds::{Feed, end},
    hosts::Hosts,
    need_kernel, number,
};
use nix::sys::signal::Signal;
use std::time::Duration;

/// Addresses, each in a line.
fn addresses(network: u8, count: u8) -> String {
    (0..count)
        .map(|last| format!("10.0.{network}.{last}\n"))
        .collect()
}

fn with_room(max_bans: u32) -> Hosts {
    let hosts = Hosts::new();
    hosts.run(&format!(
        "attach eth0 --rate 1000000 --burst 1000000 --max-bans {max_bans}"
    ));
    hosts
}

#[test]
fn list_that_fills_the_room_leaves_a_part_for_other_bans() {
    need_kernel!();
    let hosts = with_room(200);
    let feed = Feed::new(&hosts, "full");
    let list = feed.write("list", &addresses(1, 200));
    feed.configure(&format!("list = '{list}'"));
    feed.once("--once")
        .expect_error(1, &["room for 136 bans more of feeds", "--max-bans"]);
    assert_eq!(feed.bans(), [""; 0]);
    feed.write("list", &addresses(1, 136));
    feed.once("--once").expect(0);
    assert_eq!(feed.bans().len(), 136);
    let other = Feed::new(&hosts, "other");
    other.configure(&format!("list = '{}'", other.write("list", "10.0.2.1\n")));
    other
        .once("--once")
        .expect_error(1, &["room for 0 bans more of feeds"]);
    // All of the rest is for others: 64 by hand, by fail2ban, or by a fleet.
    for last in 0..64 {
        let origin = ["hand", "fail2ban"][last % 2];
        hosts.run(&format!("ban eth0 10.0.3.{last} --origin {origin}"));
    }
    hosts
        .limiter("ban eth0 10.0.4.1")
        .expect_error(1, &["there is room for 200 bans"]);
    // The feed's own bans stay, and may change.
    let changed = addresses(1, 130) + &addresses(5, 6);
    feed.write("list", &changed);
    feed.once("--once").expect(0);
    let bans = feed.bans();
    assert!(
        bans.len() == 136 && bans.contains(&"10.0.5.5".to_owned()),
        "{bans:?}"
    );
}

#[test]
fn entries_of_two_feeds_are_counted_once() {
    need_kernel!();
    let hosts = with_room(200);
    let [first, other] = ["one", "two"].map(|name| Feed::new(&hosts, name));
    for feed in [&first, &other] {
        let list = feed.write("list", &addresses(1, 120));
        feed.configure(&format!("list = '{list}'\ninterval = '1s'"));
    }
    first.once("--once").expect(0);
    // There is no room for 120 more, and none is needed.
    let process = other.start(Duration::from_secs(60));
    eventually("the second feed", || other.status()["succeeded"].is_u64());
    assert_eq!((first.bans().len(), other.bans().len()), (120, 0));
    let left_out =
        "120 entries are left out (banned by another origin already), the first: 10.0.1.0";
    let status = hosts.run("status");
    assert!(status.contains(left_out), "{status}");
    assert_eq!(other.left_out("other_origin"), 120);
    first.once("--remove").expect(0);
    eventually("the second feed has them", || other.bans().len() == 120);
    eventually("none is left out", || other.left_out("other_origin") == 0);
    assert_eq!(number(&other.status()["wanted"]), 120);
    end(process, Signal::SIGTERM);
}
