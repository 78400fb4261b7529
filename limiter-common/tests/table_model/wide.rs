//! Keys that take two entries, and those that take one.

use limiter_common::arithmetic::bucket::FORGOTTEN;

use crate::{
    cpu::Outcome::{self, Charged, Forgotten, New, NoRoom, Nothing, Replaced, ReplacedTwo},
    memory::Machine,
    scene::Scene,
    world::{COST, FULL, ONE_SET, START, TWO_SETS},
};

/// Two CPUs make one bucket of a source whose key is wide, in place of two others, one of which has a packet.
#[test]
fn wide_source_replaces_two_narrow_sources() {
    let [a, b, wide] = [
        ONE_SET.narrow(0, 0),
        ONE_SET.narrow(0, 1),
        ONE_SET.wide(0, 0),
    ];
    for former in [a, b] {
        let mut scene = Scene::with(ONE_SET, [(0, 0, a, FULL), (0, 1, b, FULL)]);
        scene.race([wide, former]);
        let ends = scene.explore();
        ends.contain(&[&[ReplacedTwo], &[NoRoom]]);
        ends.contain(&[&[NoRoom], &[Charged]]);
    }
}

/// If the two sources were not at home, their sets no longer count them.
#[test]
fn home_sets_stop_counting_two_replaced_displaced_sources() {
    let [a, b] = [TWO_SETS.narrow(0, 0), TWO_SETS.narrow(0, 1)];
    let wide = TWO_SETS.wide(1, 0);
    let mut scene = Scene::with(TWO_SETS, [(1, 0, a, FULL), (1, 1, b, FULL)]);
    scene.sends([wide]);
    scene.all_are_charged(wide, &[0], 0, 0);
    scene.explore().are(&[&[ReplacedTwo]]);
}

/// Two CPUs with a packet each make one bucket.
#[test]
fn two_cpus_create_one_bucket_for_a_wide_source() {
    let [a, b, wide] = [
        TWO_SETS.narrow(0, 0),
        TWO_SETS.narrow(1, 1),
        TWO_SETS.wide(0, 0),
    ];
    let mut scene = Scene::with(TWO_SETS, [(1, 0, a, FULL), (1, 1, b, FULL)]);
    scene.sends([wide]);
    scene.sends([wide]);
    scene.all_are_charged(wide, &[0, 1], 0, 0);
    scene.explore().contain(&[&[ReplacedTwo], &[Charged]]);
}

/// A narrow one takes the first entry of a wide one, and another one the second that becomes free.
#[test]
fn narrow_sources_replace_a_wide_source() {
    let [a, b, wide] = [
        ONE_SET.narrow(0, 0),
        ONE_SET.narrow(0, 1),
        ONE_SET.wide(0, 0),
    ];
    for other in [b, wide] {
        for word in [FULL, FORGOTTEN] {
            let mut scene = Scene::with(ONE_SET, [(0, 0, wide, word)]);
            scene.race([a, other]);
            let ends = scene.explore();
            assert!(ends.iter().any(|end| end[0][0].is_admitted()));
            assert!(ends.iter().any(|end| end[1][0].is_admitted()));
            let both = |end: &Vec<Vec<Outcome>>| end.iter().all(|said| said[0].is_admitted());
            assert_eq!(ends.iter().any(both), other == b);
        }
    }
}

/// If the wide source was not at home, its set no longer counts it, though its second entry has a new key by then.
#[test]
fn home_set_stops_counting_a_replaced_displaced_wide_source() {
    let [a, b] = [TWO_SETS.narrow(0, 0), TWO_SETS.narrow(1, 1)];
    let mut scene = Scene::with(TWO_SETS, [(0, 0, TWO_SETS.wide(1, 0), FULL)]);
    for tag in [a, b] {
        scene.brings_in([tag]);
    }
    scene.all_are_charged(a, &[0], 0, 0);
    scene.all_are_charged(b, &[1], 0, 0);
    scene.explore().contain(&[&[Replaced], &[New]]);
}

/// A wide one takes the entries of another wide one, which has a packet, or of which there is another packet
/// of the new one. Their keys differ in the second half only.
#[test]
fn wide_source_replaces_another_wide_source() {
    let [a, b] = [ONE_SET.wide(0, 0), ONE_SET.wide(0, 1)];
    let mut scene = Scene::with(ONE_SET, [(0, 0, a, FULL)]);
    scene.race([a, b]);
    let ends = scene.explore();
    ends.contain(&[&[Charged], &[NoRoom]]);
    ends.contain(&[&[NoRoom], &[Replaced]]);
}

/// If the second entry cannot be had, the first one stays with its source, whose set counts it.
#[test]
fn wide_source_that_gets_one_entry_returns_it() {
    let [a, wide] = [TWO_SETS.narrow(0, 0), TWO_SETS.wide(0, 0)];
    let mut scene = Scene::with(TWO_SETS, [(1, 0, a, FULL)]);
    scene.sends([wide]);
    scene.sends([a]);
    scene.all_are_charged(a, &[1], 0, 0);
    let ends = scene.explore();
    ends.contain(&[&[NoRoom], &[Charged]]);
    assert!(ends.iter().all(|end| end[0] == [NoRoom]));
}

/// A narrow source that wants both entries of a pair, one after the other, and a wide one that wants them
/// together.
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

/// The entry of a wide one that the operator has forgotten goes to a narrow one, and back to a wide one,
/// while the first one has a packet again.
///
/// Not on arm64, for the reason that [`crate::leaving`] gives: it changes hands twice.
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

/// The operator forgets a wide one while a narrow one takes its entry, and it has a packet.
///
/// Not in the same nanosecond: the new source would have the very word that the forgotten one had, and whoever
/// charged that would take it for its own charge to another source, and take it back.
#[test]
fn wide_source_is_reset_while_its_entry_is_taken() {
    let [a, wide] = [ONE_SET.narrow(0, 0), ONE_SET.wide(0, 0)];
    let mut scene = Scene::of(ONE_SET);
    scene.put(0, 0, wide, FULL, 1);
    scene.forgets(wide);
    scene.sends([a]);
    scene.sends_at([(wide, START - 1)]);
    scene.all_are_charged(a, &[1], 0, 0);
    let ends = scene.on(Machine::X86);
    ends.contain(&[&[Forgotten], &[New], &[NoRoom]]);
    ends.contain(&[&[Nothing], &[Replaced], &[NoRoom]]);
}
