//! Changes of a bucket besides packets: another program's quota, the operator, a refund.

use limiter_common::arithmetic::bucket::{FORGOTTEN, ticks};

use crate::{
    cpu::{Packet, Said, forget, mark},
    memory::Machine,
    scene::{Scene, is_among},
    world::{CHANGE, COST, ONE_SET, START, TWO_SETS},
};

/// A bucket that is full, and has been for as long as a packet takes.
const FULL: u64 = ticks(START - COST);
/// One that a packet has just been charged to.
const ONE_SPENT: u64 = ticks(START + COST);

/// Packets of one source under the old program and under the new one, which converts its bucket.
#[test]
fn a_change_of_terms_loses_no_charge() {
    let tag = ONE_SET.narrow(0, 0);
    let packet = Packet {
        tag: &tag,
        now: START,
    };
    for epochs in [[0, 1], [1, 1], [1, 2]] {
        let mut scene = Scene::of(ONE_SET);
        scene.put(0, 0, &tag, ONE_SPENT, 1);
        for epoch in epochs {
            scene.cpu_in(epoch, |table| vec![packet.pass(table)]);
        }
        scene.all_are_charged(&tag, &[0, 1], 1, 2 * CHANGE);
        scene.rule(|words, ends| {
            let admitted = ends.iter().flatten().filter(|said| said.is_admitted());
            let due = ONE_SPENT + ticks(COST * admitted.count() as u64);
            let epoch = ONE_SET
                .epoch(words, &tag)
                .map(u64::from)
                .unwrap_or_default();
            if ONE_SET.buckets(words, &tag) == [due + CHANGE * epoch] {
                Ok(())
            } else {
                Err(format!("not converted as its epoch {epoch} says"))
            }
        });
        let ends = scene.explore();
        // Three ticks late is too late for the second packet of the burst.
        assert!(ends.iter().any(|end| end[1].contains(&Said::Refused)));
    }
}

/// Conversion of a full bucket, which another source may take at the same time.
#[test]
fn a_bucket_that_is_converted_is_not_taken() {
    let [a, b] = [ONE_SET.narrow(0, 0), ONE_SET.narrow(0, 1)];
    for epochs in [[1, 0], [1, 1], [0, 1]] {
        let mut scene = Scene::of(ONE_SET);
        scene.put(0, 0, &a, FULL, 1);
        scene.fill();
        scene.cpu_in(epochs[0], |table| {
            let packet = Packet {
                tag: &a,
                now: START,
            };
            vec![packet.pass(table), packet.pass(table)]
        });
        scene.cpu_in(epochs[1], |table| {
            vec![
                Packet {
                    tag: &b,
                    now: START,
                }
                .pass(table),
            ]
        });
        scene.all_are_charged(&a, &[0], 0, CHANGE);
        scene.all_are_charged(&b, &[1], 0, CHANGE);
        scene.rule(|words, _| match ONE_SET.epoch(words, &b) {
            Some(epoch) if epoch != epochs[1] => Err(format!("in epoch {epoch}")),
            _ => Ok(()),
        });
        let ends = scene.explore();
        assert!(ends.iter().any(|end| end[1] == [Said::Replaced]));
        assert!(ends.iter().any(|end| end[0].contains(&Said::Charged)));
    }
}

/// The operator forgets a source that has a packet: it is charged before that, or begins anew.
#[test]
fn who_is_forgotten_begins_anew() {
    let tag = ONE_SET.narrow(0, 0);
    for epoch in [0, 1] {
        let mut scene = Scene::of(ONE_SET);
        scene.put(0, 1, &tag, ONE_SPENT, 1);
        scene.fill();
        scene.cpu_in(epoch, |table| {
            vec![
                Packet {
                    tag: &tag,
                    now: START,
                }
                .pass(table),
            ]
        });
        scene.cpu_in(epoch, |table| vec![forget(table, &tag)]);
        scene.rule(|words, ends| {
            let fits = match (&ends[0][..], &ONE_SET.buckets(words, &tag)[..]) {
                // Forgotten before the packet, and perhaps once more.
                ([Said::New], [ONE_SPENT]) => true,
                ([Said::New | Said::Charged | Said::Refused | Said::Contended], []) => {
                    ends[1][0] == Said::Forgotten
                }
                ([_], [_]) => ends[1][0] != Said::Forgotten,
                _ => false,
            };
            if fits {
                Ok(())
            } else {
                Err("neither before nor after".into())
            }
        });
        let ends = scene.explore();
        assert!(is_among(&ends, &[&[Said::New], &[Said::Forgotten]]));
    }
}

