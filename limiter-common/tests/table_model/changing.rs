//! Quota changes, resets and refunds lose no charge and give no tokens away, while packets come in.

use limiter_common::arithmetic::bucket::{FORGOTTEN, ticks};

use crate::{
    cpu::{
        Outcome::{Charged, Contended, Forgotten, New, NoRoom, Refunded, Refused, Replaced},
        Packet, forget, mark,
    },
    memory::Machine,
    scene::Scene,
    world::{CHANGE, COST, FULL_BUCKET, ONE_SET, START, TWO_SETS},
};

/// The TAT of a bucket that was charged with one packet at the start.
const ONE_SPENT: u64 = ticks(START + COST);

/// The old program and the new one, which converts the bucket, have packets of one source at the same time.
#[test]
fn quota_change_loses_no_charge() {
    let tag = ONE_SET.narrow(0, 0);
    for epochs in [[0, 1], [1, 1], [1, 2]] {
        let mut scene = Scene::of(ONE_SET);
        scene.put(0, 0, tag, ONE_SPENT, 1);
        for epoch in epochs {
            scene.sends_in(epoch, [tag]);
        }
        scene.all_are_charged(tag, &[0, 1], 1, 2 * CHANGE);
        scene.rule("converted by its epoch", move |words, ends| {
            let admitted = ends
                .iter()
                .flatten()
                .filter(|outcome| outcome.is_admitted());
            let due = ONE_SPENT + ticks(COST * admitted.count() as u64);
            let epoch = ONE_SET.epoch(words, &tag).map_or(0, u64::from);
            ONE_SET.buckets(words, &tag) == [due + CHANGE * epoch]
        });
        scene.rule(
            "converted before a charge on the new quota",
            move |words, ends| {
                let is_charged = ends[1].iter().any(|outcome| outcome.is_admitted());
                !is_charged || ONE_SET.epoch(words, &tag) >= Some(epochs[1])
            },
        );
        let ends = scene.explore();
        // The change delays the bucket by three ticks: too late for the second packet of the burst.
        assert!(ends.iter().any(|end| end[1].contains(&Refused)));
    }
}

#[test]
fn bucket_under_conversion_is_not_taken_by_another_source() {
    let [a, b] = [ONE_SET.narrow(0, 0), ONE_SET.narrow(0, 1)];
    for epochs in [[1, 0], [1, 1], [0, 1]] {
        let mut scene = Scene::with(ONE_SET, [(0, 0, a, FULL_BUCKET)]);
        scene.sends_in(epochs[0], [a, a]);
        scene.sends_in(epochs[1], [b]);
        scene.all_are_charged(a, &[0], 0, CHANGE);
        scene.all_are_charged(b, &[1], 0, CHANGE);
        scene.rule("the epoch of its program", move |words, _| {
            ONE_SET
                .epoch(words, &b)
                .is_none_or(|epoch| epoch == epochs[1])
        });
        let ends = scene.explore();
        assert!(ends.iter().any(|end| end[1] == [Replaced]));
        assert!(ends.iter().any(|end| end[0].contains(&Charged)));
    }
}

/// A packet that arrives during the reset is charged before it, or to a full bucket.
#[test]
fn reset_source_starts_with_a_full_bucket() {
    let tag = ONE_SET.narrow(0, 0);
    for epoch in [0, 1] {
        let mut scene = Scene::with(ONE_SET, [(0, 1, tag, ONE_SPENT)]);
        scene.sends_in(epoch, [tag]);
        scene.cpu_in(epoch, move |table| vec![forget(table, &tag)]);
        scene.rule(
            "the source is reset before or after the packet",
            move |words, ends| {
                match (&ends[0][..], &ONE_SET.buckets(words, &tag)[..]) {
                    // Reset before the packet, and possibly once more.
                    ([New], [ONE_SPENT]) => true,
                    ([New | Charged | Refused | Contended], []) => ends[1][0] == Forgotten,
                    ([_], [_]) => ends[1][0] != Forgotten,
                    _ => false,
                }
            },
        );
        scene.explore().contain(&[&[New], &[Forgotten]]);
    }
}

#[test]
fn entry_of_a_reset_source_is_taken_by_another_source() {
    let [a, b] = [TWO_SETS.narrow(1, 0), TWO_SETS.narrow(0, 1)];
    let mut scene = Scene::of(TWO_SETS);
    // The bucket is charged, and is not in its home set.
    scene.put(0, 1, a, ONE_SPENT, 2);
    scene.fill();
    scene.sends([a]);
    scene.sends([b]);
    scene.forgets(a);
    scene.all_are_charged(b, &[1], 0, 0);
    let ends = scene.on(Machine::X86);
    ends.contain(&[&[Charged], &[New], &[Forgotten]]);
    ends.contain(&[&[New], &[NoRoom], &[Forgotten]]);
    ends.contain(&[&[NoRoom], &[New], &[Forgotten]]);
}

#[test]
fn reset_source_gets_its_entry_back_at_the_next_packet() {
    let tag = TWO_SETS.narrow(1, 0);
    let mut scene = Scene::of(TWO_SETS);
    scene.put(0, 1, tag, FORGOTTEN, 2);
    scene.fill();
    scene.sends([tag]);
    scene.sends([tag]);
    scene.all_are_charged(tag, &[0, 1], 0, 0);
    let ends = scene.explore();
    ends.contain(&[&[New], &[Charged]]);
    assert!(ends.iter().all(|end| end.iter().any(|cpu| cpu == &[New])));
}

/// During the refund, another packet is charged, or another source takes the entry.
#[test]
fn concurrent_refund_gives_no_tokens_away() {
    let [a, b] = [ONE_SET.narrow(0, 0), ONE_SET.narrow(0, 1)];
    for other in [a, b] {
        let mut scene = Scene::of(ONE_SET);
        scene.put(0, 0, a, FULL_BUCKET, 0);
        scene.fill();
        scene.cpu(move |table| {
            let packet = Packet { tag: a, now: START };
            match packet.pass(table) {
                outcome if outcome.is_admitted() => vec![outcome, packet.refund(table)],
                outcome => vec![outcome],
            }
        });
        scene.sends([other]);
        if other == a {
            scene.all_are_charged(a, &[0, 1], 0, 0);
        } else {
            scene.all_are_charged(a, &[0], 0, 0);
            scene.all_are_charged(b, &[1], 0, 0);
        }
        let ends = scene.explore();
        assert!(ends.iter().any(|end| end[0] == [Charged, Refunded]));
    }
}

/// Another source takes an entry while entries that have missed many changes are marked.
#[test]
fn epoch_mark_applies_only_to_the_former_source() {
    let [a, b] = [ONE_SET.narrow(0, 0), ONE_SET.narrow(0, 1)];
    let mut scene = Scene::with(ONE_SET, [(0, 0, a, FULL_BUCKET)]);
    scene.sends_in(2, [b]);
    scene.cpu_in(2, |table| {
        mark(table, 0, 0, 1);
        vec![]
    });
    scene.rule("the epoch of its program", move |words, ends| {
        let epochs = [a, b].map(|tag| ONE_SET.epoch(words, &tag));
        match ends[0][0] {
            Replaced => epochs == [None, Some(2)],
            _ => epochs == [Some(1), None],
        }
    });
    scene.all_are_charged(b, &[0], 0, 0);
    scene.explore().contain(&[&[Replaced], &[]]);
}
