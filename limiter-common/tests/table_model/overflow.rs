//! Each set counts its sources in other sets exactly, and finds them all.

use limiter_common::arithmetic::bucket::{FORGOTTEN, ticks};

use crate::{
    cpu::Outcome::{Charged, New, NoRoom, Refused, Replaced},
    scene::Scene,
    world::{COST, COUNT_MAX, FOUR_SETS, FULL_BUCKET, START, TWO_SETS},
};

/// The new source returns the entry that it has taken, while the entry's former source sends a packet.
#[test]
fn set_with_a_full_overflow_count_refuses_another_source() {
    let [b, a] = [TWO_SETS.narrow(0, 0), TWO_SETS.narrow(1, 1)];
    for new in [b, TWO_SETS.wide(0, 0)] {
        for word in [FULL_BUCKET, FORGOTTEN] {
            let mut scene = Scene::of(TWO_SETS);
            scene.put(0, 0, TWO_SETS.wide(0, 1), ticks(2 * START), 2);
            scene.put(1, 0, a, word, 1);
            if !new.is_wide() {
                scene.fill();
            }
            scene.hide(0, COUNT_MAX);
            scene.sends([new]);
            if word == FULL_BUCKET {
                scene.sends([a]);
                scene.all_are_charged(a, &[1], 0, 0);
            } else {
                scene.changes_nothing();
            }
            let ends = scene.explore();
            assert!(ends.iter().all(|end| end[0] == [NoRoom]));
            if word == FULL_BUCKET {
                assert!(ends.iter().any(|end| end[1] == [Charged]));
            }
        }
    }
}

#[test]
fn one_of_two_sources_takes_the_last_overflow_count() {
    let [a, b, c] = [0, 1, 2].map(|number| TWO_SETS.narrow(0, number));
    let mut scene = Scene::of(TWO_SETS);
    scene.put(0, 0, TWO_SETS.wide(0, 1), ticks(2 * START), 2);
    scene.put(1, 0, TWO_SETS.narrow(1, 3), FULL_BUCKET, 1);
    scene.put(1, 1, TWO_SETS.narrow(1, 4), FORGOTTEN, 1);
    scene.hide(0, COUNT_MAX - 1);
    scene.race([a, b]);
    scene.rule("a silent source has no bucket", move |words, _| {
        TWO_SETS.buckets(words, &c).is_empty()
    });
    let ends = scene.explore();
    ends.contain(&[&[Replaced], &[NoRoom]]);
    ends.contain(&[&[NoRoom], &[Replaced]]);
    ends.never_admit_all();
}

/// The next source takes the count.
#[test]
fn wide_source_that_gets_one_entry_reverts_its_overflow_count() {
    let [a, b] = [TWO_SETS.narrow(1, 0), TWO_SETS.narrow(0, 1)];
    let wide = TWO_SETS.wide(0, 0);
    let mut scene = Scene::with(TWO_SETS, [(1, 0, a, FULL_BUCKET)]);
    scene.hide(0, COUNT_MAX - 1);
    scene.sends([wide, b]);
    scene.sends([a]);
    scene.all_are_charged(a, &[1], 0, 0);
    scene.all_are_charged(b, &[0], 0, 0);
    let ends = scene.explore();
    ends.contain(&[&[NoRoom, Replaced], &[NoRoom]]);
    ends.contain(&[&[NoRoom, NoRoom], &[Charged]]);
}

#[test]
fn far_source_is_found_while_another_one_arrives_nearer() {
    let [far, near] = [0, 1].map(|number| FOUR_SETS.narrow(0, number));
    let mut scene = Scene::with(
        FOUR_SETS,
        [
            (2, 0, far, ticks(START + COST)),
            (1, 0, FOUR_SETS.narrow(1, 2), FORGOTTEN),
        ],
    );
    scene.sends([far]);
    scene.sends([near]);
    scene.all_are_charged(far, &[0], 1, 0);
    scene.all_are_charged(near, &[1], 0, 0);
    scene.explore().are(&[&[Charged], &[New]]);
}

#[test]
fn new_far_source_is_found_by_two_cpus() {
    let [near, far] = [0, 1].map(|number| FOUR_SETS.narrow(0, number));
    let mut scene = Scene::of(FOUR_SETS);
    scene.put(1, 0, near, ticks(2 * START), 2);
    scene.put(3, 1, FOUR_SETS.narrow(3, 2), FORGOTTEN, 1);
    scene.fill();
    scene.sends([far, far]);
    scene.sends([far]);
    scene.all_are_charged(far, &[0, 1], 0, 0);
    let ends = scene.explore();
    ends.contain(&[&[New, Charged], &[Refused]]);
    ends.contain(&[&[Charged, Refused], &[New]]);
}

/// The only far source leaves while other sources of its set arrive, near and far.
#[test]
fn stored_reach_is_never_less_than_the_furthest_source() {
    let [gone, near, far] = [0, 1, 2].map(|number| FOUR_SETS.narrow(0, number));
    let other = FOUR_SETS.narrow(2, 3);
    let mut scene = Scene::with(
        FOUR_SETS,
        [
            (2, 0, gone, FULL_BUCKET),
            (1, 1, FOUR_SETS.narrow(1, 4), FORGOTTEN),
            (3, 0, FOUR_SETS.narrow(3, 5), FORGOTTEN),
        ],
    );
    scene.brings_in([other]);
    scene.sends([near, far]);
    scene.all_are_charged(other, &[0], 0, 0);
    scene.explore().contain(&[&[Replaced], &[New, New]]);
}

#[test]
fn sets_that_share_a_counter_word_lose_no_change() {
    let [a, b] = [FOUR_SETS.narrow(0, 0), FOUR_SETS.narrow(2, 0)];
    let mut scene = Scene::with(
        FOUR_SETS,
        [
            (1, 0, FOUR_SETS.narrow(0, 1), FULL_BUCKET),
            (3, 0, FOUR_SETS.narrow(2, 1), FULL_BUCKET),
        ],
    );
    scene.race([a, b]);
    scene.explore().contain(&[&[Replaced], &[Replaced]]);
}
