//! The file as a whole.

use std::{collections::HashSet, path::Path};

use toml::de::{DeTable, DeValue};

use super::{
    super::{
        Burst, Control, Exempt, Invalid, Limit, NewSources, Rate, Settings, Unit, names, number,
    },
    File,
    keys::{CONTROL, TOP},
    limit, lists,
    mistakes::Mistakes,
    problems,
    section::{Places, Section},
    value::{self, Read, Value},
};

const INTERFACES: &str = "the name of an interface as in \"eth0\", or an array of them";
const SOURCES: &str = "a number as in 65536 or \"64k\"";
const NEW_SOURCES: &str = "a rate as in \"10k/s\", or \"none\"";
const PACKETS: &str = "packets as in 200 or \"2k\"";
const CONTROL_RATE: &str = "a rate as in \"100/s\"";
const TOTAL: &str = "a rate as in \"10k/s\", or \"none\"";
const FLEET: &str = "a name as in \"edge\"";
const LIMIT: &str = "[[limit]] above each limit, and its keys below";

/// Reads everything, and reports mistakes. Also warns about settings that have no effect on frames of at most
/// `frame_max` bytes.
pub fn read(
    root: &DeTable,
    folder: &Path,
    frame_max: impl Fn(&File) -> u64,
    mistakes: &mut Mistakes,
) -> File {
    let mut top = Section::open(root, 1, &TOP, mistakes);
    let interfaces = top.read("interfaces", interfaces).unwrap_or_default();
    no_interface_twice(&interfaces, &mut top);
    let defaults = Settings::default();
    let mut settings = Settings {
        mode: top.read("mode", value::variant).unwrap_or_default(),
        max_sources: top
            .read("max_sources", max_sources)
            .unwrap_or(defaults.max_sources),
        new_sources: new_sources(&mut top),
        exempt: top.read("exempt", exempt).unwrap_or_default(),
        malformed: top.read("malformed", value::variant).unwrap_or_default(),
        shadow: top.read("shadow", value::boolean).unwrap_or_default(),
        fleet: top.read("fleet", fleet),
        ..defaults
    };
    let control;
    (settings.control, control) = read_control(&mut top, settings.exempt);
    let lists = all_lists(&mut top, folder);
    (settings.lists, settings.fleet_lists) = (lists.lists, lists.of_fleet);
    let limits;
    (settings.limits, limits) = all_limits(&mut top);
    let read = problems::Read {
        top: top.close(),
        control,
        lists: lists.places,
        limits,
    };
    let file = File {
        interfaces,
        settings,
    };
    problems::tell(&file.settings, frame_max(&file), &read, mistakes);
    let settings = &file.settings;
    let lists_do_nothing = settings.lists.are_empty() && settings.fleet_lists.is_empty();
    if mistakes.are_none() && settings.limits.is_empty() && lists_do_nothing {
        mistakes.add(
            1,
            "nothing to limit: write [[limit]] with a name and a rate, or prefixes under [lists]"
                .to_owned(),
        );
    }
    file
}

fn interfaces(value: &Value) -> Read<Vec<String>> {
    value::each(value, |value| {
        value::text_with(value, INTERFACES, names::interface)
    })
}

fn no_interface_twice(interfaces: &[String], top: &mut Section) {
    let mut before = HashSet::new();
    for interface in interfaces {
        if !before.insert(interface) {
            top.refuse(
                "interfaces",
                &format!("'{interface}' is listed twice: remove one"),
            );
        }
    }
}

fn fleet(value: &Value) -> Read<String> {
    value::text_with(value, FLEET, names::fleet)
}

/// Reads `max_sources`. A number beyond `u32` is beyond the table too, which is reported with the other problems.
fn max_sources(value: &Value) -> Read<u32> {
    value::number_with(value, SOURCES, |text| {
        let number = number::parse(text, number::COUNTS)?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    })
}

fn exempt(value: &Value) -> Read<Exempt> {
    value::each(value, value::variant).map(|named| Exempt::new(&named))
}

