//! A sweep clears only entries that may be taken, and the count of held entries stays exact.

use limiter_common::{arithmetic::bucket::ticks, table::WAYS};

use crate::{
    cpu::{
        Outcome::{Charged, Cleared, New, NoRoom, Replaced},
        Packet, clear,
    },
    scene::Scene,
    world::{COST, FULL_BUCKET, GONE, ONE_SET, START, TWO_SETS},
};

/// The TAT of a bucket that is not full.
const SPENT: u64 = ticks(START + COST);

/// The sweep clears the entry while its source sends. The charge is in a bucket of the source, or the packet is
/// refused.
#[test]
fn cleared_source_gets_a_new_entry() {
    for (world, set) in [(ONE_SET, 0), (TWO_SETS, 0), (TWO_SETS, 1)] {
        let world = world.counted();
        let a = world.narrow(0, 0);
        let mut scene = Scene::with(world, [(set, 1, a, FULL_BUCKET)]);
        scene.sends([a]);
        scene.cpu(move |table| vec![clear(table, set, START)]);
        scene.all_are_charged(a, &[0], 0, 0);
        let ends = scene.explore();
        ends.contain(&[&[Charged], &[Cleared(0)]]);
        ends.contain(&[&[New], &[Cleared(1)]]);
    }
}

/// A sweep and a new source compete for one entry.
#[test]
fn cleared_entry_is_taken_by_one_source() {
    for is_wide in [false, true] {
        let world = ONE_SET.counted();
        let [a, b] = [world.narrow(0, 0), world.narrow(0, 1)];
        let c = world.wide(0, 0);
        let former = if is_wide { c } else { a };
        let mut scene = Scene::of(world);
        scene.put(0, 0, former, FULL_BUCKET, 1);
        scene.sends([b]);
        scene.cpu(|table| vec![clear(table, 0, START)]);
        scene.all_are_charged(b, &[0], 0, 0);
        let ends = scene.explore();
        ends.contain(&[&[New], &[Cleared(1)]]);
        ends.contain(&[&[Replaced], &[Cleared(0)]]);
    }
}

#[test]
fn wide_source_needs_both_entries_of_a_cleared_pair() {
    let world = ONE_SET.counted();
    let [a, b] = [world.wide(0, 0), world.wide(0, 1)];
    let c = world.narrow(0, 0);
    let mut scene = Scene::of(world);
    scene.put(0, 0, a, FULL_BUCKET, 1);
    scene.cpu(move |table| {
        let cleared = clear(table, 0, START);
        let pass = |tag| Packet { tag, now: START }.pass(table);
        vec![cleared, pass(c), pass(b)]
    });
    let both = [Cleared(1), New];
    // The narrow source has one of the two entries, so there is no room for the wide source.
    let ends = scene.explore();
    assert!(ends.iter().all(|end| end[0][..2] == both), "{ends:?}");
    assert!(ends.iter().all(|end| end[0][2] == NoRoom), "{ends:?}");
}

#[test]
fn sweep_clears_entries_of_removed_limits_and_keeps_charged_ones() {
    let world = ONE_SET.counted();
    let a = world.narrow(0, 0);
    let gone = world.narrow_of(GONE, 0, 1);
    let mut scene = Scene::of(world);
    scene.put(0, 0, a, SPENT, 1);
    scene.put(0, 1, gone, SPENT, 1);
    assert_eq!(WAYS, 2);
    scene.cpu(|table| vec![clear(table, 0, START)]);
    scene.explore().are(&[&[Cleared(1)]]);
}
