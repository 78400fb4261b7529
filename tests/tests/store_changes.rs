//! No source gets too much or is locked out, even if quotas change more often than entries can count.

use std::net::{IpAddr, Ipv4Addr};

use limiter_common::{policy::verdict::Reason, table::entry::epoch_in};
use limiter_config::Settings;
use limiter_tests::{
    engine::FRAME_MAX, generations::Generations, need_kernel, packet::Frame, settings,
};
use limiter_user::observe::{reader::Reader, source::CheckedLimit};

const START: u64 = 1_000_000_000_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

/// Rates in packets per second, in turn. Neighbours differ.
const RATES: [u64; 4] = [10, 20, 5, 40];
const BURST: u64 = 10;

fn at_rate(rate: u64) -> Settings {
    settings(&format!(
        "max_sources = 4096\nnew_sources = \"none\"\n[[limit]]\nname = \"all\"\nrate = \"{rate}/s\"\nburst = {BURST}\n"
    ))
}

fn idle(number: u32) -> IpAddr {
    Ipv4Addr::from(0x0a00_0000 + number).into()
}

const BUSY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

/// Maximum content of a bucket, in billionths of a token: refilled at each rate while it was in force.
struct Most {
    left: u64,
    then: u64,
}

impl Most {
    fn at(&mut self, now: u64, rate: u64) -> u64 {
        self.left = (self.left + (now - self.then) * rate).min(BURST * SECOND);
        self.then = now;
        self.left
    }
}

/// Sends until a packet is refused. Returns the number of packets that passed.
fn passing(generations: &mut Generations, source: IpAddr, now: u64) -> u64 {
    let packet = Frame::from(source).bytes();
    let mut passed = 0;
    while generations.kernel.offer(&packet, now) == Reason::Admitted {
        passed += 1;
        assert!(passed <= BURST, "{source}: more than a burst at once");
    }
    passed
}

/// The number of changes in an entry wraps twice. One source sends at times, and gets exactly its tokens. The others
/// empty their buckets at the beginning and are silent, each for another number of changes. Their buckets then hold at
/// most the whole refill, and at least the refill since the last eight changes, which are remembered.
#[test]
fn buckets_survive_six_hundred_rate_changes() {
    need_kernel!();
    const CHANGES: u32 = 600;
    /// Number of remembered changes.
    const KNOWN: usize = 8;
    /// Maximum loss by rounding at each change: a millionth of a burst.
    const ROUNDED: u64 = BURST * SECOND / 1_000_000;
    let rate_after = |changes: u32| RATES[changes as usize % RATES.len()];
    let mut generations = Generations::new(&at_rate(rate_after(0)), FRAME_MAX);
    let mut now = START;
    for number in 0..=CHANGES {
        assert_eq!(passing(&mut generations, idle(number), now), BURST);
    }
    let (mut busy, mut of_all) = (
        Most {
            left: BURST * SECOND,
            then: now,
        },
        Most { left: 0, then: now },
    );
    // The times of the changes.
    let mut times = Vec::new();
    let mut passed_in_all = 0;
    for change in 1..=CHANGES {
        let rate = rate_after(change - 1);
        now += 10 * MILLISECOND + u64::from(change % 5) * MILLISECOND;
        busy.at(now, rate);
        of_all.at(now, rate);
        // The first source sends after every fifth change, and around the changes at which the number wraps.
        let seen = change.is_multiple_of(5) || [127, 0, 1].contains(&(change % 128));
        let settings = at_rate(rate_after(change));
        times.push(now);
        if !seen {
            generations.change_unseen(&settings, now);
            continue;
        }
        generations.change(&settings, now);
        let rate = rate_after(change);
        now += 3 * MILLISECOND;

        // One of the silent sources sends now.
        let since = times.len().saturating_sub(KNOWN);
        let mut remembered = Most {
            left: 0,
            then: times[since],
        };
        for (index, time) in times.iter().enumerate().skip(since + 1) {
            remembered.at(*time, rate_after(index as u32));
        }
        let least = if change as usize <= KNOWN {
            // If all changes are remembered, the refill before the first one counts too.
            of_all.at(now, rate)
        } else {
            remembered.at(now, rate)
        };
        let least = least.saturating_sub(KNOWN as u64 * ROUNDED) / SECOND;
        let most = of_all.at(now, rate) / SECOND;
        let passed = passing(&mut generations, idle(change), now);
        assert!(
            (least..=most).contains(&passed),
            "silent for {change} changes: {passed} passed, of {least} to {most}"
        );
        let (limit, slot) = generations.limit("all").clone();
        let word =
            generations
                .kernel
                .tables
                .sets
                .source(&limit.key.of(slot.number, idle(change), 0));
        assert_eq!(
            epoch_in(word.unwrap().over, slot.epoch),
            change,
            "the bucket has the present epoch"
        );

        if change.is_multiple_of(5) {
            let most = busy.at(now, rate);
            let passed = passing(&mut generations, BUSY, now);
            let rounded = 5 * ROUNDED;
            assert!(
                passed * SECOND <= most
                    && most < (passed + 1) * SECOND + u64::from(change) * rounded,
                "after {change} changes {passed} passed, of {most} billionths"
            );
            busy.left -= passed * SECOND;
            passed_in_all += passed;
        }
    }
    assert!(passed_in_all > 50, "{passed_in_all}");
    // No source is locked out: the bucket is full again after burst / rate.
    now += BURST * SECOND / rate_after(CHANGES) + SECOND;
    for number in 0..=CHANGES {
        assert_eq!(
            passing(&mut generations, idle(number), now),
            BURST,
            "{number}"
        );
    }
    generations.kernel.store.expect_sound();
}

