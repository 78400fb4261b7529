//! `[[limit]]`.

use super::{
    super::{Limit, Match, Rate, number},
    adaptive,
    keys::LIMIT,
    packets,
    section::Section,
};

const NAME: &str = "a text as in \"ssh\"";
const RATE: &str = "a rate as in \"5/s\", \"300/m\" or \"10mbit\"";
const BURST: &str = "packets as in 10 or \"2k\", or bytes as in \"64kb\"";
const COST: &str = "a number of tokens as in 2";
const HOLD: &str = "a time as in \"10m\"";
const KEY: &str = "a key as in \"/32,/64\", \"interface\" or \"source + destination\"";
const MATCH: &str = "a table as in { protocol = \"udp\", destination_port = 53 }";

/// Reads limit number `index`. Default values replace wrong ones.
pub fn read(mut section: Section, index: usize) -> Limit {
    section.require("name", &LIMIT, "name = \"ssh\"");
    section.require("rate", &LIMIT, "rate = \"5/s\"");
    let name = section.read("name", |item| item.text(NAME, |text| Ok(text.to_owned())));
    let rate = section.number("rate", RATE);
    Limit {
        matches: matches(&mut section),
        key: section.text("key", KEY).unwrap_or_default(),
        burst: section.number("burst", BURST),
        cost: section.read("cost", |item| item.number(COST, number::count)),
        algorithm: section.variant("algorithm").unwrap_or_default(),
        hold: section.text("hold", HOLD),
        adaptive: adaptive::read(&mut section),
        proof: section.variant("proof").unwrap_or_default(),
        shadow: section.boolean("shadow").unwrap_or_default(),
        scope: section.variant("scope").unwrap_or_default(),
        // A name that no other limit has.
        ..Limit::new(
            &name.unwrap_or_else(|| format!("\0{index}")),
            rate.unwrap_or(Rate::packets_per_second(1)),
        )
    }
}

fn matches(section: &mut Section) -> Match {
    let Some(table) = section.table("match", MATCH) else {
        return Match::default();
    };
    let line = section.line_of("match");
    packets::read(section.within(table, line).with_keys(&packets::MATCH))
}
