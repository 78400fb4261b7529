//! `[[limit]]`.

use super::{
    super::{Direction, Key, Limit, Rate},
    adaptive, packets,
    section::Section,
    value::boolean,
};

/// Reads a limit. Default values replace wrong ones.
pub fn read(mut section: Section, direction: Direction) -> Limit {
    let name: Option<String> = section.text("name");
    let rate = section.number("rate");
    Limit {
        matches: packets::read(&mut section),
        key: (section.text("key")).unwrap_or_else(|| Key::of_peers(direction)),
        burst: section.number("burst"),
        cost: section.count("cost"),
        algorithm: section.variant("algorithm"),
        hold: section.text("hold"),
        max_delay: section.text("max_delay"),
        adaptive: adaptive::read(&mut section),
        proof: section.variant("proof"),
        shadow: section.read("shadow", boolean).unwrap_or_default(),
        scope: section.variant("scope"),
        ..Limit::new(
            &name.unwrap_or_default(),
            rate.unwrap_or(Rate::packets_per_second(1)),
        )
    }
}
