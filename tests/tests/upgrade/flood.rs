//! Taken over while a flood comes in, again and again, with one limit, several, and lists of thousands of prefixes.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use limiter_common::{
    key::{Words, ipv4_words},
    verdict::Reason,
};
use limiter_tests::{
    earlier, eventually, files::Folder, hosts::Hosts, need_earlier, number, raw::Raw,
};
use limiter_user::kernel::Attachment;

/// How often each case is run.
const ROUNDS: u32 = 4;

/// Sends all the time, over a limit that brings no token in the time of the test.
const EMPTY: &str = "192.0.2.2";
/// Spends a part of its bucket before it is taken over, and asks for the rest after.
const SAVER: &str = "192.0.2.3";
/// Sends all the time, held by `quick` where there is that limit.
const BUSY: &str = "198.51.100.7";
/// On `allow`, where there are lists.
const FRIEND: &str = "203.0.113.5";
/// On `deny`, where there are lists.
const FOE: &str = "203.0.113.66";
/// Those who send all the time, and some that are seen first when the flood begins.
const SENDERS: [&str; 4] = [EMPTY, BUSY, FRIEND, FOE];
const OTHERS: u8 = 16;

/// Tokens of a bucket that is not refilled, and of `quick`.
const BURST: u64 = 10;
const QUICK_BURST: f64 = 1_000.0;
const QUICK_RATE: f64 = 200.0;
/// What the saver spends before.
const SPENT: u64 = 4;
/// Prefixes on each list.
const PREFIXES: u32 = 2_000;

/// What is attached by the earlier version, and by which command it is taken over.
#[derive(Clone, Copy, Debug)]
struct Case {
    attach: &'static [&'static str],
    change: &'static [&'static str],
    /// Whether there is `quick`, and lists.
    several: bool,
    /// Whether the lists go: the change says so.
    denied_after: bool,
}

/// `FILE` is the file with several limits.
const CASES: [Case; 5] = [
    Case {
        attach: &["attach", "eth0", "--rate", "1/d", "--burst", "10"],
        change: &["set", "eth0", "--shadow", "off"],
        several: false,
        denied_after: false,
    },
    Case {
        attach: &["attach", "eth0", "--rate", "1/d", "--burst", "10"],
        change: &["set", "eth0", "--rate", "2/d"],
        several: false,
        denied_after: false,
    },
    // From the way past one limit to the one past several, which counts in other rows.
    Case {
        attach: &["attach", "eth0", "--rate", "1/d", "--burst", "10"],
        change: &["deny", "add", "eth0", "203.0.113.66"],
        several: false,
        denied_after: true,
    },
    Case {
        attach: &["attach", "--config", "FILE"],
        change: &["reload", "eth0"],
        several: true,
        denied_after: true,
    },
    Case {
        attach: &["attach", "--config", "FILE"],
        change: &["attach", "eth0", "--or-reload", "--config", "FILE"],
        several: true,
        denied_after: true,
    },
];

/// Two limits, one of them for a tier, a third one that drops nothing, and lists.
fn several() -> String {
    let prefixes = |network: u32| {
        let list = (0..PREFIXES).map(|i| format!("\"10.{network}.{}.{}\"", i / 256, i % 256));
        list.collect::<Vec<_>>().join(", ")
    };
    format!(
        "interfaces = [\"eth0\"]\n[lists]\nallow = [\"{FRIEND}\", {}]\ndeny = [\"{FOE}\", {}]\nquick = [\"198.51.100.0/24\"]\n\
         [[limit]]\nname = \"slow\"\nmatch = {{ unless = \"quick\" }}\nrate = \"1/d\"\nburst = {BURST}\n\
         [[limit]]\nname = \"quick\"\nmatch = {{ source = \"quick\" }}\nrate = \"{QUICK_RATE}/s\"\nburst = {QUICK_BURST}\n\
         [[limit]]\nname = \"network\"\nkey = \"interface\"\nrate = \"1k/s\"\nshadow = true\n",
        prefixes(1),
        prefixes(2)
    )
}

/// What is the same in every state: all figures at one moment.
#[derive(Debug)]
struct Figures {
    by_reason: BTreeMap<Reason, u64>,
    seen: u64,
    /// Packets that passed, of each source and slot.
    passed: BTreeMap<(Words, u32), u64>,
}

