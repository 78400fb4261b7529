//! Hundreds of changes to limits, lists and files during a flood lose no counters and admit no extra packets.

use std::{
    collections::BTreeMap,
    fs,
    net::IpAddr,
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use limiter_common::policy::verdict::Reason;
use limiter_tests::{SetOnDrop, hosts::Hosts, need_kernel, number, raw::Raw, settings};
use limiter_user::{
    config::Settings,
    kernel::{
        Attachment,
        ops::{set, set::Wanted},
    },
};

const CHANGES: u32 = 150;
/// Every 19th change is made by the command, the others through the library.
const BY_COMMAND: u32 = 19;

/// A source under the limit `slow`. Its bucket is empty after ten packets and gets no token during the test.
const EMPTY: &str = "192.0.2.2";
/// A source under the limit `slow` that is added to `deny` and removed again repeatedly.
const EDITED: &str = "192.0.2.3";
/// A source under the limit `quick`, which changes its rate.
const BUSY: &str = "198.51.100.7";
/// A source that is always allowed.
const FRIEND: &str = "203.0.113.5";
/// A source that is always denied.
const FOE: &str = "203.0.113.66";
const SOURCES: [&str; 5] = [EMPTY, EDITED, BUSY, FRIEND, FOE];

/// Bursts of the limits, in packets. The burst of `quick` is so large that no pause of the flood refills it.
const SLOW_BURST: u64 = 10;
const QUICK_BURST: f64 = 10_000.0;
/// Rates of `quick` and of `slow` per second.
const QUICK_RATES: [f64; 3] = [1_000.0, 2_000.0, 1_500.0];
const SLOW_RATES: [&str; 3] = ["1/h", "2/h", "1/d"];

/// A configuration, described by the changes so far.
#[derive(Clone, Copy)]
struct Written {
    slow: usize,
    quick: usize,
    edited_denied: bool,
    /// Number of neighbours of the friend on `allow`, and of the foe on `deny`.
    neighbours: u32,
}

impl Written {
    fn text(self) -> String {
        let neighbour = self.neighbours % 200;
        let edited = if self.edited_denied {
            format!(", \"{EDITED}\"")
        } else {
            String::new()
        };
        format!(
            "[lists]\nallow = [\"{FRIEND}\", \"198.18.0.{neighbour}\"]\n\
             deny = [\"{FOE}\", \"198.19.{neighbour}.0/24\"{edited}]\nquick = [\"198.51.100.0/24\"]\n\
             [[limit]]\nname = \"slow\"\nmatch = {{ unless = \"quick\" }}\nrate = \"{}\"\nburst = {SLOW_BURST}\n\
             [[limit]]\nname = \"quick\"\nmatch = {{ source = \"quick\" }}\nrate = \"{}/s\"\nburst = {QUICK_BURST}\n",
            SLOW_RATES[self.slow], QUICK_RATES[self.quick]
        )
    }

    fn settings(self) -> Settings {
        settings(&self.text())
    }

    /// Returns the next configuration. Mostly one setting changes, sometimes all.
    fn next(mut self, change: u32) -> Self {
        let at = change as usize / 5 % 3;
        match change % 5 {
            0 => self.slow = at,
            1 => self.quick = at,
            2 => self.edited_denied = !self.edited_denied,
            3 => self.neighbours += 1,
            _ => {
                self = Self {
                    slow: (at + 1) % 3,
                    quick: (at + 2) % 3,
                    edited_denied: !self.edited_denied,
                    neighbours: self.neighbours + 1,
                }
            }
        }
        self
    }
}

/// The server, and its configuration file.
struct Server<'a> {
    hosts: &'a Hosts,
    file: PathBuf,
}

impl Server<'_> {
    fn write(&self, written: Written) {
        fs::write(&self.file, written.text()).unwrap();
    }

    fn command(&self, arguments: &[&str]) {
        self.hosts.limiter(arguments).expect(0);
    }

    /// Changes from one configuration to the next, as the commands do.
    fn change(&self, old: Written, new: Written, change: u32) {
        if !change.is_multiple_of(BY_COMMAND) {
            return self.swap(new);
        }
        let rate = format!("{}/s", QUICK_RATES[new.quick]);
        let neighbour = |written: Written| format!("198.18.0.{}", written.neighbours % 200);
        // The kinds of changes take turns.
        match change / BY_COMMAND % 4 {
            0 => self.command(&["set", "eth0", "--limit", "quick", "--rate", &rate]),
            1 => {
                let verb = if new.edited_denied { "add" } else { "remove" };
                if old.edited_denied != new.edited_denied {
                    self.command(&["deny", verb, "eth0", EDITED]);
                }
            }
            2 if old.neighbours != new.neighbours => {
                self.command(&["allow", "add", "eth0", &neighbour(new)]);
                self.command(&["allow", "remove", "eth0", &neighbour(old)]);
            }
            _ => {
                self.write(new);
                let path = self.file.to_str().unwrap();
                self.command(&["reload", "eth0", "--config", path]);
            }
        }
        self.swap(new);
    }

    fn swap(&self, new: Written) {
        let swap = || async {
            let wanted = Wanted::new(new.settings());
            set::swap("eth0", set::Lasts::ForGood, |_| Ok(wanted.clone())).await
        };
        let namespace = &self.hosts.server.namespace;
        namespace.block_on(swap).unwrap().unwrap();
    }

    /// Number of packets for each reason, and their sum.
    fn reasons(&self) -> (BTreeMap<Reason, u64>, u64) {
        let open = || async { Attachment::open("eth0").await };
        let attachment = self.hosts.server.namespace.block_on(open).unwrap();
        let counters = attachment.unwrap().tables.counters().unwrap();
        let of = |reason: Reason| (reason, counters.by_reason[reason as usize].packets);
        let by_reason: BTreeMap<_, _> = Reason::ALL.into_iter().map(of).collect();
        let sum = by_reason.values().sum::<u64>();
        (by_reason, sum)
    }

    /// Number of packets of a source that a limit passed, and that it dropped.
    fn figures(&self, source: &str, limit: &str) -> (u64, u64) {
        let check = self.hosts.json(&["check", "eth0", source, "--json"]);
        let mut limits = check["limits"].as_array().unwrap().iter();
        let limit = limits.find(|found| found["name"] == limit).unwrap();
        (
            number(&limit["passed_packets"]),
            number(&limit["dropped_packets"]),
        )
    }
}