/// While another source takes the entry.
#[test]
fn who_is_forgotten_leaves_room() {
    let [a, b] = [TWO_SETS.narrow(1, 0), TWO_SETS.narrow(0, 1)];
    let mut scene = Scene::of(TWO_SETS);
    // Spent, and not at home.
    scene.put(0, 1, &a, ONE_SPENT, 2);
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
    scene.cpu(|table| vec![forget(table, &a)]);
    scene.all_are_charged(&b, &[1], 0, 0);
    let ends = scene.on(Machine::X86);
    assert!(is_among(
        &ends,
        &[&[Said::Charged], &[Said::New], &[Said::Forgotten]]
    ));
    assert!(is_among(
        &ends,
        &[&[Said::New], &[Said::NoRoom], &[Said::Forgotten]]
    ));
    assert!(is_among(
        &ends,
        &[&[Said::NoRoom], &[Said::New], &[Said::Forgotten]]
    ));
}

/// A source that has been forgotten is not there, and its entry is its own again at the next packet.
#[test]
fn a_forgotten_source_comes_in_at_once() {
    let tag = TWO_SETS.narrow(1, 0);
    let mut scene = Scene::of(TWO_SETS);
    scene.put(0, 1, &tag, FORGOTTEN, 2);
    scene.fill();
    for _ in 0..2 {
        scene.cpu(|table| {
            vec![
                Packet {
                    tag: &tag,
                    now: START,
                }
                .pass(table),
            ]
        });
    }
    scene.all_are_charged(&tag, &[0, 1], 0, 0);
    let ends = scene.explore();
    assert!(is_among(&ends, &[&[Said::New], &[Said::Charged]]));
    assert!(
        ends.iter()
            .all(|end| end.iter().any(|said| said == &[Said::New]))
    );
}

/// A charge is taken back while another packet is charged, or another source takes the entry.
#[test]
fn a_refund_gives_nothing_away() {
    let [a, b] = [ONE_SET.narrow(0, 0), ONE_SET.narrow(0, 1)];
    for other in [&a, &b] {
        let mut scene = Scene::of(ONE_SET);
        scene.put(0, 0, &a, FULL, 0);
        scene.fill();
        scene.cpu(|table| {
            let packet = Packet {
                tag: &a,
                now: START,
            };
            match packet.pass(table) {
                said if said.is_admitted() => vec![said, packet.refund(table)],
                said => vec![said],
            }
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
        if other == &a {
            scene.all_are_charged(&a, &[0, 1], 0, 0);
        } else {
            scene.all_are_charged(&a, &[0], 0, 0);
            scene.all_are_charged(&b, &[1], 0, 0);
        }
        let ends = scene.explore();
        assert!(
            ends.iter()
                .any(|end| end[0] == [Said::Charged, Said::Refunded])
        );
    }
}

/// Entries that have missed many changes are marked while another source takes one of them.
#[test]
fn who_is_marked_as_older_is_the_former_one() {
    let [a, b] = [ONE_SET.narrow(0, 0), ONE_SET.narrow(0, 1)];
    let mut scene = Scene::of(ONE_SET);
    scene.put(0, 0, &a, FULL, 1);
    scene.fill();
    scene.cpu_in(2, |table| {
        vec![
            Packet {
                tag: &b,
                now: START,
            }
            .pass(table),
        ]
    });
    scene.cpu_in(2, |table| {
        mark(table, 0, 0, 1);
        vec![]
    });
    scene.rule(
        |words, ends| match (ONE_SET.epoch(words, &a), ONE_SET.epoch(words, &b)) {
            (None, Some(2)) if ends[0] == [Said::Replaced] => Ok(()),
            (Some(1), None) if ends[0] != [Said::Replaced] => Ok(()),
            epochs => Err(format!("in epochs {epochs:?}")),
        },
    );
    scene.all_are_charged(&b, &[0], 0, 0);
    assert!(is_among(&scene.explore(), &[&[Said::Replaced], &[]]));
}
