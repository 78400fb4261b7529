//! `[[limit]]`.

use toml::de::{DeTable, DeValue};

use super::{
    super::{Invalid, Limit, Match, Rate, Unit},
    keys::LIMIT,
    mistakes::Mistakes,
    packets,
    section::{Places, Section},
    value::{self, Read, Value},
};

const RATE: &str = "a rate as in \"5/s\", \"300/m\" or \"10mbit\"";
const BURST: &str = "packets as in 10 or \"2k\", or bytes as in \"64kb\"";
const COST: &str = "\"packets\", \"bytes\" or a number of tokens";
const KEY: &str = "a key as in \"/32,/64\" or \"interface\"";

/// Reads limit number `index` and reports mistakes. Default values replace wrong ones.
pub fn read(
    table: &DeTable,
    (index, line): (usize, usize),
    mistakes: &mut Mistakes,
) -> (Limit, Places) {
    let mut section = Section::open(table, line, &LIMIT, mistakes);
    let name = section.require(&LIMIT, ("name", "name = \"ssh\""), name);
    let rate = section.require(&LIMIT, ("rate", "rate = \"5/s\""), |value| {
        value::number(value, RATE)
    });
    let cost = cost_for(rate, &mut section);
    let limit = Limit {
        matches: matches(&mut section),
        key: section
            .read("key", |value| value::text(value, KEY))
            .unwrap_or_default(),
        burst: section.read("burst", |value| value::number(value, BURST)),
        cost,
        algorithm: section
            .read("algorithm", value::variant)
            .unwrap_or_default(),
        shadow: section.read("shadow", value::boolean).unwrap_or_default(),
        scope: section.read("scope", value::variant).unwrap_or_default(),
        // A name that no other limit has.
        ..Limit::new(
            &name.unwrap_or_else(|| format!("\0{index}")),
            rate.unwrap_or(Rate::packets_per_second(1)),
        )
    };
    (limit, section.close())
}

fn name(value: &Value) -> Read<String> {
    value::text_with(value, "a text as in \"ssh\"", |text| Ok(text.to_owned()))
}

/// The cost of a packet, as written.
#[derive(Clone, Copy)]
enum Cost {
    Each(Unit),
    Fixed(u64),
}

fn cost(value: &Value) -> Read<Cost> {
    match value.get_ref() {
        DeValue::String(_) => value::word(
            value,
            &[
                ("packets", Cost::Each(Unit::Packets)),
                ("bytes", Cost::Each(Unit::Bytes)),
            ],
        ),
        _ => value::number_with(value, COST, |digits| {
            let tokens = digits.parse().map(Cost::Fixed);
            tokens.map_err(|_| Invalid(format!("{digits} tokens are far too many: write {COST}")))
        }),
    }
}

/// The fixed cost; `None` if it follows the rate. A unit can only repeat that of the rate.
fn cost_for(rate: Option<Rate>, section: &mut Section) -> Option<u64> {
    let unit = match section.read("cost", cost)? {
        Cost::Fixed(tokens) => return Some(tokens),
        Cost::Each(unit) => unit,
    };
    if let Some(rate) = rate.filter(|rate| rate.unit != unit) {
        let (written, counted, other) = match unit {
            Unit::Packets => ("packets", "bits", "bytes"),
            Unit::Bytes => ("bytes", "packets", "packets"),
        };
        section.refuse(
            "cost",
            &format!("a cost in {written} does not go with {rate}, which is in {counted}: write \"{other}\", or leave the cost out"),
        );
    }
    None
}

fn matches(section: &mut Section) -> Match {
    let write = "a table as in { protocol = \"udp\", destination_port = 53 }";
    let Some(table) = section.table("match", write) else {
        return Match::default();
    };
    let line = section.line_of("match");
    let inner = Section::open(table, line, &packets::MATCH, section.mistakes());
    let (matches, places) = packets::read(inner);
    section.places().take_in(places);
    matches
}
