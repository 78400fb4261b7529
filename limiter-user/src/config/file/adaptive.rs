//! `adaptive` of a limit: its keys, reading and printing.

use super::{
    super::adaptive::{Adaptive, When},
    keys::{ADAPTIVE as KEYS, WHEN as SIGNALS},
    section::Section,
    written::text,
};

const ADAPTIVE: &str = "a table as in { when = { cpu_pressure = \"20%\" } }";
const WHEN: &str = "a table as in { cpu_pressure = \"20%\" }";
const PERCENT: &str = "a percentage as in \"20%\"";
const EVENTS: &str = "a rate as in \"100/s\"";
const PROBE: &str = "an address and a time as in \"http://127.0.0.1/health > 200ms\"";

/// Reads `adaptive` of a limit.
pub fn read(section: &mut Section) -> Option<Adaptive> {
    let table = section.table("adaptive", ADAPTIVE)?;
    let line = section.line_of("adaptive");
    let mut section = section.within(table, line).with_keys(&KEYS);
    section.require("when", &KEYS, "when = { cpu_pressure = \"20%\" }");
    let floor = section.text("floor", PERCENT);
    let table = section.table("when", WHEN)?;
    let line = section.line_of("when");
    let mut section = section.within(table, line).with_keys(&SIGNALS);
    let when = When {
        cpu_pressure: section.text("cpu_pressure", PERCENT),
        irq_pressure: section.text("irq_pressure", PERCENT),
        softnet_drops: section.text("softnet_drops", EVENTS),
        softnet_squeezes: section.text("softnet_squeezes", EVENTS),
        listen_overflows: section.text("listen_overflows", EVENTS),
        probe: section.text("probe", PROBE),
    };
    // If all signals are wrong, that is reported already.
    (table.is_empty() || !when.is_empty()).then(|| Adaptive::new(floor, when))
}

/// Prints `adaptive` as in the file.
pub fn show(adaptive: &Adaptive) -> String {
    let signals = adaptive.when.texts().into_iter();
    let signals = signals.map(|(key, value)| format!("{key} = {}", text(value)));
    let signals: Vec<_> = signals.collect();
    let (floor, signals) = (text(adaptive.floor), signals.join(", "));
    format!("{{ floor = {floor}, when = {{ {signals} }} }}")
}
