//! Checks that counters only grow, and that they add up.

use std::{collections::BTreeMap, sync::atomic::Ordering};

use serde_json::Value;

use super::Soak;
use crate::{eventually, number};

/// The counters in the last reading.
#[derive(Debug, Default)]
pub struct Figures {
    last: BTreeMap<String, u64>,
    /// Reloads before the reading.
    reloads: u64,
}

impl Figures {
    /// Panics if a counter is less than before. A reload may restart the counters of removed limits and lists: these
    /// are then not compared.
    pub fn expect_no_less(
        &mut self,
        soak: &Soak<'_>,
        look: impl FnOnce() -> BTreeMap<String, u64>,
    ) {
        let before = soak.reloads.load(Ordering::SeqCst);
        let mut now = look();
        let reloads = soak.reloads.load(Ordering::SeqCst);
        let comparable = before == reloads && before.is_multiple_of(2) && before == self.reloads;
        for (name, was) in &self.last {
            let stays = stays(name);
            match now.get(name) {
                Some(is) if comparable || stays => {
                    assert!(is >= was, "{name} was {was}, and is {is}");
                }
                None if stays => panic!("{name} was {was}, and is gone"),
                _ => {}
            }
        }
        if before != reloads || !before.is_multiple_of(2) {
            now.retain(|name, _| stays(name));
        }
        self.last = now;
        self.reloads = reloads;
    }
}

/// True if a reload does not restart the counter: it belongs to the common limit, or to no limit and no list.
fn stays(name: &str) -> bool {
    let of_a_limit = name.contains("limit=\"") && !name.contains("limit=\"all\"");
    !of_a_limit && !name.contains("list=\"")
}

/// The counters of `status --json`, by path. Panics if they do not add up.
pub fn of(status: &Value) -> BTreeMap<String, u64> {
    expect_sums(status);
    let mut figures = BTreeMap::new();
    for part in [
        "seen",
        "passed",
        "dropped",
        "would_drop",
        "passes",
        "drops",
        "events_lost",
    ] {
        collect(part, &status[part], &mut figures);
    }
    for limit in status["limits"].as_array().unwrap() {
        for verdict in ["passed", "dropped", "would_drop"] {
            let name = format!("limit={} {verdict}", limit["name"]);
            collect(&name, &limit[verdict], &mut figures);
        }
    }
    figures
}

/// Adds all numbers of a value.
fn collect(name: &str, value: &Value, to: &mut BTreeMap<String, u64>) {
    match value.as_object() {
        Some(fields) => {
            for (key, value) in fields {
                collect(&format!("{name} {key}"), value, to);
            }
        }
        None => drop(to.insert(name.to_owned(), number(value))),
    }
}

fn expect_sums(status: &Value) {
    for unit in ["packets", "bytes"] {
        let of = |name: &str| number(&status[name][unit]);
        assert_eq!(of("seen"), of("passed") + of("dropped"), "{unit}: {status}");
        let drops = status["drops"].as_object().unwrap().values();
        let drops: u64 = drops.map(|count| number(&count[unit])).sum();
        assert_eq!(of("dropped"), drops, "{unit}: {status}");
    }
    let sources = |name: &str| number(&status["sources"][name]);
    assert!(sources("entries") <= sources("capacity"), "{status}");
}

/// Panics unless the program has seen every packet sent, and every packet that it passed has arrived.
pub fn expect_all_seen(soak: &Soak<'_>) {
    let sent = soak.sent.all();
    let lost = soak.lost();
    eventually("the program has seen all sent packets", || {
        number(&soak.hosts.status()["seen"]["packets"]) + lost >= sent
    });
    soak.arrivals.settle(soak.hosts);
    let status = soak.hosts.status();
    let packets = |name: &str| number(&status[name]["packets"]);
    assert!(packets("seen") <= sent, "{sent} were sent: {status}");
    assert_eq!(soak.arrivals.lost(), 0, "all received packets were counted");
    assert_eq!(soak.arrivals.all(), packets("passed"), "{status}");
}
