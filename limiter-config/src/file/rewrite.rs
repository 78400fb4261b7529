//! A file with other settings, which keeps its comments, its order and its spelling.
//!
//! The file's settings and the wanted ones are both printed, and compared key by key. Only keys that differ are changed in
//! the text.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use toml_edit::{
    ArrayOfTables, Decor, DocumentMut, InlineTable, Item, RawString, Table, TableLike,
};

use super::{parse, rewrite_lists, show};
use crate::{Invalid, Prefixes, Settings, invalid};

/// Tables that are compared by the names within them.
const BY_NAME: [&str; 2] = ["lists", "limit"];
/// A place behind all tables of a file.
const LAST: isize = isize::MAX / 2;

/// Changes `text`, a file in `folder` with the settings `before`, into one with the settings `wanted`. Comments stay,
/// apart from those within a limit or a list that goes.
///
/// # Errors
/// A list is read from another file, which has prefixes that are not wanted; or the text cannot be changed in place.
pub fn rewritten(
    text: &str,
    folder: &Path,
    before: &Settings,
    wanted: &Settings,
) -> Result<String, Invalid> {
    if before == wanted {
        return Ok(text.to_owned());
    }
    let mut document = read(text)?;
    let (old, new) = (read(&show(&[], before))?, read(&show(&[], wanted))?);
    merge(document.as_table_mut(), old.as_table(), new.as_table());
    limits(&mut document, &old, &new);
    rewrite_lists::rewrite(&mut document, &new, before, wanted)?;
    let made = document.to_string();
    match parse(&made, folder) {
        Ok(file) if file.settings == *wanted => Ok(made),
        _ => Err(invalid!(
            "it cannot be changed in place: the settings would be others"
        )),
    }
}

fn read(text: &str) -> Result<DocumentMut, Invalid> {
    text.parse()
        .map_err(|error| invalid!("it cannot be changed in place: {error}"))
}

/// The lists of settings, with what the fleet shares.
pub(super) fn by_name(settings: &Settings) -> BTreeMap<String, (Prefixes, bool)> {
    let is_shared = |name: &str| settings.fleet_lists.contains(name);
    let all = settings.lists.all();
    let all = all.map(|(name, prefixes)| (name.to_owned(), (prefixes.clone(), is_shared(name))));
    let mut lists: BTreeMap<_, _> = all.collect();
    for name in &settings.fleet_lists {
        let nothing = (Prefixes::new(), true);
        lists.entry(name.clone()).or_insert(nothing);
    }
    lists
}

/// Changes the keys of a table whose printed values differ.
fn merge(table: &mut dyn TableLike, old: &dyn TableLike, new: &dyn TableLike) {
    for (key, _) in old.iter() {
        if new.get(key).is_none() && !BY_NAME.contains(&key) {
            remove(table, key);
        }
    }
    let nothing = InlineTable::new();
    for (key, after) in new.iter() {
        let before = old.get(key);
        let is_same = before.is_some_and(|before| printed(before) == printed(after));
        if is_same || BY_NAME.contains(&key) {
            continue;
        }
        let Some(item) = table.get_mut(key) else {
            insert(table, key, after);
            continue;
        };
        let before = before.and_then(Item::as_table_like).unwrap_or(&nothing);
        match (item.as_table_like_mut(), after.as_table_like()) {
            (Some(inner), Some(after)) => merge(inner, before, after),
            _ => replace(item, after),
        }
    }
}

fn printed(item: &Item) -> String {
    item.to_string().trim().to_owned()
}

/// Replaces a value, and keeps what stands around it.
pub(super) fn replace(item: &mut Item, value: &Item) {
    let mut value = value.clone();
    if let (Some(old), Some(new)) = (item.as_value(), value.as_value_mut()) {
        *new.decor_mut() = old.decor().clone();
    }
    *item = value;
}

/// Adds a key behind the others.
pub(super) fn insert(table: &mut dyn TableLike, key: &str, value: &Item) {
    // Blanks in front of the end of a table within a line.
    if let Some((_, last)) = table.iter_mut().last()
        && let Some(last) = last.as_value_mut()
        && text(last.decor().suffix()).trim().is_empty()
    {
        last.decor_mut().set_suffix("");
    }
    let mut value = value.clone();
    if let Some(value) = value.as_value_mut() {
        value.decor_mut().clear();
    }
    if let Some(header) = value.as_table_mut() {
        header.set_position(LAST);
    }
    table.insert(key, value);
}

