//! The counts that sets keep of their sources in other sets.

use limiter_common::arithmetic::bucket::{FORGOTTEN, ticks};

use crate::{
    cpu::{Packet, Said},
    scene::{Scene, is_among},
    world::{COST, COUNT_MAX, FOUR_SETS, START, TWO_SETS},
};

/// A bucket that is full, and has been for as long as a packet takes.
const FULL: u64 = ticks(START - COST);

/// A set that has counted all it can has no more sources elsewhere: the entry that was taken for one is
/// given back, and its source has a packet meanwhile.
#[test]
fn a_set_that_cannot_count_one_more_refuses_it() {
    let [b, a] = [TWO_SETS.narrow(0, 0), TWO_SETS.narrow(1, 1)];
    for new in [b, TWO_SETS.wide(0, 0)] {
        for word in [FULL, FORGOTTEN] {
            let mut scene = Scene::of(TWO_SETS);
            scene.put(0, 0, &TWO_SETS.wide(0, 1), ticks(2 * START), 2);
            scene.put(1, 0, &a, word, 1);
            if !new.is_wide() {
                scene.fill();
            }
            scene.hide(0, COUNT_MAX);
            let before = scene.words.clone();
            scene.cpu(|table| {
                vec![
                    Packet {
                        tag: &new,
                        now: START,
                    }
                    .pass(table),
                ]
            });
            if word == FULL {
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
            } else {
                scene.rule(move |words, _| {
                    if words == before {
                        Ok(())
                    } else {
                        Err("changed".into())
                    }
                });
            }
            let ends = scene.explore();
            assert!(ends.iter().all(|end| end[0] == [Said::NoRoom]));
            if word == FULL {
                assert!(ends.iter().any(|end| end[1] == [Said::Charged]));
            }
        }
    }
}

/// With room to count one more, one of two gets in, and the other one after an entry has come back from the
/// first.
#[test]
fn the_last_that_can_be_counted_is_one_of_two() {
    let [a, b, c] = [0, 1, 2].map(|number| TWO_SETS.narrow(0, number));
    let mut scene = Scene::of(TWO_SETS);
    scene.put(0, 0, &TWO_SETS.wide(0, 1), ticks(2 * START), 2);
    scene.put(1, 0, &TWO_SETS.narrow(1, 3), FULL, 1);
    scene.put(1, 1, &TWO_SETS.narrow(1, 4), FORGOTTEN, 1);
    scene.hide(0, COUNT_MAX - 1);
    for tag in [&a, &b] {
        scene.cpu(move |table| vec![Packet { tag, now: START }.pass(table)]);
    }
    scene.all_are_charged(&a, &[0], 0, 0);
    scene.all_are_charged(&b, &[1], 0, 0);
    scene.rule(move |words, _| {
        if TWO_SETS.buckets(words, &c).is_empty() {
            Ok(())
        } else {
            Err("nobody sent".into())
        }
    });
    let ends = scene.explore();
    assert!(is_among(&ends, &[&[Said::Replaced], &[Said::NoRoom]]));
    assert!(is_among(&ends, &[&[Said::NoRoom], &[Said::Replaced]]));
    let both = |end: &Vec<Vec<Said>>| end.iter().flatten().all(|said| said.is_admitted());
    assert!(!ends.iter().any(both));
}

