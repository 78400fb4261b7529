//! The file as a whole.

use std::{collections::HashSet, path::Path};

use toml::de::{DeTable, DeValue};

use super::{
    super::{
        Burst, Control, Direction, Exempt, Invalid, Limit, NewSources, OrNone, Rate, Settings,
        Unit, names, number,
    },
    File,
    keys::{CONTROL, LIMIT, TOP},
    limit, lists,
    mistakes::Mistakes,
    problems,
    section::Section,
    value::Item,
};
use crate::config::Part;

const INTERFACES: &str = "the name of an interface as in \"eth0\", or an array of them";
const SOURCES: &str = "a number as in 65536 or \"64k\"";
const PACKETS: &str = "packets as in 200 or \"2k\"";
const CONTROL_RATE: &str = "a rate as in \"100/s\"";
const RATE_OR_NONE: &str = "a rate as in \"10k/s\", or \"none\"";
const FLEET: &str = "a name as in \"edge\"";
const LIMITS: &str = "[[limit]] above each limit, and its keys below";

/// Reads everything, and reports mistakes.
pub fn read(root: &DeTable, folder: &Path, mistakes: &mut Mistakes) -> File {
    let top = Section {
        table: root,
        part: Part::Whole,
        line: 1,
        mistakes,
    };
    let mut top = top.with_keys(&TOP);
    let interfaces = interfaces(&mut top);
    let mut settings = Settings {
        mode: top.variant("mode").unwrap_or_default(),
        direction: top.variant("direction").unwrap_or_default(),
        new_sources: new_sources(&mut top),
        exempt: exempt(&mut top),
        malformed: top.variant("malformed").unwrap_or_default(),
        shadow: top.boolean("shadow").unwrap_or_default(),
        fleet: top.read("fleet", |item| item.text(FLEET, names::fleet)),
        ..Settings::default()
    };
    if let Some(sources) = top.read("max_sources", |item| item.number(SOURCES, number::count)) {
        // A number beyond `u32` is beyond the table too, which is reported with the other problems.
        settings.max_sources = u32::try_from(sources).unwrap_or(u32::MAX);
    }
    settings.control = control(&mut top, settings.exempt);
    if let Some(table) = top.table("lists", "[lists], and each list below it") {
        let line = top.line_of("lists");
        let mut section = top.within(table, line);
        section.part = Part::Lists;
        lists::read(section, folder, &mut settings);
    }
    settings.limits = limits(&mut top, settings.direction);
    problems::report(&settings, root, mistakes);
    let lists_do_nothing = settings.lists.are_empty() && settings.fleet_lists.is_empty();
    if mistakes.found.is_empty() && settings.limits.is_empty() && lists_do_nothing {
        mistakes.add(
            1,
            "nothing to limit: write [[limit]] with a name and a rate, or prefixes under [lists]"
                .to_owned(),
        );
    }
    File {
        interfaces,
        settings,
    }
}

fn interfaces(top: &mut Section) -> Vec<String> {
    let one = |item: &mut Item| item.text(INTERFACES, names::interface);
    let interfaces = top.read("interfaces", |item| item.each(one));
    let interfaces = interfaces.unwrap_or_default();
    let mut before = HashSet::new();
    for interface in &interfaces {
        if !before.insert(interface) {
            let why = format!("'{interface}' is listed twice: remove one");
            top.refuse("interfaces", &why);
        }
    }
    interfaces
}

fn exempt(top: &mut Section) -> Exempt {
    let named = top.read("exempt", |item| item.each(|kind| kind.variant()));
    Exempt::new(&named.unwrap_or_default())
}

fn control(top: &mut Section, exempt: Exempt) -> Control {
    let default = Control::default();
    let Some(table) = top.table("control", "[control], and its keys below") else {
        return default;
    };
    if !exempt.control && !top.mistakes.any_wrong(Part::Whole, &["exempt"]) {
        top.refuse(
            "control",
            "these limits apply only to exempt control traffic: write exempt = [\"control\"] at the top of the file, or remove [control]",
        );
    }
    let line = top.line_of("control");
    let mut section = top.within(table, line);
    section.part = Part::Control;
    let mut section = section.with_keys(&CONTROL);
    let total: Option<OrNone<Rate>> = section.number("total", RATE_OR_NONE);
    Control {
        rate: section.number("rate", CONTROL_RATE).unwrap_or(default.rate),
        burst: section.number("burst", PACKETS),
        total: total.map_or(default.total, |total| total.0),
    }
}

fn new_sources(top: &mut Section) -> Option<NewSources> {
    let rate: Option<OrNone<Rate>> = top.number("new_sources", RATE_OR_NONE);
    let burst = top.read("new_sources_burst", |item| {
        item.number(SOURCES, new_sources_burst)
    });
    let rate = rate.map_or(Some(NewSources::default().rate), |rate| rate.0);
    if rate.is_none() && burst.is_some() {
        top.refuse("new_sources_burst", "a burst needs a rate of new sources: write one as in new_sources = \"10k/s\", or leave the burst out");
    }
    let second_chance = top.boolean("second_chance");
    if rate.is_none() && second_chance == Some(true) {
        top.refuse("second_chance", "a second chance needs a rate of new sources: write one as in new_sources = \"10k/s\", or remove this line");
    }
    rate.map(|rate| NewSources {
        rate,
        burst,
        second_chance: second_chance.unwrap_or(true),
    })
}

fn new_sources_burst(text: &str) -> Result<u64, Invalid> {
    let burst: Burst = text.parse()?;
    if burst.unit == Some(Unit::Bytes) {
        return Err(Invalid(format!(
            "'{text}' is in bytes, but new sources are counted: write {SOURCES}"
        )));
    }
    Ok(burst.tokens)
}

fn limits(top: &mut Section, direction: Direction) -> Vec<Limit> {
    let items = match top.value("limit").map(|value| value.get_ref()) {
        None => return Vec::new(),
        Some(DeValue::Array(items)) => items,
        Some(DeValue::Table(_)) => {
            top.refuse(
                "limit",
                "[limit] allows one limit only: write [[limit]] above each",
            );
            return Vec::new();
        }
        Some(_) => {
            return top
                .read("limit", |item| item.wrong(LIMITS))
                .unwrap_or_default();
        }
    };
    let mut limits = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let line = top.mistakes.line(item.span().start);
        let DeValue::Table(table) = item.get_ref() else {
            let why = format!("a limit is a table: write {LIMITS}");
            top.refuse("limit", &why);
            break;
        };
        let mut section = top.within(table, line);
        section.part = Part::Limit(index);
        limits.push(limit::read(section.with_keys(&LIMIT), index, direction));
    }
    limits
}