fn figures(hosts: &Hosts) -> Figures {
    let open = || async { Attachment::open("eth0").await };
    let attachment = hosts.server.namespace.block_on(open).unwrap().unwrap();
    let counters = attachment.tables.counters().unwrap();
    let of = |reason: Reason| (reason, counters.by_reason[reason as usize].packets);
    let by_reason: BTreeMap<_, _> = Reason::ALL.into_iter().map(of).collect();
    let passed = attachment.tables.sources();
    let passed = passed.map(|(key, source)| ((key.address, key.slot()), source.passed));
    Figures {
        seen: by_reason.values().sum(),
        passed: passed.collect(),
        by_reason,
    }
}

/// What was sent.
#[derive(Debug, Default)]
struct Sent {
    /// By source, in the order of [`SENDERS`].
    of: [u64; SENDERS.len()],
    /// By all others, each.
    others: u64,
    all: u64,
}

/// One packet of each source after the other, until told to stop.
fn flood(hosts: &Hosts, rounds: &AtomicU64, stop: &AtomicBool) -> Sent {
    let wire = Raw::open(&hosts.client);
    let frame = |source: &str| hosts.frame(source.parse().unwrap()).bytes();
    let frames = SENDERS.map(frame);
    let others: Vec<_> = (0..OTHERS)
        .map(|i| frame(&format!("192.0.2.{}", 100 + i)))
        .collect();
    let mut sent = Sent::default();
    while !stop.load(Ordering::Relaxed) {
        for (frame, sent) in frames.iter().zip(&mut sent.of) {
            wire.send(frame);
            *sent += 1;
        }
        others.iter().for_each(|frame| wire.send(frame));
        sent.others += 1;
        rounds.fetch_add(1, Ordering::Relaxed);
    }
    // What is left of the busy one's bucket.
    for _ in 0..2 * QUICK_BURST as u64 {
        wire.send(&frames[1]);
        sent.of[1] += 1;
    }
    sent.all = sent.of.iter().sum::<u64>() + u64::from(OTHERS) * sent.others;
    sent
}

/// Looks without pause: no figure goes back, whichever of the two programs counts. Returns how often it has looked.
fn look(hosts: &Hosts, stop: &AtomicBool) -> u64 {
    let (mut before, mut looks) = (figures(hosts), 0);
    while !stop.load(Ordering::Relaxed) {
        let now = figures(hosts);
        for (reason, count) in &before.by_reason {
            assert!(now.by_reason[reason] >= *count, "{before:?}, then {now:?}");
        }
        for (source, passed) in &before.passed {
            let now = now.passed.get(source);
            assert!(now >= Some(passed), "{source:?}: {passed}, then {now:?}");
        }
        (before, looks) = (now, looks + 1);
    }
    looks
}

/// Ends flood and look, also where something fails.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits for some more rounds of the flood.
fn some_rounds(rounds: &AtomicU64) {
    let start = rounds.load(Ordering::Relaxed);
    while rounds.load(Ordering::Relaxed) < start + 100 {
        thread::sleep(Duration::from_millis(1));
    }
}

/// What happened in one round.
struct Round {
    sent: Sent,
    /// From before the first packet to after the last.
    most: Duration,
    /// Within the flood.
    least: Duration,
    looks: u64,
}

fn round(hosts: &Hosts, case: Case, file: &str) -> Round {
    let arguments = |words: &[&'static str]| -> Vec<String> {
        let word = |word: &&str| if *word == "FILE" { file } else { word }.to_owned();
        words.iter().map(word).collect()
    };
    let run = |words: &[&'static str], limiter: &dyn Fn(&[&str]) -> _| {
        let owned = arguments(words);
        limiter(&owned.iter().map(String::as_str).collect::<Vec<_>>())
    };
    run(case.attach, &|words| earlier::limiter(hosts, words)).expect(0);
    let start = Instant::now();
    let saver = hosts.frame(SAVER.parse().unwrap()).bytes();
    let wire = Raw::open(&hosts.client);
    (0..SPENT).for_each(|_| wire.send(&saver));
    eventually("the saver is seen", || figures(hosts).seen == SPENT);
    let (rounds, stop, looking) = (
        AtomicU64::new(0),
        AtomicBool::new(false),
        AtomicBool::new(false),
    );
    thread::scope(|scope| {
        let flood = scope.spawn(|| flood(hosts, &rounds, &stop));
        let look = scope.spawn(|| look(hosts, &looking));
        let endings = (Ending(&stop), Ending(&looking));
        some_rounds(&rounds);
        let first = Instant::now();
        let said = run(case.change, &|words| hosts.limiter(words));
        said.expect(0);
        let told = format!("{}{}", said.stdout, said.stderr);
        assert!(told.contains("took over from limiter"), "{said:#?}");
        some_rounds(&rounds);
        if case.change.contains(&"2/d") {
            // To new terms what is spent is carried over in millionths of the burst, rounded up (0.41 s here): a packet
            // that needs the last of the tokens finds it when so much time has gone by.
            thread::sleep(Duration::from_secs(1));
        }
        (0..3 * BURST).for_each(|_| wire.send(&saver));
        let least = first.elapsed();
        drop(endings.0);
        let sent = flood.join().unwrap();
        let all = sent.all + SPENT + 3 * BURST;
        eventually("every packet is seen, and none twice", || {
            figures(hosts).seen == all
        });
        let most = start.elapsed();
        drop(endings.1);
        Round {
            sent,
            most,
            least,
            looks: look.join().unwrap(),
        }
    })
}

