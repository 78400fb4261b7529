//! Documents that are refused as a whole, because they are no lists of addresses.

use crate::{error::Error, lines::numbered, list::shortened};

/// Addresses that stand before the names in hosts files.
const BLOCKED: [&str; 8] = [
    "0.0.0.0",
    "127.0.0.1",
    "127.0.1.1",
    "::",
    "::1",
    "fe80::1%lo0",
    "255.255.255.255",
    "ff02::1",
];

/// Fails for web pages, hosts files, and rules of iptables.
pub fn check(text: &str) -> Result<(), Error> {
    let mut is_first = true;
    for (number, line) in numbered(text) {
        if line.is_empty() {
            continue;
        }
        if line.starts_with('<') && (is_first || is_tag(line)) {
            return Err(Error::Page(number, shortened(line)));
        }
        is_first &= line.starts_with(['#', ';']);
        if is_host(line) {
            return Err(Error::Hosts(number, shortened(line)));
        }
        if is_rule(line) {
            return Err(Error::Rules(number, shortened(line)));
        }
    }
    Ok(())
}

fn is_tag(line: &str) -> bool {
    let begin: String = line.chars().take(9).flat_map(char::to_lowercase).collect();
    ["<!doctype", "<html", "<head", "<body", "<?xml"]
        .iter()
        .any(|tag| begin.starts_with(tag))
}

fn is_host(line: &str) -> bool {
    // Every line of a list comes here.
    if !BLOCKED.iter().any(|address| line.starts_with(address)) {
        return false;
    }
    let mut words = line.split_whitespace();
    let (Some(address), Some(name)) = (words.next(), words.next()) else {
        return false;
    };
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    BLOCKED.contains(&address)
        && name.bytes().all(is_of_name)
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// A line of `iptables-save`: a table, a chain with its policy, or a rule.
fn is_rule(line: &str) -> bool {
    if !line.starts_with(['*', '-', 'i']) {
        return false;
    }
    let words: Vec<_> = line.split_whitespace().take(3).collect();
    match words[..] {
        ["*filter" | "*nat" | "*mangle" | "*raw" | "*security"] => true,
        ["-A" | "-I", _, option, ..] => option.starts_with('-'),
        ["iptables" | "ip6tables", option, ..] => option.starts_with('-'),
        _ => false,
    }
}
