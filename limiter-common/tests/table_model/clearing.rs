//! Entries that a sweep clears, and what limits are counted for.

use limiter_common::{arithmetic::bucket::ticks, table::WAYS};

use crate::{
    cpu::{Packet, Said, clear},
    scene::{Scene, is_among},
    world::{COST, GONE, ONE_SET, START, TWO_SETS},
};

/// A bucket that is full, and has been for as long as a packet takes.
const FULL: u64 = ticks(START - COST);
/// One that is not.
const SPENT: u64 = ticks(START + COST);

/// An entry is cleared while its source sends: the charge is in a bucket of the source, or the packet is lost.
#[test]
fn cleared_source_comes_in_again() {
    for (world, set) in [(ONE_SET, 0), (TWO_SETS, 0), (TWO_SETS, 1)] {
        let world = world.counted();
        let a = world.narrow(0, 0);
        let mut scene = Scene::of(world);
        scene.put(set, 1, &a, FULL, 1);
        scene.fill();
        scene.cpu(|table| {
            let packet = Packet {
                tag: &a,
                now: START,
            };
            vec![packet.pass(table)]
        });
        scene.cpu(move |table| vec![clear(table, set, START)]);
        scene.all_are_charged(&a, &[0], 0, 0);
        let ends = scene.explore();
        assert!(is_among(&ends, &[&[Said::Charged], &[Said::Cleared(0)]]));
        assert!(is_among(&ends, &[&[Said::New], &[Said::Cleared(1)]]));
    }
}

/// A sweep and a new source want the same entry.
#[test]
fn cleared_entry_goes_to_one_source() {
    for is_wide in [false, true] {
        let world = ONE_SET.counted();
        let [a, b] = [world.narrow(0, 0), world.narrow(0, 1)];
        let c = world.wide(0, 0);
        let former = if is_wide { &c } else { &a };
        let mut scene = Scene::of(world);
        scene.put(0, 0, former, FULL, 1);
        scene.cpu(|table| {
            let packet = Packet {
                tag: &b,
                now: START,
            };
            vec![packet.pass(table)]
        });
        scene.cpu(|table| vec![clear(table, 0, START)]);
        scene.all_are_charged(&b, &[0], 0, 0);
        let ends = scene.explore();
        assert!(is_among(&ends, &[&[Said::New], &[Said::Cleared(1)]]));
        assert!(is_among(&ends, &[&[Said::Replaced], &[Said::Cleared(0)]]));
    }
}

/// A wide source takes two entries that are free again, and one that was cleared is half of nothing.
#[test]
fn wide_source_takes_what_was_cleared() {
    let world = ONE_SET.counted();
    let [a, b] = [world.wide(0, 0), world.wide(0, 1)];
    let c = world.narrow(0, 0);
    let mut scene = Scene::of(world);
    scene.put(0, 0, &a, FULL, 1);
    scene.cpu(|table| {
        let said = clear(table, 0, START);
        let pass = |tag| Packet { tag, now: START }.pass(table);
        vec![said, pass(&c), pass(&b)]
    });
    let said = [Said::Cleared(1), Said::New, Said::New];
    // The narrow source has one of the entries: the wide one finds no room beside it.
    let ends = scene.explore();
    assert!(ends.iter().all(|end| end[0][..2] == said[..2]), "{ends:?}");
    assert!(ends.iter().all(|end| end[0][2] == Said::NoRoom), "{ends:?}");
}

/// A sweep leaves buckets that are not full, and takes those of limits that have gone.
#[test]
fn sweep_clears_what_may_be_taken() {
    let world = ONE_SET.counted();
    let a = world.narrow(0, 0);
    let gone = world.narrow_of(GONE, 0, 1);
    let mut scene = Scene::of(world);
    scene.put(0, 0, &a, SPENT, 1);
    scene.put(0, 1, &gone, SPENT, 1);
    assert_eq!(WAYS, 2);
    scene.cpu(|table| vec![clear(table, 0, START)]);
    assert_eq!(scene.explore(), [[[Said::Cleared(1)]]]);
}