fn read_control(top: &mut Section, exempt: Exempt) -> (Control, Places) {
    let default = Control::default();
    let Some(table) = top.table("control", "[control], and its keys below") else {
        return (default, Places::default());
    };
    if !exempt.control && !top.places().any_wrong(&["exempt"]) {
        top.refuse(
            "control",
            "these limits apply only to exempt control traffic: write exempt = [\"control\"] at the top of the file, or remove [control]",
        );
    }
    let line = top.line_of("control");
    let mut section = Section::open(table, line, &CONTROL, top.mistakes());
    let rate = section.read("rate", |value| value::number(value, CONTROL_RATE));
    let total = section.read("total", |value| rate_or_none(value, TOTAL));
    let control = Control {
        rate: rate.unwrap_or(default.rate),
        burst: section.read("burst", |value| value::number(value, PACKETS)),
        total: total.unwrap_or(default.total),
    };
    (control, section.close())
}

fn rate_or_none(value: &Value, write: &str) -> Read<Option<Rate>> {
    match value.get_ref() {
        DeValue::Boolean(false) => Ok(None),
        DeValue::String(text) if text == "none" => Ok(None),
        _ => value::number(value, write).map(Some),
    }
}

fn new_sources(top: &mut Section) -> Option<NewSources> {
    let rate = top.read("new_sources", |value| rate_or_none(value, NEW_SOURCES));
    let burst = top.read("new_sources_burst", new_sources_burst);
    let default = NewSources::default();
    match rate {
        Some(None) => {
            if burst.is_some() {
                top.refuse("new_sources_burst", "a burst needs a rate of new sources: write one as in new_sources = \"10k/s\", or leave the burst out");
            }
            None
        }
        rate => Some(NewSources {
            rate: rate.flatten().unwrap_or(default.rate),
            burst,
        }),
    }
}

fn new_sources_burst(value: &Value) -> Read<u64> {
    value::number_with(value, SOURCES, |text| {
        let burst: Burst = text.parse()?;
        if burst.unit == Some(Unit::Bytes) {
            return Err(Invalid(format!(
                "'{text}' is in bytes, but new sources are counted: write {SOURCES}"
            )));
        }
        Ok(burst.tokens)
    })
}

fn all_lists(top: &mut Section, folder: &Path) -> lists::Read {
    let Some(table) = top.table("lists", "[lists], and each list below it") else {
        return lists::Read::default();
    };
    if table
        .keys()
        .any(|name| names::name(name.get_ref()).is_err())
    {
        // A limit may name a list that is missing because of its wrong name.
        top.places().is_wrong("lists");
    }
    let line = top.line_of("lists");
    let section = Section::with_any_key(table, line, top.mistakes());
    lists::read(table, section, folder)
}

fn all_limits(top: &mut Section) -> (Vec<Limit>, Vec<Places>) {
    let Some(value) = top.value("limit") else {
        return (Vec::new(), Vec::new());
    };
    let line = top.line_of("limit");
    let items = match value.get_ref() {
        DeValue::Array(items) => &items[..],
        DeValue::Table(table) => {
            top.mistakes().add(
                line,
                "[limit] allows one limit only: write [[limit]] above each".to_owned(),
            );
            // The message above also covers a lone [limit.match], without any header of its limit.
            let is_limit = table.contains_key("name") || table.contains_key("rate");
            if is_limit {
                std::slice::from_ref(value)
            } else {
                &[]
            }
        }
        _ => {
            let _ = top.read("limit", |value| value::wrong::<()>(value, LIMIT));
            &[]
        }
    };
    let mut limits = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let mistakes = top.mistakes();
        let line = mistakes.line(item.span().start);
        match item.get_ref() {
            DeValue::Table(table) => limits.push(limit::read(table, (index, line), mistakes)),
            _ => mistakes.add(line, format!("limit: a limit is a table: write {LIMIT}")),
        }
    }
    limits.into_iter().unzip()
}
