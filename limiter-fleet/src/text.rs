//! Formats numbers and prefixes for messages.

use ipnet::IpNet;

/// Formats a number with its noun: `1 host`, `3 prefixes`.
pub fn counted(number: u64, word: &str) -> String {
    let ending = match number {
        1 => "",
        _ if word.ends_with('x') => "es",
        _ => "s",
    };
    format!("{number} {word}{ending}")
}

/// Formats a prefix. A single address has no length.
pub fn show(prefix: &IpNet) -> String {
    if prefix.prefix_len() == prefix.max_prefix_len() {
        prefix.addr().to_string()
    } else {
        prefix.to_string()
    }
}
