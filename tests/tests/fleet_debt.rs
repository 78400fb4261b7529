//! A shared bucket waits until the packets that other hosts have admitted are refilled.

use limiter_common::arithmetic::bucket::{DEBT_MAX, TICKS_PER_SECOND, ticks};
use limiter_config::Settings;
use limiter_tests::{engine::Kernel, need_kernel, packet::Frame, settings};

const START: u64 = 1_000_000_000_000;
const SECOND: u64 = 1_000_000_000;
const BURST: u64 = 10;

/// A limit of one token per second: alone, with another limit, and with a list.
fn configurations(scope: &str) -> [Settings; 3] {
    let limit = format!(
        "[[limit]]\nname = \"one\"\nrate = \"1/s\"\nburst = {BURST}\nscope = \"{scope}\"\n"
    );
    let other = "[[limit]]\nname = \"other\"\nkey = \"interface\"\nrate = \"1M/s\"\n";
    let list = "[lists]\nallow = [\"203.0.113.1\"]\n";
    [limit.clone(), format!("{other}{limit}"), limit + list]
        .map(|text| settings(&format!("fleet = \"edge\"\n{text}")))
}

/// Time of the first packet that passes, in nanoseconds after `START`, if the bucket is `debt` seconds below empty.
fn first_passes(settings: &Settings, debt: u64) -> u64 {
    let mut kernel = Kernel::of(settings);
    let packet = Frame::from([192, 0, 2, 7].into()).bytes();
    assert!(kernel.passes(&packet, START), "the first packet");
    let slot = settings.limits.iter().position(|limit| limit.name == "one");
    let mut entries = kernel.store.entries().into_iter();
    let entry = entries.find(|placed| Some(placed.key.slot() as usize) == slot);
    let key = entry.unwrap().key;
    let word = ticks(START) + (BURST + debt) * TICKS_PER_SECOND;
    kernel.store.set_word(&key, word);
    let soonest = START + (debt + 1) * SECOND;
    for early in [(debt + 1) * SECOND, SECOND / 2, 1] {
        if kernel.passes(&packet, soonest - early) {
            return soonest - early - START;
        }
        // The debt was forgiven: the bucket is empty, without a debt.
        if kernel.tables.sets.source(&key).unwrap().tat != word {
            assert!(!kernel.passes(&packet, START + SECOND - 1));
            assert!(kernel.passes(&packet, START + SECOND));
            return SECOND;
        }
    }
    assert!(kernel.passes(&packet, soonest), "after {debt} s");
    soonest - START
}

#[test]
fn source_waits_for_the_debt_charged_by_other_hosts() {
    need_kernel!();
    for settings in configurations("fleet") {
        for debt in [1, 60, DEBT_MAX / TICKS_PER_SECOND] {
            let waited = first_passes(&settings, debt);
            assert_eq!(waited, (debt + 1) * SECOND, "{settings:?}");
        }
        // A TAT beyond the maximum debt counts as one from before a clock was set back.
        let waited = first_passes(&settings, DEBT_MAX / TICKS_PER_SECOND + 1);
        assert_eq!(waited, SECOND);
    }
    for settings in configurations("host") {
        assert_eq!(first_passes(&settings, 60), SECOND, "{settings:?}");
    }
}
