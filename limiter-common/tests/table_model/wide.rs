//! Keys that take two entries, and those that take one.

use limiter_common::arithmetic::bucket::{FORGOTTEN, ticks};

use crate::{
    cpu::{Packet, Said, forget},
    memory::Machine,
    scene::{Scene, is_among},
    world::{COST, ONE_SET, START, TWO_SETS},
};

/// A bucket that is full, and has been for as long as a packet takes.
const FULL: u64 = ticks(START - COST);

/// Two CPUs make one bucket of a source whose key is wide, in place of two others, one of which has a packet.
#[test]
fn two_entries_become_one() {
    let [a, b, wide] = [
        ONE_SET.narrow(0, 0),
        ONE_SET.narrow(0, 1),
        ONE_SET.wide(0, 0),
    ];
    for former in [&a, &b] {
        let mut scene = Scene::of(ONE_SET);
        scene.put(0, 0, &a, FULL, 1);
        scene.put(0, 1, &b, FULL, 1);
        scene.fill();
        scene.cpu(|table| {
            vec![
                Packet {
                    tag: &wide,
                    now: START,
                }
                .pass(table),
            ]
        });
        scene.cpu(move |table| {
            vec![
                Packet {
                    tag: former,
                    now: START,
                }
                .pass(table),
            ]
        });
        scene.all_are_charged(&wide, &[0], 0, 0);
        scene.all_are_charged(former, &[1], 0, 0);
        let ends = scene.explore();
        assert!(is_among(&ends, &[&[Said::ReplacedTwo], &[Said::NoRoom]]));
        assert!(is_among(&ends, &[&[Said::NoRoom], &[Said::Charged]]));
    }
}

/// If the two sources were not at home, their sets no longer count them.
#[test]
fn two_that_were_elsewhere_make_room() {
    let [a, b] = [TWO_SETS.narrow(0, 0), TWO_SETS.narrow(0, 1)];
    let wide = TWO_SETS.wide(1, 0);
    let mut scene = Scene::of(TWO_SETS);
    scene.put(1, 0, &a, FULL, 1);
    scene.put(1, 1, &b, FULL, 1);
    scene.fill();
    scene.cpu(|table| {
        let packet = Packet {
            tag: &wide,
            now: START,
        };
        vec![packet.pass(table)]
    });
    scene.all_are_charged(&wide, &[0], 0, 0);
    assert_eq!(scene.explore(), [[[Said::ReplacedTwo]]]);
}

/// Two CPUs with a packet each make one bucket.
#[test]
fn two_cpus_make_one_bucket_of_a_wide_source() {
    let [a, b, wide] = [
        TWO_SETS.narrow(0, 0),
        TWO_SETS.narrow(1, 1),
        TWO_SETS.wide(0, 0),
    ];
    let mut scene = Scene::of(TWO_SETS);
    scene.put(1, 0, &a, FULL, 1);
    scene.put(1, 1, &b, FULL, 1);
    scene.fill();
    for _ in 0..2 {
        scene.cpu(|table| {
            vec![
                Packet {
                    tag: &wide,
                    now: START,
                }
                .pass(table),
            ]
        });
    }
    scene.all_are_charged(&wide, &[0, 1], 0, 0);
    assert!(is_among(
        &scene.explore(),
        &[&[Said::ReplacedTwo], &[Said::Charged]]
    ));
}

/// A narrow one takes the first entry of a wide one, and another one the second that becomes free.
#[test]
fn one_entry_becomes_two() {
    let [a, b, wide] = [
        ONE_SET.narrow(0, 0),
        ONE_SET.narrow(0, 1),
        ONE_SET.wide(0, 0),
    ];
    for other in [&b, &wide] {
        for word in [FULL, FORGOTTEN] {
            let mut scene = Scene::of(ONE_SET);
            scene.put(0, 0, &wide, word, 1);
            scene.fill();
            scene.cpu(|table| {
                vec![
                    Packet {
                        tag: &a,
                        now: START,
                    }
                    .pass(table),
                ]
            });
            scene.cpu(move |table| {
                vec![
                    Packet {
                        tag: other,
                        now: START,
                    }
                    .pass(table),
                ]
            });
            scene.all_are_charged(&a, &[0], 0, 0);
            scene.all_are_charged(other, &[1], 0, 0);
            let ends = scene.explore();
            assert!(ends.iter().any(|end| end[0][0].is_admitted()));
            assert!(ends.iter().any(|end| end[1][0].is_admitted()));
            let both = |end: &Vec<Vec<Said>>| end.iter().all(|said| said[0].is_admitted());
            assert_eq!(ends.iter().any(both), other == &b);
        }
    }
}

/// If the wide source was not at home, its set no longer counts it, though its second entry has a new key by then.
#[test]
fn a_wide_source_that_was_elsewhere_makes_room_for_two() {
    let [a, b] = [TWO_SETS.narrow(0, 0), TWO_SETS.narrow(1, 1)];
    let mut scene = Scene::of(TWO_SETS);
    scene.put(0, 0, &TWO_SETS.wide(1, 0), FULL, 1);
    scene.fill();
    for tag in [&a, &b] {
        scene.cpu(move |table| vec![Packet { tag, now: START }.charge_new_said(table)]);
    }
    scene.all_are_charged(&a, &[0], 0, 0);
    scene.all_are_charged(&b, &[1], 0, 0);
    let ends = scene.explore();
    assert!(is_among(&ends, &[&[Said::Replaced], &[Said::New]]));
}

