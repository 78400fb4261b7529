//! Sets of firewalls by name, of which a list may have several.

use crate::{error::Error, list::shortened, plain::unquoted};

/// The sets that are read: those that `fields` names, or the only one.
pub fn chosen(found: &[String], fields: &[String]) -> Result<Vec<String>, Error> {
    let names = || found.iter().map(|name| shortened(name)).collect();
    if let Some(missing) = fields.iter().find(|field| !found.contains(field)) {
        return Err(Error::NoSet(missing.clone(), names()));
    }
    match (found, fields) {
        ([_, _, ..], []) => Err(Error::WhichSet(names())),
        (_, []) => Ok(found.to_vec()),
        (_, fields) => Ok(fields.to_vec()),
    }
}

/// The words of a line. A text in quotes is one word, without its quotes.
pub fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let end = match rest.strip_prefix('"').and_then(|inner| inner.find('"')) {
            Some(end) => end + 2,
            None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        words.push(unquoted(&rest[..end]));
        rest = rest[end..].trim_start();
    }
    words
}
