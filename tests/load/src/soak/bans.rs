//! Bans by hand, and by a feed whose list changes by a thousand addresses a second.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use nix::{sys::signal::Signal, unistd::Pid};

use super::{state::Soak, wire::Role};
use limiter_tests::{
    eventually,
    feeds::{Feed, children, end},
};

/// Addresses on the list of the feed.
const LISTED: u32 = 5_000;
/// Addresses that leave the list each second, and as many that come.
const CHANGED: u32 = 500;
/// The first address: sources that send nothing.
const FIRST: u32 = 0x64_40_00_00;

/// Bans a source while it sends, and ends the ban, again and again. No packet passes in between.
pub fn by_hand(soak: &Soak<'_>) {
    let banned = soak.wire.of(&[Role::Banned]).next().unwrap();
    let passed = || {
        soak.wire.settle(soak.hosts);
        banned.passed()
    };
    while soak.goes_on() {
        soak.limiter(&format!("ban eth0 {} --for 1h", banned.address));
        let before = passed();
        soak.sleep(soak.plan.pause);
        assert_eq!(passed(), before, "the source is banned");
        soak.limiter(&format!("unban eth0 {}", banned.address));
        soak.sleep(soak.plan.pause);
    }
}

/// Runs a feed, and changes its list each second.
pub fn by_feed(soak: &Soak<'_>) {
    let feed = Feed::new(soak.hosts, "soak");
    let write = |round: u32| {
        let mut list = String::new();
        for address in FIRST + round * CHANGED..FIRST + round * CHANGED + LISTED {
            let _ = writeln!(list, "{}", std::net::Ipv4Addr::from_bits(address));
        }
        feed.write("list", &list)
    };
    let list = write(0);
    feed.configure(&format!("list = '{list}'\ninterval = '1s'"));
    let longest = soak.plan.duration + Duration::from_secs(300);
    let process = feed.start(longest);
    let processes = || {
        let own = children(process.id());
        let helpers = own.first().map(|own| children(*own)).unwrap_or_default();
        [own, helpers].concat()
    };
    eventually("the feed and its helper run", || processes().len() == 2);
    let processes = processes();
    let mut round = 0;
    while soak.goes_on() {
        let next = Instant::now() + Duration::from_secs(1);
        round += 1;
        write(round);
        for (name, process) in ["limiter feed", "its helper"].into_iter().zip(&processes) {
            let process = Pid::from_raw(process.cast_signed());
            soak.memory.lock().unwrap().note(name, process);
        }
        soak.count("list of a thousand changes");
        soak.sleep(next.saturating_duration_since(Instant::now()));
    }
    let last = std::net::Ipv4Addr::from_bits(FIRST + round * CHANGED + LISTED - 1).to_string();
    eventually("the feed has its last list", || {
        let bans = feed.bans();
        bans.len() == LISTED as usize && bans.contains(&last)
    });
    end(process, Signal::SIGTERM);
}
