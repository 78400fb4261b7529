//! Drivers of network cards, and interfaces that software makes, accept the program, count exactly and keep it through
//! changes. Tests of cards run in the machines of `cargo xtask test --kernels`, which have two joined cards of each kind.

mod above;
mod bench;
mod card;
mod devices;
mod layers;
mod path;

use std::env;

use card::{Card, examine};
use devices::Device;
use limiter_tests::need_kernel;

const PAGE: &str = include_str!("../../../docs/drivers-tested.md");
const KINDS: &str = include_str!("cards.txt");
const RECORD: &str = "LIMITER_WRITE_DOCS=1 cargo xtask test --kernels";

/// Examines the cards with names that `is_wanted` accepts, at least `least`, and compares the results with the page.
fn compare(least: usize, is_wanted: impl Fn(&str) -> bool) {
    // The first process of an emulated machine gets the name of the kernel.
    let Ok(kernel) = env::var("release") else {
        return;
    };
    let mut rows = Vec::new();
    for (line, kind) in KINDS.lines().enumerate() {
        let (name, _) = kind.split_once(';').unwrap();
        if let Some(card) = Card::find(line + 1).filter(|_| is_wanted(name)) {
            rows.push(format!("| {kernel} | {name} | {} |", examine(&card)));
            println!("{}", rows[rows.len() - 1]);
        }
    }
    are_on_page(&rows);
    assert!(rows.len() >= least, "only {rows:#?}");
}

/// Examines devices that this machine has, and compares the results with the page.
fn compare_devices(devices: &[Device]) {
    need_kernel!();
    let rows: Vec<_> = devices
        .iter()
        .filter_map(bench::examine)
        .flatten()
        .collect();
    are_on_page(&rows);
}

pub fn are_on_page(rows: &[String]) {
    let is_other = |row: &&String| !PAGE.lines().any(|line| line == *row);
    let other: Vec<_> = rows.iter().filter(is_other).collect();
    assert!(
        other.is_empty() || env::var_os("LIMITER_WRITE_DOCS").is_some(),
        "not in docs/drivers-tested.md: {other:#?}\nIf that is right, record it: {RECORD} drivers-newest"
    );
}

/// The kind of most virtual machines.
const FIRST: &str = "virtio-net, 4 queues";

#[test]
fn virtio_net() {
    compare(1, |name| name == FIRST);
}

/// Only igb may be missing: older emulators lack it.
#[test]
fn other_cards() {
    compare(KINDS.lines().count() - 2, |name| name != FIRST);
}