/// The packets of the flood, and their times.
struct Flood {
    /// Number of packets by source, in the order of [`SOURCES`].
    sent: [u64; 5],
    /// A moment after which no bucket was full.
    first: Instant,
    /// A moment before the packet that found the bucket empty at the end.
    last: Instant,
}

/// Sends one packet of each source in turn until `stop`. Then empties the bucket of the busy source.
fn flood(hosts: &Hosts, rounds: &AtomicU64, stop: &AtomicBool) -> Flood {
    let wire = Raw::open(&hosts.client);
    let frames = SOURCES.map(|source| hosts.frame(source.parse::<IpAddr>().unwrap()).bytes());
    let mut sent = [0; 5];
    let mut first = None;
    while !stop.load(Ordering::Relaxed) {
        for (frame, sent) in frames.iter().zip(&mut sent) {
            wire.send(frame);
            *sent += 1;
        }
        first.get_or_insert_with(Instant::now);
        rounds.fetch_add(1, Ordering::Relaxed);
    }
    let last = Instant::now();
    for _ in 0..3 * QUICK_BURST as u64 {
        wire.send(&frames[2]);
        sent[2] += 1;
    }
    Flood {
        sent,
        first: first.unwrap(),
        last,
    }
}

/// Also, no source is locked out, and no packet of an allowed source is dropped.
#[test]
fn changes_under_flood_lose_no_counters_and_refill_no_buckets() {
    need_kernel!();
    let hosts = Hosts::new();
    let file = std::env::temp_dir().join(format!("limiter-changes-{}.toml", std::process::id()));
    let server = Server {
        hosts: &hosts,
        file,
    };
    let mut written = Written {
        slow: 0,
        quick: 0,
        edited_denied: false,
        neighbours: 0,
    };
    server.write(written);
    let start = Instant::now();
    server.command(&["attach", "eth0", "--config", server.file.to_str().unwrap()]);
    let (rounds, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut changes = 0;
    let flood = thread::scope(|scope| {
        let flood = scope.spawn(|| flood(&hosts, &rounds, &stop));
        let ending = SetOnDrop(&stop);
        while rounds.load(Ordering::Relaxed) < 20_000 {
            thread::yield_now();
        }
        while changes < CHANGES {
            let next = written.next(changes);
            server.change(written, next, changes);
            written = next;
            changes += 1;
        }
        drop(ending);
        flood.join().unwrap()
    });
    let time = start.elapsed();
    thread::sleep(Duration::from_millis(200));
    fs::remove_file(&server.file).unwrap();
    let [_, edited, busy, friend, foe] = flood.sent;
    println!(
        "{changes} changes in {time:?}, packets sent: {:?}",
        flood.sent
    );

    let (reasons, seen) = server.reasons();
    assert_eq!(
        seen,
        flood.sent.iter().sum::<u64>(),
        "all were seen: {reasons:?}"
    );
    assert_eq!(reasons[&Reason::Allowed], friend, "{reasons:?}");
    assert!(reasons[&Reason::Deny] >= foe, "{reasons:?}");
    assert!(reasons[&Reason::Deny] <= foe + edited, "{reasons:?}");
    for never in [Reason::Unlimited, Reason::NewSource, Reason::Malformed] {
        assert_eq!(reasons[&never], 0, "{reasons:?}");
    }
    let status = hosts.status();
    let packets = |verdict: &str| number(&status[verdict]["packets"]);
    assert_eq!(packets("seen"), packets("passed") + packets("dropped"));
    assert_eq!(packets("seen"), seen);
    assert_eq!(number(&status["sources"]["added"]), 3, "{status}");

    assert_eq!(server.figures(EMPTY, "slow").0, SLOW_BURST, "one burst");
    assert_eq!(server.figures(EDITED, "slow").0, SLOW_BURST, "one burst");
    let (passed, dropped) = server.figures(BUSY, "quick");
    assert_eq!(passed + 2 * SLOW_BURST, reasons[&Reason::Admitted]);
    assert!(passed + dropped <= busy);
    let (least, most) = (QUICK_RATES[0], QUICK_RATES[1]);
    let bound = QUICK_BURST + most * time.as_secs_f64();
    assert!(passed as f64 <= bound, "{passed} > {bound}");
    // Each change rounds away at most a millionth of the burst.
    let rounding = 2.0 + f64::from(changes) * QUICK_BURST / 1e6;
    let bound = QUICK_BURST + least * (flood.last - flood.first).as_secs_f64() - rounding;
    assert!(passed as f64 >= bound, "{passed} < {bound}");
}