/// A wide one takes the entries of another wide one, which has a packet, or of which there is another packet
/// of the new one. Their keys differ in the second half only.
#[test]
fn a_wide_source_takes_the_place_of_another() {
    let [a, b] = [ONE_SET.wide(0, 0), ONE_SET.wide(0, 1)];
    let mut scene = Scene::of(ONE_SET);
    scene.put(0, 0, &a, FULL, 1);
    scene.fill();
    scene.cpu(|table| {
        vec![
            Packet {
                tag: &a,
                now: START,
            }
            .pass(table),
        ]
    });
    scene.cpu(|table| {
        vec![
            Packet {
                tag: &b,
                now: START,
            }
            .pass(table),
        ]
    });
    scene.all_are_charged(&a, &[0], 0, 0);
    scene.all_are_charged(&b, &[1], 0, 0);
    let ends = scene.explore();
    assert!(is_among(&ends, &[&[Said::Charged], &[Said::NoRoom]]));
    assert!(is_among(&ends, &[&[Said::NoRoom], &[Said::Replaced]]));
}

/// If the second entry cannot be had, the first one stays with its source, whose set counts it.
#[test]
fn a_wide_source_that_gets_one_entry_gives_it_back() {
    let [a, wide] = [TWO_SETS.narrow(0, 0), TWO_SETS.wide(0, 0)];
    let mut scene = Scene::of(TWO_SETS);
    scene.put(1, 0, &a, FULL, 1);
    scene.fill();
    scene.cpu(|table| {
        vec![
            Packet {
                tag: &wide,
                now: START,
            }
            .pass(table),
        ]
    });
    scene.cpu(|table| {
        vec![
            Packet {
                tag: &a,
                now: START,
            }
            .pass(table),
        ]
    });
    scene.all_are_charged(&a, &[1], 0, 0);
    let ends = scene.explore();
    assert!(is_among(&ends, &[&[Said::NoRoom], &[Said::Charged]]));
    assert!(ends.iter().all(|end| end[0] == [Said::NoRoom]));
}

/// A narrow source that wants both entries of a pair, one after the other, and a wide one that wants them
/// together.
#[test]
fn narrow_and_wide_want_the_same_pair() {
    let [a, b, wide] = [
        ONE_SET.narrow(0, 0),
        ONE_SET.narrow(0, 1),
        ONE_SET.wide(0, 0),
    ];
    let mut scene = Scene::of(ONE_SET);
    scene.put(0, 0, &b, FORGOTTEN, 1);
    scene.put(0, 1, &b, FORGOTTEN, 1);
    scene.fill();
    scene.cpu(|table| {
        vec![
            Packet {
                tag: &wide,
                now: START,
            }
            .pass(table),
        ]
    });
    scene.cpu(|table| {
        vec![
            Packet {
                tag: &a,
                now: START,
            }
            .pass(table),
        ]
    });
    scene.all_are_charged(&wide, &[0], 0, 0);
    scene.all_are_charged(&a, &[1], 0, 0);
    let ends = scene.explore();
    assert!(is_among(&ends, &[&[Said::New], &[Said::NoRoom]]));
    assert!(is_among(&ends, &[&[Said::NoRoom], &[Said::New]]));
}

/// The entry of a wide one that the operator has forgotten goes to a narrow one, and back to a wide one,
/// while the first one has a packet again.
///
/// Not on arm64, for the reason that [`crate::leaving`] gives: it changes hands twice.
#[test]
fn a_forgotten_wide_entry_goes_to_a_narrow_one_and_back() {
    let a = TWO_SETS.narrow(0, 0);
    let [forgotten, wide] = [TWO_SETS.wide(1, 0), TWO_SETS.wide(0, 1)];
    let mut scene = Scene::of(TWO_SETS);
    scene.put(0, 0, &forgotten, FORGOTTEN, 3);
    scene.fill();
    scene.cpu(|table| {
        let later = START + 2 * COST;
        vec![
            Packet {
                tag: &a,
                now: START,
            }
            .pass(table),
            Packet {
                tag: &wide,
                now: later,
            }
            .pass(table),
        ]
    });
    scene.cpu(|table| {
        vec![
            Packet {
                tag: &forgotten,
                now: START,
            }
            .pass(table),
        ]
    });
    let ends = scene.on(Machine::X86);
    assert!(is_among(
        &ends,
        &[&[Said::New, Said::Replaced], &[Said::NoRoom]]
    ));
    assert!(is_among(
        &ends,
        &[&[Said::NoRoom, Said::Replaced], &[Said::New]]
    ));
}

/// The operator forgets a wide one while a narrow one takes its entry, and it has a packet.
///
/// Not in the same nanosecond: the new source would have the very word that the forgotten one had, and whoever
/// charged that would take it for its own charge to another source, and take it back.
#[test]
fn a_wide_source_is_forgotten_while_its_entry_is_taken() {
    let [a, wide] = [ONE_SET.narrow(0, 0), ONE_SET.wide(0, 0)];
    let mut scene = Scene::of(ONE_SET);
    scene.put(0, 0, &wide, FULL, 1);
    scene.cpu(|table| vec![forget(table, &wide)]);
    for (tag, now) in [(&a, START), (&wide, START - 1)] {
        scene.cpu(move |table| vec![Packet { tag, now }.pass(table)]);
    }
    scene.all_are_charged(&a, &[1], 0, 0);
    let ends = scene.on(Machine::X86);
    assert!(is_among(
        &ends,
        &[&[Said::Forgotten], &[Said::New], &[Said::NoRoom]]
    ));
    assert!(is_among(
        &ends,
        &[&[Said::Nothing], &[Said::Replaced], &[Said::NoRoom]]
    ));
}