fn check(generations: &Generations, name: &str, source: IpAddr, now: u64) -> CheckedLimit {
    let (limit, slot) = generations.limit(name);
    let shadow = generations.record.settings.shadow;
    let reader = Reader::new(limit.clone(), slot.clone(), shadow, FRAME_MAX, now).unwrap();
    let key = reader.limit.key.of(slot.number, source, 0);
    let found = generations.kernel.tables.sets.source(&key);
    reader.check(String::new(), found.as_ref())
}

/// The count of packets over the limit restarts when the limit begins to drop them, or begins to pass them. It
/// continues at all other changes.
///
/// `steps`: settings, packets, and then the counts of the source: passed, dropped, passed in shadow.
fn expect_counts(name: &str, steps: &[(Settings, u32, [u64; 3])]) {
    let mut generations = Generations::new(&steps[0].0, FRAME_MAX);
    let packet = Frame::from(BUSY).bytes();
    let mut now = START;
    for (index, (settings, packets, counts)) in steps.iter().enumerate() {
        now += MILLISECOND;
        generations.change(settings, now);
        for _ in 0..*packets {
            generations.kernel.offer(&packet, now);
        }
        let checked = check(&generations, name, BUSY, now);
        let found = [
            checked.passed_packets,
            checked.dropped_packets,
            checked.would_drop_packets,
        ];
        assert_eq!(found, *counts, "{name}, step {index}: {packets} packets");
    }
}

#[test]
fn counters_of_a_source_restart_when_shadow_changes() {
    need_kernel!();
    // Columns: interface in shadow, limit in shadow, rate.
    let changed = |all: bool, watched: bool, rate: u32| {
        settings(&format!(
            "shadow = {all}\n[[limit]]\nname = \"watched\"\nmatch = {{ protocol = \"udp\" }}\nrate = \"{rate}/h\"\nburst = 3\nshadow = {watched}\n\
             [[limit]]\nname = \"other\"\nmatch = {{ protocol = \"tcp\" }}\nrate = \"1/h\"\n"
        ))
    };
    let steps = [
        (changed(false, false, 1), 5, [3, 2, 0]),
        (changed(false, true, 1), 4, [7, 0, 4]),
        (changed(false, true, 2), 1, [8, 0, 5]),
        (changed(true, true, 2), 1, [9, 0, 6]),
        (changed(true, false, 2), 1, [10, 0, 7]),
        (changed(false, false, 2), 0, [10, 0, 0]),
        (changed(false, false, 2), 2, [10, 2, 0]),
        (changed(false, false, 1), 1, [10, 3, 0]),
        (changed(true, false, 1), 1, [11, 0, 1]),
    ];
    expect_counts("watched", &steps);
    // The fast path has only the shadow mode of the interface.
    let changed = |shadow: bool| {
        settings(&format!(
            "shadow = {shadow}\n[[limit]]\nname = \"all\"\nrate = \"1/d\"\nburst = 3\n"
        ))
    };
    let steps = [
        (changed(false), 5, [3, 2, 0]),
        (changed(true), 4, [7, 0, 4]),
        (changed(false), 1, [7, 1, 0]),
        (changed(false), 1, [7, 2, 0]),
        (changed(true), 0, [7, 0, 0]),
    ];
    expect_counts("all", &steps);
}
