//! Sources that take two entries and sources that take one replace each other without mixing their entries.

use limiter_common::arithmetic::bucket::FORGOTTEN;

use crate::{
    cpu::Outcome::{self, Charged, Forgotten, New, NoRoom, Nothing, Replaced, ReplacedTwo},
    memory::Machine,
    scene::Scene,
    world::{COST, FULL_BUCKET, ONE_SET, START, TWO_SETS},
};

/// One of the two narrow sources sends a packet meanwhile.
#[test]
fn wide_source_replaces_two_narrow_sources() {
    let [a, b, wide] = [
        ONE_SET.narrow(0, 0),
        ONE_SET.narrow(0, 1),
        ONE_SET.wide(0, 0),
    ];
    for former in [a, b] {
        let mut scene = Scene::with(ONE_SET, [(0, 0, a, FULL_BUCKET), (0, 1, b, FULL_BUCKET)]);
        scene.race([wide, former]);
        let ends = scene.explore();
        ends.contain(&[&[ReplacedTwo], &[NoRoom]]);
        ends.contain(&[&[NoRoom], &[Charged]]);
    }
}

#[test]
fn home_sets_stop_counting_two_replaced_overflow_sources() {
    let [a, b] = [TWO_SETS.narrow(0, 0), TWO_SETS.narrow(0, 1)];
    let wide = TWO_SETS.wide(1, 0);
    let mut scene = Scene::with(TWO_SETS, [(1, 0, a, FULL_BUCKET), (1, 1, b, FULL_BUCKET)]);
    scene.sends([wide]);
    scene.all_are_charged(wide, &[0], 0, 0);
    scene.explore().are(&[&[ReplacedTwo]]);
}

#[test]
fn two_cpus_create_one_bucket_for_a_wide_source() {
    let [a, b, wide] = [
        TWO_SETS.narrow(0, 0),
        TWO_SETS.narrow(1, 1),
        TWO_SETS.wide(0, 0),
    ];
    let mut scene = Scene::with(TWO_SETS, [(1, 0, a, FULL_BUCKET), (1, 1, b, FULL_BUCKET)]);
    scene.sends([wide]);
    scene.sends([wide]);
    scene.all_are_charged(wide, &[0, 1], 0, 0);
    scene.explore().contain(&[&[ReplacedTwo], &[Charged]]);
}

/// One narrow source takes the first entry of the wide source. Another one takes the second entry, which becomes free.
#[test]
fn narrow_sources_replace_a_wide_source() {
    let [a, b, wide] = [
        ONE_SET.narrow(0, 0),
        ONE_SET.narrow(0, 1),
        ONE_SET.wide(0, 0),
    ];
    for other in [b, wide] {
        for word in [FULL_BUCKET, FORGOTTEN] {
            let mut scene = Scene::with(ONE_SET, [(0, 0, wide, word)]);
            scene.race([a, other]);
            let ends = scene.explore();
            assert!(ends.iter().any(|end| end[0][0].is_admitted()));
            assert!(ends.iter().any(|end| end[1][0].is_admitted()));
            let both = |end: &Vec<Vec<Outcome>>| end.iter().all(|cpu| cpu[0].is_admitted());
            assert_eq!(ends.iter().any(both), other == b);
        }
    }
}

/// The second entry may have a new key by then.
#[test]
fn home_set_stops_counting_a_replaced_overflow_wide_source() {
    let [a, b] = [TWO_SETS.narrow(0, 0), TWO_SETS.narrow(1, 1)];
    let mut scene = Scene::with(TWO_SETS, [(0, 0, TWO_SETS.wide(1, 0), FULL_BUCKET)]);
    for tag in [a, b] {
        scene.brings_in([tag]);
    }
    scene.all_are_charged(a, &[0], 0, 0);
    scene.all_are_charged(b, &[1], 0, 0);
    scene.explore().contain(&[&[Replaced], &[New]]);
}

/// The former source sends a packet meanwhile. The keys differ in the second half only.
#[test]
fn wide_source_replaces_another_wide_source() {
    let [a, b] = [ONE_SET.wide(0, 0), ONE_SET.wide(0, 1)];
    let mut scene = Scene::with(ONE_SET, [(0, 0, a, FULL_BUCKET)]);
    scene.race([a, b]);
    let ends = scene.explore();
    ends.contain(&[&[Charged], &[NoRoom]]);
    ends.contain(&[&[NoRoom], &[Replaced]]);
}

#[test]
fn wide_source_that_gets_one_entry_returns_it() {
    let [a, wide] = [TWO_SETS.narrow(0, 0), TWO_SETS.wide(0, 0)];
    let mut scene = Scene::with(TWO_SETS, [(1, 0, a, FULL_BUCKET)]);
    scene.sends([wide]);
    scene.sends([a]);
    scene.all_are_charged(a, &[1], 0, 0);
    let ends = scene.explore();
    ends.contain(&[&[NoRoom], &[Charged]]);
    assert!(ends.iter().all(|end| end[0] == [NoRoom]));
}

#[test]
fn narrow_and_wide_source_compete_for_one_pair_of_entries() {
    let [a, b, wide] = [
        ONE_SET.narrow(0, 0),
        ONE_SET.narrow(0, 1),
        ONE_SET.wide(0, 0),
    ];
    let mut scene = Scene::with(ONE_SET, [(0, 0, b, FORGOTTEN), (0, 1, b, FORGOTTEN)]);
    scene.race([wide, a]);
    let ends = scene.explore();
    ends.contain(&[&[New], &[NoRoom]]);
    ends.contain(&[&[NoRoom], &[New]]);
}

/// The reset source sends a packet meanwhile.
///
/// This does not hold on arm64, because the entry changes hands twice: see
/// `packet_is_charged_to_its_source_when_the_entry_leaves_and_returns`.
#[test]
fn reset_wide_entry_goes_to_a_narrow_source_and_back_to_a_wide_one() {
    let a = TWO_SETS.narrow(0, 0);
    let [forgotten, wide] = [TWO_SETS.wide(1, 0), TWO_SETS.wide(0, 1)];
    let mut scene = Scene::of(TWO_SETS);
    scene.put(0, 0, forgotten, FORGOTTEN, 3);
    scene.fill();
    scene.sends_at([(a, START), (wide, START + 2 * COST)]);
    scene.sends([forgotten]);
    let ends = scene.on(Machine::X86);
    ends.contain(&[&[New, Replaced], &[NoRoom]]);
    ends.contain(&[&[NoRoom, Replaced], &[New]]);
}

/// The wide source sends a packet while it is reset and a narrow source takes its entry.
///
/// The packets come at different times. In the same nanosecond, the new source would get the TAT of the reset source.
/// The CPU that charges it would take that for its own charge to another source, and refund it.
#[test]
fn wide_source_is_reset_while_its_entry_is_taken() {
    let [a, wide] = [ONE_SET.narrow(0, 0), ONE_SET.wide(0, 0)];
    let mut scene = Scene::of(ONE_SET);
    scene.put(0, 0, wide, FULL_BUCKET, 1);
    scene.forgets(wide);
    scene.sends([a]);
    scene.sends_at([(wide, START - 1)]);
    scene.all_are_charged(a, &[1], 0, 0);
    let ends = scene.on(Machine::X86);
    ends.contain(&[&[Forgotten], &[New], &[NoRoom]]);
    ends.contain(&[&[Nothing], &[Replaced], &[NoRoom]]);
}
