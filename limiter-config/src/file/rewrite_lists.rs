//! The lists of a file with other settings.

use toml_edit::{Array, DocumentMut, Item, Table, Value};

use super::rewrite::{by_name, comment, insert, remove, replace, text};
use crate::{
    ALLOW, DENY, Invalid, Prefixes, Settings, invalid,
    lists::{prefix, show},
};

/// Changes the lists whose prefixes or scope differ. `new` is what is printed for the wanted settings.
pub fn rewrite(
    document: &mut DocumentMut,
    new: &Table,
    before: &Settings,
    wanted: &Settings,
) -> Result<(), Invalid> {
    let [old, wanted] = [before, wanted].map(by_name);
    let names: std::collections::BTreeSet<_> = old.keys().chain(wanted.keys()).collect();
    for name in names {
        let (was, is) = (old.get(name), wanted.get(name));
        if was == is {
            continue;
        }
        let printed = new.get("lists").and_then(|lists| lists.get(name));
        if !document.contains_key("lists") {
            let mut header = Table::new();
            header.set_position(isize::MAX / 2);
            header.decor_mut().set_prefix("\n");
            document.insert("lists", Item::Table(header));
        }
        let Some(lists) = document.get_mut("lists").and_then(Item::as_table_like_mut) else {
            continue;
        };
        let always = name == ALLOW || name == DENY;
        match (lists.get_mut(name), was, is, printed) {
            (Some(item), Some((was, scope)), Some((is, now)), _)
                if scope == now && (printed.is_some() || always) =>
            {
                change(item, name, was, is)?;
            }
            (Some(item), _, _, Some(printed)) if !has_source(item) => replace(item, printed),
            (Some(_), _, _, Some(_)) => {
                return Err(invalid!(
                    "the scope of the list {name} has changed, and it is read from elsewhere: change its scope in the file"
                ));
            }
            (None, _, _, Some(printed)) => insert(lists, name, printed),
            (_, _, _, None) => remove(lists, name),
        }
    }
    Ok(())
}

/// Returns true if a list has more than prefixes and a scope.
fn has_source(item: &Item) -> bool {
    let keys = item
        .as_table_like()
        .into_iter()
        .flat_map(|table| table.iter());
    let mut keys = keys.map(|(key, _)| key);
    keys.any(|key| !["prefixes", "scope"].contains(&key))
}

/// Changes the prefixes of a list.
fn change(item: &mut Item, name: &str, was: &Prefixes, is: &Prefixes) -> Result<(), Invalid> {
    let from_elsewhere = has_source(item);
    let item = match item.as_table_like_mut() {
        Some(table) => {
            if !table.contains_key("prefixes") {
                insert(table, "prefixes", &Item::Value(Array::new().into()));
            }
            table.get_mut("prefixes")
        }
        None => Some(item),
    };
    let Some(array) = item.and_then(Item::as_array_mut) else {
        return Ok(());
    };
    let mut gone: Prefixes = was.difference(is).collect();
    keep(array, |prefix| is.contains(&prefix), &mut gone);
    if let Some(first) = gone.first().filter(|_| from_elsewhere) {
        return Err(invalid!(
            "the list {name} is read from elsewhere, where {} is still: remove it there, or write to another file",
            show(&first)
        ));
    }
    let new: Vec<_> = is.difference(was).map(|net| show(&net)).collect();
    if !new.is_empty() {
        add(array, new);
    }
    Ok(())
}

/// Keeps some prefixes of an array, and takes the others from `gone`. Their comments stay.
fn keep(array: &mut Array, stays: impl Fn(ipnet::IpNet) -> bool, gone: &mut Prefixes) {
    let values: Vec<Value> = array.iter().cloned().collect();
    array.clear();
    let mut above = String::new();
    for mut value in values {
        let net = value.as_str().and_then(|text| prefix(text).ok());
        match net {
            Some(net) if !stays(net) => {
                gone.remove(&net);
                above += comment(value.decor()).unwrap_or_default().trim_end();
            }
            _ => {
                let front = joined(&std::mem::take(&mut above), text(value.decor().prefix()));
                value.decor_mut().set_prefix(front);
                array.push_formatted(value);
            }
        }
    }
    if !above.is_empty() {
        let end = array.trailing().as_str().unwrap_or_default();
        let end = if end.contains('\n') { end } else { "\n" };
        let end = joined(&above, end);
        array.set_trailing(end);
    }
}

/// The comments in front of a prefix that goes, and what stands in front of the next one.
fn joined(above: &str, next: &str) -> String {
    match next.trim_start().starts_with('#') && !above.is_empty() {
        true => format!("{above}\n    {}", next.trim_start()),
        false => format!("{above}{next}"),
    }
}

/// Adds prefixes, on lines of their own if the others have them.
fn add(array: &mut Array, prefixes: Vec<String>) {
    let last = array
        .len()
        .checked_sub(1)
        .and_then(|last| array.get_mut(last));
    let [before, behind] = match last {
        Some(last) => {
            let decor = last.decor_mut();
            let both = [decor.prefix(), decor.suffix()].map(|raw| text(raw).to_owned());
            decor.set_suffix("");
            both
        }
        None => Default::default(),
    };
    let end = behind + array.trailing().as_str().unwrap_or_default();
    let indent = before
        .rsplit_once('\n')
        .map(|(_, indent)| indent.to_owned());
    let Some(indent) = indent.or_else(|| end.contains('\n').then(|| "    ".to_owned())) else {
        prefixes.into_iter().for_each(|prefix| array.push(prefix));
        return;
    };
    // A comment behind the last prefix stays there.
    let mut front = match end.rsplit_once('\n') {
        Some((comment, _)) => format!("{comment}\n{indent}"),
        None => format!("\n{indent}"),
    };
    for prefix in prefixes {
        let mut value = Value::from(prefix);
        value
            .decor_mut()
            .set_prefix(std::mem::replace(&mut front, format!("\n{indent}")));
        array.push_formatted(value);
    }
    array.set_trailing("\n");
    array.set_trailing_comma(true);
}
