//! `adaptive` of a limit: reading and printing.

use super::{
    super::adaptive::{Adaptive, When},
    section::Section,
    written::{table, text},
};

pub fn read(section: &mut Section) -> Option<Adaptive> {
    let mut section = section.inner("adaptive", "adaptive")?;
    let floor = section.text("floor");
    let mut section = section.inner("when", "when")?;
    let when = When {
        cpu_pressure: section.text("cpu_pressure"),
        irq_pressure: section.text("irq_pressure"),
        softnet_drops: section.text("softnet_drops"),
        softnet_squeezes: section.text("softnet_squeezes"),
        listen_overflows: section.text("listen_overflows"),
        probe: section.text("probe"),
    };
    Some(Adaptive::new(floor, when))
}

pub fn show(adaptive: &Adaptive) -> String {
    let signals = adaptive.when.texts().into_iter();
    let signals = table(signals.map(|(key, value)| (key, Some(text(value)))));
    table([
        ("floor", Some(text(adaptive.floor))),
        ("when", Some(signals)),
    ])
}