/// What each source was given, over both programs.
fn expect_bounds(case: Case, round: &Round, figures: &Figures) {
    let Figures {
        by_reason, passed, ..
    } = figures;
    // How many buckets it has, and what passed through them.
    let of = |source: &str| {
        let address: Ipv4Addr = source.parse().unwrap();
        let words = ipv4_words(u32::from_ne_bytes(address.octets()));
        let own = passed.iter().filter(|((found, _), _)| *found == words);
        own.fold((0, 0), |(buckets, sum), (_, passed)| {
            (buckets + 1, sum + passed)
        })
    };
    for source in [EMPTY, SAVER]
        .map(str::to_owned)
        .into_iter()
        .chain((0..OTHERS).map(|i| format!("192.0.2.{}", 100 + i)))
    {
        assert_eq!(
            of(&source),
            (1, BURST),
            "{source} has one bucket, and had it once: {figures:?}"
        );
    }
    let [_, busy, friend, foe] = round.sent.of;
    for never in [
        Reason::Newcomer,
        Reason::Malformed,
        Reason::Unlimited,
        Reason::NotIp,
    ] {
        assert_eq!(by_reason[&never], 0, "{figures:?}");
    }
    if case.several {
        assert_eq!(by_reason[&Reason::Allowed], friend, "{figures:?}");
        assert_eq!(by_reason[&Reason::Deny], foe, "{figures:?}");
        assert_eq!(of(FRIEND), (0, 0));
        assert_eq!(of(FOE), (0, 0));
        let passed = of(BUSY).1 as f64;
        assert!(of(BUSY).1 < busy, "it was over its limit");
        let bound = QUICK_BURST + QUICK_RATE * round.most.as_secs_f64();
        assert!(passed <= bound, "{passed} > {bound}");
        // However slow the flood, the bucket was not full for so long that more than a burst was missed.
        let bound = QUICK_RATE * round.least.as_secs_f64() - 2.0;
        assert!(passed >= bound, "{passed} < {bound}");
    } else {
        for source in [BUSY, FRIEND, FOE] {
            assert_eq!(of(source), (1, BURST), "{source}: {figures:?}");
        }
        let denied = by_reason[&Reason::Deny];
        assert!(if case.denied_after {
            (1..=foe).contains(&denied)
        } else {
            denied == 0
        });
        let sources = SENDERS.len() as u64 + 1 + u64::from(OTHERS);
        assert_eq!(by_reason[&Reason::Admitted], sources * BURST, "{figures:?}");
    }
}

fn expect_status(hosts: &Hosts, round: &Round, figures: &Figures) {
    let status = hosts.status();
    let packets = |verdict: &str| number(&status["packets"][verdict]);
    assert!(status["earlier_layout"].is_null(), "{status}");
    assert_eq!(packets("seen"), figures.seen, "{status}");
    assert_eq!(packets("seen"), packets("passed") + packets("dropped"));
    assert_eq!(
        packets("seen"),
        round.sent.all + SPENT + 3 * BURST,
        "{status}"
    );
}

#[test]
fn taken_over_under_flood() {
    need_earlier!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", several());
    for case in CASES {
        let (mut sent, mut looks) = (0, 0);
        for _ in 0..ROUNDS {
            let round = round(&hosts, case, &file);
            let figures = figures(&hosts);
            expect_bounds(case, &round, &figures);
            expect_status(&hosts, &round, &figures);
            if case.several {
                let lists = hosts.status()["lists"].clone();
                for list in [0, 1] {
                    assert_eq!(lists[list]["prefixes"], PREFIXES + 1, "{lists}");
                }
            }
            hosts.limiter(&["detach", "eth0"]).expect(0);
            (sent, looks) = (sent + round.sent.all, looks + round.looks);
        }
        println!("{case:?}: {sent} packets, looked at {looks} times");
    }
}