/// If the second half cannot be had, the count is taken back: the next source is counted in its place.
#[test]
fn a_wide_source_that_gets_one_entry_takes_its_count_back() {
    let [a, b] = [TWO_SETS.narrow(1, 0), TWO_SETS.narrow(0, 1)];
    let wide = TWO_SETS.wide(0, 0);
    let mut scene = Scene::of(TWO_SETS);
    scene.put(1, 0, &a, FULL, 1);
    scene.fill();
    scene.hide(0, COUNT_MAX - 1);
    scene.cpu(|table| {
        [&wide, &b]
            .map(|tag| Packet { tag, now: START }.pass(table))
            .to_vec()
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
    scene.all_are_charged(&b, &[0], 0, 0);
    let ends = scene.explore();
    assert!(is_among(
        &ends,
        &[&[Said::NoRoom, Said::Replaced], &[Said::NoRoom]]
    ));
    assert!(is_among(
        &ends,
        &[&[Said::NoRoom, Said::NoRoom], &[Said::Charged]]
    ));
}

/// A source of the set that comes in near by leaves one that is far away within reach.
#[test]
fn who_is_far_is_found_while_another_one_comes_near() {
    let [far, near] = [0, 1].map(|number| FOUR_SETS.narrow(0, number));
    let mut scene = Scene::of(FOUR_SETS);
    scene.put(2, 0, &far, ticks(START + COST), 1);
    scene.put(1, 0, &FOUR_SETS.narrow(1, 2), FORGOTTEN, 1);
    scene.fill();
    for tag in [&far, &near] {
        scene.cpu(move |table| vec![Packet { tag, now: START }.pass(table)]);
    }
    scene.all_are_charged(&far, &[0], 1, 0);
    scene.all_are_charged(&near, &[1], 0, 0);
    assert_eq!(scene.explore(), [[[Said::Charged], [Said::New]]]);
}

/// And one that comes in far away, while there is one near by, is found there by two CPUs.
#[test]
fn who_comes_in_far_away_is_found() {
    let [near, far] = [0, 1].map(|number| FOUR_SETS.narrow(0, number));
    let mut scene = Scene::of(FOUR_SETS);
    scene.put(1, 0, &near, ticks(2 * START), 2);
    scene.put(3, 1, &FOUR_SETS.narrow(3, 2), FORGOTTEN, 1);
    scene.fill();
    scene.cpu(|table| {
        let packet = Packet {
            tag: &far,
            now: START,
        };
        vec![packet.pass(table), packet.pass(table)]
    });
    scene.cpu(|table| {
        vec![
            Packet {
                tag: &far,
                now: START,
            }
            .pass(table),
        ]
    });
    scene.all_are_charged(&far, &[0, 1], 0, 0);
    let ends = scene.explore();
    assert!(is_among(
        &ends,
        &[&[Said::New, Said::Charged], &[Said::Refused]]
    ));
    assert!(is_among(
        &ends,
        &[&[Said::Charged, Said::Refused], &[Said::New]]
    ));
}

/// The only one that is far away leaves: how far it was may be remembered or not, while others of its set
/// come in near by and far away.
#[test]
fn how_far_they_are_is_never_less_than_it_is() {
    let [gone, near, far] = [0, 1, 2].map(|number| FOUR_SETS.narrow(0, number));
    let other = FOUR_SETS.narrow(2, 3);
    let mut scene = Scene::of(FOUR_SETS);
    scene.put(2, 0, &gone, FULL, 1);
    scene.put(1, 1, &FOUR_SETS.narrow(1, 4), FORGOTTEN, 1);
    scene.put(3, 0, &FOUR_SETS.narrow(3, 5), FORGOTTEN, 1);
    scene.fill();
    scene.cpu(|table| {
        let packet = Packet {
            tag: &other,
            now: START,
        };
        vec![packet.charge_new_said(table)]
    });
    scene.cpu(|table| {
        [&near, &far]
            .map(|tag| Packet { tag, now: START }.pass(table))
            .to_vec()
    });
    scene.all_are_charged(&other, &[0], 0, 0);
    let ends = scene.explore();
    assert!(is_among(
        &ends,
        &[&[Said::Replaced], &[Said::New, Said::New]]
    ));
}

/// The only source that is far away leaves and has a packet at once, while others come and go.
#[test]
fn who_was_far_comes_back_while_others_come_and_go() {
    let [gone, near] = [0, 1].map(|number| FOUR_SETS.narrow(0, number));
    let other = FOUR_SETS.narrow(2, 2);
    let mut scene = Scene::of(FOUR_SETS);
    scene.put(2, 0, &gone, FULL, 1);
    scene.put(1, 1, &FOUR_SETS.narrow(1, 3), FORGOTTEN, 1);
    scene.put(3, 0, &FOUR_SETS.narrow(3, 4), FORGOTTEN, 1);
    scene.fill();
    scene.cpu(|table| {
        let packet = Packet {
            tag: &gone,
            now: START,
        };
        vec![packet.pass(table)]
    });
    scene.cpu(|table| {
        [&other, &near]
            .map(|tag| Packet { tag, now: START }.charge_new_said(table))
            .to_vec()
    });
    scene.all_are_charged(&gone, &[0], 0, 0);
    let ends = scene.explore();
    assert!(is_among(
        &ends,
        &[&[Said::New], &[Said::Replaced, Said::New]]
    ));
}

/// Two sets that count in the same word: neither change is lost.
#[test]
fn two_sets_count_in_one_word() {
    let [a, b] = [FOUR_SETS.narrow(0, 0), FOUR_SETS.narrow(2, 0)];
    let mut scene = Scene::of(FOUR_SETS);
    scene.put(1, 0, &FOUR_SETS.narrow(0, 1), FULL, 1);
    scene.put(3, 0, &FOUR_SETS.narrow(2, 1), FULL, 1);
    scene.fill();
    for tag in [&a, &b] {
        scene.cpu(move |table| vec![Packet { tag, now: START }.pass(table)]);
    }
    scene.all_are_charged(&a, &[0], 0, 0);
    scene.all_are_charged(&b, &[1], 0, 0);
    let ends = scene.explore();
    assert!(is_among(&ends, &[&[Said::Replaced], &[Said::Replaced]]));
}
