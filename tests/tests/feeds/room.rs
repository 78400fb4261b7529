//! Room for bans: a part of it is kept for bans by hand, and each feed has its own bans.

use limiter_tests::{feeds::Feed, hosts::Hosts, need_kernel, traffic::Traffic};

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
fn entries_of_two_feeds_are_a_ban_of_each() {
    need_kernel!();
    let hosts = with_room(400);
    let [first, other] = ["one", "two"].map(|name| Feed::new(&hosts, name));
    for feed in [&first, &other] {
        let list = feed.write("list", &addresses(1, 120));
        feed.configure(&format!("list = '{list}'"));
        feed.once("--once").expect(0);
    }
    assert_eq!((first.bans().len(), other.bans().len()), (120, 120));
    // The sources stay banned until the last feed ends its bans.
    let traffic = Traffic::new(&hosts);
    first.once("--remove").expect(0);
    assert_eq!(traffic.passed("10.0.1.1", 3), 0);
    assert_eq!((first.bans().len(), other.bans().len()), (0, 120));
    other.once("--remove").expect(0);
    assert_eq!(traffic.passed("10.0.1.1", 3), 3);
}
