//! CPUs that add sources at the same time create one bucket for each source, within the room of the table.

use limiter_common::arithmetic::bucket::ticks;

use crate::{
    cpu::Outcome::{Charged, Contended, New, NoRoom, Refused, Replaced},
    scene::Scene,
    world::{GONE, ONE_SET, START, TWO_SETS},
};

/// No more packets pass than the burst.
#[test]
fn two_cpus_create_one_bucket_for_a_source() {
    let tag = ONE_SET.narrow(0, 0);
    let mut scene = Scene::of(ONE_SET);
    scene.sends([tag]);
    scene.sends([tag, tag]);
    scene.all_are_charged(tag, &[0, 1], 0, 0);
    let ends = scene.explore();
    ends.contain(&[&[New], &[Charged, Refused]]);
    ends.contain(&[&[Refused], &[New, Charged]]);
    let contended = [Contended, Charged];
    ends.contain(&[&[New], &contended]);
}

#[test]
fn three_cpus_create_one_bucket_for_a_source() {
    let tag = ONE_SET.narrow(0, 0);
    let mut scene = Scene::of(ONE_SET);
    for _ in 0..3 {
        scene.brings_in([tag]);
    }
    scene.all_are_charged(tag, &[0, 1, 2], 0, 0);
    scene
        .explore()
        .contain(&[&[Contended], &[New], &[Contended]]);
}

#[test]
fn source_without_room_in_its_home_set_has_one_entry_in_the_overflow_set() {
    let tag = TWO_SETS.narrow(0, 0);
    let mut scene = Scene::of(TWO_SETS);
    let gone = TWO_SETS.narrow_of(GONE, 1, 0);
    scene.put(1, 1, gone, ticks(2 * START), 9);
    scene.fill();
    scene.sends([tag]);
    scene.sends([tag]);
    scene.all_are_charged(tag, &[0, 1], 0, 0);
    let ends = scene.explore();
    ends.contain(&[&[Replaced], &[Charged]]);
    ends.contain(&[&[Contended], &[Replaced]]);
}

/// The limit of the entry's former source was removed.
#[test]
fn one_of_two_new_sources_takes_the_last_entry() {
    for homes in [[0, 0], [0, 1], [1, 1]] {
        let [a, b] = [TWO_SETS.narrow(homes[0], 0), TWO_SETS.narrow(homes[1], 1)];
        let mut scene = Scene::of(TWO_SETS);
        let gone = TWO_SETS.narrow_of(GONE, 0, 0);
        scene.put(1, 1, gone, ticks(2 * START), 9);
        scene.fill();
        scene.race([a, b]);
        let ends = scene.explore();
        ends.contain(&[&[Replaced], &[NoRoom]]);
        ends.contain(&[&[NoRoom], &[Replaced]]);
        ends.never_admit_all();
    }
}
