//! `[[limit]]`.

use super::{
    super::{Limit, Rate, number},
    adaptive, packets,
    section::Section,
};

/// Reads limit number `index`. Default values replace wrong ones.
pub fn read(mut section: Section, index: usize) -> Limit {
    let name = section.text("name");
    let rate = section.number("rate");
    Limit {
        matches: packets::read(&mut section),
        key: section.text("key").unwrap_or_default(),
        burst: section.number("burst"),
        cost: section.read("cost", |item| item.number(number::count)),
        algorithm: section.variant("algorithm").unwrap_or_default(),
        hold: section.text("hold"),
        adaptive: adaptive::read(&mut section),
        shadow: section.boolean("shadow").unwrap_or_default(),
        scope: section.variant("scope").unwrap_or_default(),
        // A name that no other limit has.
        ..Limit::new(
            &name.unwrap_or_else(|| format!("\0{index}")),
            rate.unwrap_or(Rate::packets_per_second(1)),
        )
    }
}