/// Removes a key. The comment above it stays, above the next key.
pub(super) fn remove(table: &mut dyn TableLike, key: &str) {
    let above = table.get_key_value(key).and_then(|(key, item)| {
        let header = item.as_table().map(Table::decor);
        comment(header.unwrap_or(key.leaf_decor()))
    });
    let keys: Vec<_> = table.iter().map(|(key, _)| key.to_owned()).collect();
    let place = keys.iter().position(|other| other == key);
    table.remove(key);
    let (Some(above), Some(place)) = (above, place) else {
        return;
    };
    let before = place.checked_sub(1).and_then(|before| keys.get(before));
    match (keys.get(place + 1), before) {
        (Some(next), _) => put_above(table, next, &above),
        (None, Some(before)) => match table.get_mut(before).and_then(Item::as_value_mut) {
            Some(value) => {
                let end = format!("\n{}", above.trim_end());
                value.decor_mut().set_suffix(end);
            }
            None => put_above(table, before, &above),
        },
        (None, None) => {}
    }
}

/// The text in front of something, or behind it.
pub(super) fn text(raw: Option<&RawString>) -> &str {
    raw.and_then(RawString::as_str).unwrap_or_default()
}

/// The comment in front of something, if there is one.
pub(super) fn comment(decor: &Decor) -> Option<String> {
    let text = text(decor.prefix());
    text.contains('#').then(|| text.to_owned())
}

fn put_above(table: &mut dyn TableLike, key: &str, text: &str) {
    let Some((mut key, item)) = table.get_key_value_mut(key) else {
        return;
    };
    match item {
        Item::Table(header) => prepend(header.decor_mut(), text),
        Item::ArrayOfTables(tables) => {
            if let Some(first) = tables.get_mut(0) {
                prepend(first.decor_mut(), text);
            }
        }
        _ => prepend(key.leaf_decor_mut(), text),
    }
}

/// Puts a text in front of what stands in front of something.
pub(super) fn prepend(decor: &mut Decor, front: &str) {
    let both = format!("{front}{}", text(decor.prefix()));
    decor.set_prefix(both);
}

fn name(table: &Table) -> Option<&str> {
    table.get("name").and_then(Item::as_str)
}

/// Changes, adds and removes limits, which go by their names.
fn limits(document: &mut DocumentMut, old: &Table, new: &Table) {
    let none = ArrayOfTables::new();
    let [old, new] = [old, new].map(|root| {
        root.get("limit")
            .and_then(Item::as_array_of_tables)
            .unwrap_or(&none)
    });
    let texts = |limits: &ArrayOfTables| limits.iter().map(ToString::to_string).collect::<Vec<_>>();
    if texts(old) == texts(new) {
        return;
    }
    let item = document
        .entry("limit")
        .or_insert(Item::ArrayOfTables(none.clone()));
    if !item.is_array_of_tables() {
        let other = std::mem::take(item);
        *item = other
            .into_array_of_tables()
            .map_or_else(|same| same, Item::ArrayOfTables);
    }
    let Some(tables) = item.as_array_of_tables_mut() else {
        return;
    };
    let (mut written, mut above) = (Vec::new(), String::new());
    let stays: BTreeSet<_> = new.iter().filter_map(name).collect();
    for mut table in std::mem::take(tables) {
        if name(&table).is_some_and(|name| stays.contains(name)) {
            prepend(table.decor_mut(), &std::mem::take(&mut above));
            written.push(table);
        } else {
            above += &comment(table.decor()).unwrap_or_default();
        }
    }
    let empty = Table::new();
    let (mut wanted, mut last) = (Vec::new(), Some(isize::MIN));
    for limit in new {
        let own = written.iter().position(|table| name(table) == name(limit));
        let table = match own {
            Some(own) => {
                let mut table = written.remove(own);
                let before = old.iter().find(|before| name(before) == name(limit));
                merge(&mut table, before.unwrap_or(&empty), limit);
                table
            }
            None => {
                let mut table = limit.clone();
                table.set_position(LAST);
                table
            }
        };
        let place = table.position();
        last = last
            .filter(|last| place.is_some_and(|place| place >= *last))
            .and(place);
        wanted.push(table);
    }
    if last.is_none() {
        wanted.iter_mut().for_each(put_last);
    }
    tables.extend(wanted);
    let end = document.trailing().as_str().unwrap_or_default();
    let end = format!("{end}{above}");
    document.set_trailing(end);
}

/// Puts a table behind all others, together with those within it.
fn put_last(table: &mut Table) {
    table.set_position(LAST);
    for (_, item) in table.iter_mut() {
        if let Some(inner) = item.as_table_mut() {
            put_last(inner);
        }
    }
}

#[cfg(test)]
mod tests;
