//! New sources.

use limiter_common::{
    arithmetic::bucket::ticks,
    table::{Added, SharedTable},
};

use crate::{
    cpu::{Packet, Said},
    scene::{Scene, is_among},
    world::{COST, GONE, ONE_SET, START, TWO_SETS},
};

/// A bucket that is full, and has been for as long as a packet takes.
const FULL: u64 = ticks(START - COST);

/// Two CPUs have packets of the same new source: one bucket, and no more than its burst passes.
#[test]
fn two_cpus_make_one_bucket_of_a_source() {
    let tag = ONE_SET.narrow(0, 0);
    let packet = Packet {
        tag: &tag,
        now: START,
    };
    let mut scene = Scene::of(ONE_SET);
    scene.cpu(|table| vec![packet.pass(table)]);
    scene.cpu(|table| vec![packet.pass(table), packet.pass(table)]);
    scene.all_are_charged(&tag, &[0, 1], 0, 0);
    let ends = scene.explore();
    assert!(is_among(
        &ends,
        &[&[Said::New], &[Said::Charged, Said::Refused]]
    ));
    assert!(is_among(
        &ends,
        &[&[Said::Refused], &[Said::New, Said::Charged]]
    ));
    let contended = [Said::Contended, Said::Charged];
    assert!(
        is_among(&ends, &[&[Said::New], &contended]),
        "while it is brought in"
    );
}

/// So do three.
#[test]
fn three_cpus_make_one_bucket_of_a_source() {
    let tag = ONE_SET.narrow(0, 0);
    let mut scene = Scene::of(ONE_SET);
    for _ in 0..3 {
        scene.cpu(|table| {
            vec![
                Packet {
                    tag: &tag,
                    now: START,
                }
                .charge_new_said(table),
            ]
        });
    }
    scene.all_are_charged(&tag, &[0, 1, 2], 0, 0);
    assert!(is_among(
        &scene.explore(),
        &[&[Said::Contended], &[Said::New], &[Said::Contended]]
    ));
}

/// If the source's own set is full, the source is in the other one, once, and its own set counts it.
#[test]
fn a_source_that_finds_no_room_at_home_is_elsewhere_once() {
    let tag = TWO_SETS.narrow(0, 0);
    let packet = Packet {
        tag: &tag,
        now: START,
    };
    let mut scene = Scene::of(TWO_SETS);
    let gone = TWO_SETS.narrow_of(GONE, 1, 0);
    scene.put(1, 1, &gone, ticks(2 * START), 9);
    scene.fill();
    for _ in 0..2 {
        scene.cpu(|table| vec![packet.pass(table)]);
    }
    scene.all_are_charged(&tag, &[0, 1], 0, 0);
    let ends = scene.explore();
    assert!(is_among(&ends, &[&[Said::Replaced], &[Said::Charged]]));
    assert!(is_among(&ends, &[&[Said::Contended], &[Said::Replaced]]));
}

/// Two new sources want the last entry that may be taken: one gets it, and keeps it. That its limit has gone
/// is what the entry said of the source before.
#[test]
fn the_last_entry_goes_to_one_of_two() {
    for homes in [[0, 0], [0, 1], [1, 1]] {
        let [a, b] = [TWO_SETS.narrow(homes[0], 0), TWO_SETS.narrow(homes[1], 1)];
        let mut scene = Scene::of(TWO_SETS);
        let gone = TWO_SETS.narrow_of(GONE, 0, 0);
        scene.put(1, 1, &gone, ticks(2 * START), 9);
        scene.fill();
        for tag in [&a, &b] {
            scene.cpu(move |table| vec![Packet { tag, now: START }.pass(table)]);
        }
        scene.all_are_charged(&a, &[0], 0, 0);
        scene.all_are_charged(&b, &[1], 0, 0);
        let ends = scene.explore();
        assert!(is_among(&ends, &[&[Said::Replaced], &[Said::NoRoom]]));
        assert!(is_among(&ends, &[&[Said::NoRoom], &[Said::Replaced]]));
        let both = |end: &Vec<Vec<Said>>| end.iter().flatten().all(|said| said.is_admitted());
        assert!(!ends.iter().any(both));
    }
}

/// With two that may be taken both get in.
#[test]
fn two_entries_are_enough_for_two() {
    let [a, b] = [TWO_SETS.narrow(0, 0), TWO_SETS.narrow(1, 1)];
    let mut scene = Scene::of(TWO_SETS);
    let [c, d] = [TWO_SETS.narrow(0, 2), TWO_SETS.narrow(1, 3)];
    scene.put(0, 0, &c, FULL, 1);
    scene.put(0, 1, &d, FULL, 1);
    scene.fill();
    for tag in [&a, &b] {
        scene.cpu(move |table| vec![Packet { tag, now: START }.pass(table)]);
    }
    scene.all_are_charged(&a, &[0], 0, 0);
    scene.all_are_charged(&b, &[1], 0, 0);
    let ends = scene.explore();
    assert!(is_among(&ends, &[&[Said::Replaced], &[Said::Replaced]]));
}

/// Nothing happens under a lock that cannot be had.
#[test]
fn without_the_lock_nothing_changes() {
    let tag = ONE_SET.narrow(0, 0);
    let mut scene = Scene::of(ONE_SET);
    scene.cpu(|table| {
        assert!(table.lock(0));
        let added = Packet {
            tag: &tag,
            now: START,
        }
        .charge_new(table);
        table.unlock(0);
        assert_eq!(added, Added::Raced);
        vec![Said::Contended]
    });
    let before = scene.words.clone();
    scene.rule(move |words, _| {
        if words == before {
            Ok(())
        } else {
            Err("changed".into())
        }
    });
    assert_eq!(scene.explore().len(), 1);
}
