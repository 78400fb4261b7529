//! The policy searches each bucket once per packet, and stays right if another CPU acts between two of its steps.

mod leases;
mod row;

use std::cell::Cell;

use limiter_common::{
    abi::rules::{NEEDS_SCALE, NewSourceQuota},
    arithmetic::{bucket, quota::ADAPTIVE, scale},
    policy::{
        Evaluation,
        full::evaluate,
        new_sources::{LOST, lease_once},
        verdict::Reason,
    },
    table::{
        entry::{PASSED, TAT, counter},
        word::Word,
    },
};
use row::{COST, Meanwhile, NOW, Row, TAU, TICK, address, key, row};

fn offer<'a>(row: &Row<'a>, last: u8, meanwhile: &'a Meanwhile<'a>) -> Reason {
    row.meanwhile.set(Some(meanwhile));
    offer_after(&mut Evaluation::NONE.clone(), row, last)
}

/// Offers a packet after the one in `evaluation`.
fn offer_after(evaluation: &mut Evaluation, row: &Row<'_>, last: u8) -> Reason {
    evaluation.begin(&row, 100);
    evaluation.info.source = address(last);
    evaluate(&row, evaluation, |_| false, |_| false, |_| 0)
}

fn passed(row: &Row<'_>, index: usize) -> u64 {
    counter(row.entries[index][PASSED].get())
}

#[test]
fn each_bucket_is_searched_once_per_packet() {
    let row = row(&[key(1, 0), key(1, 1)]);
    assert_eq!(offer(&row, 1, &|_| ()), Reason::Admitted);
    assert_eq!(row.searches.get(), 2);
    assert_eq!([passed(&row, 0), passed(&row, 1)], [1, 1]);
    for entry in &row.entries {
        assert_eq!(entry[TAT].get(), bucket::ticks(NOW) + COST);
    }
}

#[test]
fn entry_taken_by_another_source_is_not_charged() {
    let row = row(&[key(1, 0), key(1, 1), key(2, 0)]);
    let change_hands = |row: &Row<'_>| {
        for word in 0..4 {
            row.entries[0][word].swap(&row.entries[2][word]);
        }
    };
    assert_eq!(offer(&row, 1, &change_hands), Reason::Admitted);
    // The source's bucket is now in the third entry, and the other source's bucket in the first.
    assert_eq!(
        [passed(&row, 0), passed(&row, 1), passed(&row, 2)],
        [0, 1, 1]
    );
    assert_eq!(row.entries[0][TAT].get(), bucket::ticks(NOW));
    assert_eq!(row.entries[2][TAT].get(), bucket::ticks(NOW) + COST);
}

#[test]
fn packet_that_loses_the_last_token_to_another_cpu_is_charged_to_no_limit() {
    let row = row(&[key(1, 0), key(1, 1)]);
    let take_all = |row: &Row<'_>| row.entries[1][TAT].set(bucket::ticks(NOW) + TAU);
    assert_eq!(offer(&row, 1, &take_all), Reason::Limit);
    assert_eq!([passed(&row, 0), passed(&row, 1)], [0, 0]);
    assert_eq!(row.entries[0][TAT].get(), bucket::ticks(NOW));
}

/// The scale is another one by the time of the refund.
#[test]
fn refund_to_an_adaptive_limit_is_what_it_was_charged() {
    let mut row = row(&[key(1, 0), key(1, 1)]);
    row.constants.needs = NEEDS_SCALE;
    row.constants.limits[0].quota.flags = ADAPTIVE;
    row.scale.set(scale::word(2 * scale::ONE, NOW));
    let spent = bucket::ticks(NOW) + 3 * COST;
    row.entries[0][TAT].set(spent);
    let take_all = |row: &Row<'_>| {
        row.entries[1][TAT].set(bucket::ticks(NOW) + TAU);
        row.scale.set(scale::word(4 * scale::ONE, NOW));
    };
    assert_eq!(offer(&row, 1, &take_all), Reason::Limit);
    assert_eq!(row.entries[0][TAT].get(), spent);
    assert_eq!(offer(&row, 1, &|_| ()), Reason::Limit, "empty");
    row.entries[1][TAT].set(bucket::ticks(NOW));
    assert_eq!(offer(&row, 1, &|_| ()), Reason::Admitted);
    assert_eq!(row.entries[0][TAT].get(), spent + 4 * COST);
}

/// The first bucket is checked by the bounds of the time, the second one needs the clock, and shows that the tick was
/// late.
#[test]
fn charge_counts_from_the_clock_if_the_tick_was_late() {
    let row = row(&[key(1, 0), key(1, 1)]);
    let late = NOW + TICK + 5;
    row.time.set(late);
    row.latest.set(Some(NOW + TICK));
    row.entries[0][TAT].set(bucket::ticks(NOW + TICK + 1));
    row.entries[1][TAT].set(bucket::ticks(NOW + 1));
    assert_eq!(offer(&row, 1, &|_| ()), Reason::Admitted);
    for entry in &row.entries {
        assert_eq!(entry[TAT].get(), bucket::ticks(late) + COST);
    }
}

/// The bucket has again the TAT that an earlier packet met, for example after a refund.
#[test]
fn plan_of_an_earlier_packet_is_not_used() {
    let mut row = row(&[key(1, 0), key(1, 1)]);
    row.constants.limits[0].shadow = 1;
    let empty = bucket::ticks(NOW) + TAU;
    row.entries[0][TAT].set(empty);
    let mut evaluation = Evaluation::NONE;
    let plan = &mut evaluation.plans[0];
    (plan.key, plan.number) = (key(1, 0), 1);
    (plan.tat, plan.charged) = (empty, empty + COST);
    assert_eq!(offer_after(&mut evaluation, &row, 1), Reason::WouldDrop);
    assert_eq!(row.entries[0][TAT].get(), empty);
}

/// A word that another CPU replaces with `other`, if any, right after it is read.
#[derive(Clone, Copy)]
struct Contested<'a> {
    word: &'a Cell<u64>,
    other: &'a Cell<Option<u64>>,
}

impl Word for Contested<'_> {
    fn load(self) -> u64 {
        let read = self.word.get();
        self.word.set(self.other.take().unwrap_or(read));
        read
    }
    fn swap(self, expected: u64, new: u64) -> bool {
        Word::swap(self.word, expected, new)
    }
    fn store(self, value: u64) {
        self.word.set(value);
    }
    fn add(self, amount: u64) {
        Word::add(self.word, amount);
    }
}

#[test]
fn tokens_that_another_cpu_leases_are_not_leased_again() {
    const LEASE: u64 = 4;
    let limit = NewSourceQuota {
        tau: TAU,
        cost: COST,
        lease: LEASE,
        own_tau: 0,
        own_cost: 0,
    };
    let leased = bucket::ticks(NOW) + LEASE * COST;
    let (word, other) = (Cell::new(bucket::ticks(NOW)), Cell::new(Some(leased)));
    let common = Contested {
        word: &word,
        other: &other,
    };
    let lease = || lease_once(&limit, common, common, NOW, || NOW);
    assert_eq!([lease(), lease()], [LOST, LEASE]);
    assert_eq!(word.get(), leased + LEASE * COST);
}
