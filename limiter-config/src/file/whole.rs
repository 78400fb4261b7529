//! The file as a whole.

use std::{collections::HashSet, path::Path};

use toml::de::{DeTable, DeValue};

use super::{
    super::{Control, Direction, Exempt, Limit, NewSources, OrNone, Rate, Settings, names},
    File, limit, lists,
    mistakes::Mistakes,
    section::Section,
    value::{Wrong, boolean, text, variant},
};

/// Reads everything, and reports mistakes.
pub fn read(root: &DeTable, folder: &Path, mistakes: &mut Mistakes) -> File {
    let mut top = Section::new(root, "the file", 1, mistakes);
    let interfaces = interfaces(&mut top);
    let mut settings = Settings {
        mode: top.variant("mode"),
        direction: top.variant("direction"),
        new_sources: new_sources(&mut top),
        exempt: exempt(&mut top),
        malformed: top.variant("malformed"),
        shadow: top.read("shadow", boolean).unwrap_or_default(),
        fleet: top.read("fleet", |value| text(value, names::fleet)),
        ..Settings::default()
    };
    if let Some(sources) = top.count("max_sources") {
        // A number beyond `u32` is beyond the table too, which is reported with the other problems.
        settings.max_sources = u32::try_from(sources).unwrap_or(u32::MAX);
    }
    if let Some(bans) = top.count("max_bans") {
        settings.max_bans = u32::try_from(bans).unwrap_or(u32::MAX);
    }
    settings.control = control(&mut top);
    if let Some(section) = top.inner("lists", "[lists]") {
        lists::read(section, folder, &mut settings);
    }
    settings.limits = limits(&mut top, settings.direction);
    File {
        interfaces,
        settings,
    }
}

fn interfaces(top: &mut Section) -> Vec<String> {
    let interfaces = top.each("interfaces", |value| text(value, names::interface));
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
    let named = top.each("exempt", variant);
    Exempt::new(&named.unwrap_or_default())
}

fn control(top: &mut Section) -> Control {
    let default = Control::default();
    let Some(mut section) = top.inner("control", "[control]") else {
        return default;
    };
    let total: Option<OrNone<Rate>> = section.number("total");
    Control {
        rate: section.number("rate").unwrap_or(default.rate),
        burst: section.number("burst"),
        total: total.map_or(default.total, |total| total.0),
    }
}

fn new_sources(top: &mut Section) -> Option<NewSources> {
    let rate: Option<OrNone<Rate>> = top.number("new_sources");
    let burst = top.count("new_sources_burst");
    let rate = rate.map_or(Some(NewSources::default().rate), |rate| rate.0);
    if rate.is_none() && burst.is_some() {
        top.refuse("new_sources_burst", "a burst needs a rate of new sources: write one as in new_sources = \"10k/s\", or leave the burst out");
    }
    let second_chance = top.read("second_chance", boolean);
    if rate.is_none() && second_chance == Some(true) {
        top.refuse("second_chance", "a second chance needs a rate of new sources: write one as in new_sources = \"10k/s\", or remove this line");
    }
    rate.map(|rate| NewSources {
        rate,
        burst,
        second_chance: second_chance.unwrap_or(true),
    })
}

fn limits(top: &mut Section, direction: Direction) -> Vec<Limit> {
    let Some(value) = top.table.get("limit") else {
        return Vec::new();
    };
    let items = match value.get_ref() {
        DeValue::Array(items) => items,
        DeValue::Table(_) => {
            top.refuse(
                "limit",
                "[limit] allows one limit only: write [[limit]] above each",
            );
            return Vec::new();
        }
        _ => return top.read("limit", |_| Err(Wrong::Type)).unwrap_or_default(),
    };
    let mut limits = Vec::new();
    for item in items {
        let line = top.mistakes.line(item.span().start);
        let DeValue::Table(table) = item.get_ref() else {
            top.refuse(
                "limit",
                "a limit is a table: write [[limit]] above each limit, and its keys below",
            );
            break;
        };
        let section = Section::new(table, "a limit", line, top.mistakes);
        limits.push(limit::read(section, direction));
    }
    limits
}
