//! A source that loses its entry to another source gets a new entry or is refused, and no charge is lost.

use limiter_common::{
    abi::KEPT_FOR,
    arithmetic::bucket::ticks,
    table::entry::{ONE_PACKET, OVER},
};

use crate::{
    cpu::{
        Outcome::{Charged, Contended, Forgotten, New, NoRoom, Refused, Replaced},
        Packet, forget,
    },
    memory::Machine,
    scene::Scene,
    world::{BURST, COST, FULL_BUCKET, ONE_SET, START, TWO_SETS},
};

/// A new source takes the entry while its former source sends a packet.
#[test]
fn source_that_loses_its_entry_gets_a_new_one_or_is_refused() {
    for (world, homes) in [
        (ONE_SET, [0, 0]),
        (TWO_SETS, [0, 0]),
        (TWO_SETS, [1, 0]),
        (TWO_SETS, [0, 1]),
    ] {
        let [a, b] = [world.narrow(homes[0], 0), world.narrow(homes[1], 1)];
        let mut scene = Scene::with(world, [(0, 1, a, FULL_BUCKET)]);
        scene.race([a, b]);
        let ends = scene.explore();
        ends.contain(&[&[Charged], &[NoRoom]]);
        ends.contain(&[&[NoRoom], &[Replaced]]);
        ends.contain(&[&[Contended], &[Replaced]]);
    }
}

#[test]
fn source_that_loses_its_overflow_entry_moves_to_its_home_set() {
    let [a, b] = [TWO_SETS.narrow(0, 0), TWO_SETS.narrow(1, 1)];
    let c = TWO_SETS.narrow(0, 2);
    let mut scene = Scene::with(TWO_SETS, [(1, 1, a, FULL_BUCKET), (0, 1, c, FULL_BUCKET)]);
    scene.race([a, b]);
    let ends = scene.explore();
    ends.contain(&[&[Charged], &[Replaced]]);
    ends.contain(&[&[Replaced], &[Replaced]]);
}

/// Two CPUs charge the buckets of two sources while a third CPU takes one of the entries.
#[test]
fn charges_of_former_and_new_source_are_kept_on_three_cpus() {
    let [a, b] = [ONE_SET.narrow(0, 0), ONE_SET.narrow(0, 1)];
    let mut scene = Scene::with(ONE_SET, [(0, 0, a, FULL_BUCKET)]);
    scene.sends([a]);
    scene.brings_in([b]);
    scene.sends([b]);
    scene.all_are_charged(a, &[0], 0, 0);
    // The first CPU may charge the second source by mistake. It cannot refund that if another packet comes in between.
    scene.all_are_charged(b, &[1, 2], 0, ticks(COST));
    scene.on(Machine::X86);
}

/// The entry goes to another source and comes back, while a CPU processes a packet of the first source.
///
/// This does not hold on arm64: both reads of the key may be reordered with the read of the TAT, unless the load has a
/// barrier. The packet is then charged to the other source if the entry changes hands twice, before and after the
/// charge.
#[test]
fn packet_is_charged_to_its_source_when_the_entry_leaves_and_returns() {
    let [a, b] = [ONE_SET.narrow(0, 0), ONE_SET.narrow(0, 1)];
    let mut scene = Scene::with(ONE_SET, [(0, 0, a, FULL_BUCKET)]);
    scene.sends([a]);
    scene.sends_at([(b, START), (a, START + 2 * COST)]);
    let ends = scene.on(Machine::X86);
    assert!(ends.iter().any(|end| end[1] == [Replaced, Replaced]));
}

/// The entry of a reset source with an empty bucket goes to a source with the same address and another port, while a CPU
/// decides about a packet of that source. Like the rule above, this does not hold on arm64.
#[test]
fn packet_is_not_refused_by_the_bucket_of_the_former_source() {
    let [a, b] = [ONE_SET.of_port(0, 0), ONE_SET.of_port(0, 1)];
    let mut scene = Scene::of(ONE_SET);
    scene.put(0, 0, a, ticks(START + BURST * COST), 2);
    scene.fill();
    scene.sends([b]);
    scene.cpu(move |table| {
        let packet = Packet { tag: b, now: START };
        vec![forget(table, &a), packet.pass(table)]
    });
    scene.rule("the packet is not refused", |_, ends| ends[0] != [Refused]);
    let ends = scene.on(Machine::X86);
    ends.contain(&[&[Charged], &[Forgotten, New]]);
}

#[test]
fn source_with_several_packets_keeps_its_entry_for_a_while() {
    let [a, b] = [ONE_SET.narrow(0, 0), ONE_SET.narrow(0, 1)];
    // The source has two admitted packets, or one admitted and one refused.
    for (since, refused, outcome) in [
        (KEPT_FOR - 1, 0, NoRoom),
        (KEPT_FOR - 1, 1, NoRoom),
        (KEPT_FOR, 0, Replaced),
        (KEPT_FOR, 1, Replaced),
    ] {
        let mut scene = Scene::of(ONE_SET);
        scene.put(0, 0, a, ticks(START - since), 2 - refused);
        scene.words[OVER] += refused * ONE_PACKET;
        scene.fill();
        scene.sends([b]);
        scene.explore().are(&[&[outcome]]);
    }
}
