//! Words of other programs' command lines that say nothing here, or belong in another place.

use std::{ffi::OsString, net::IpAddr};

use crate::cli::shared::{is_interface, prefix};

/// Verbs, and words behind them that are left out: what follows alone matters.
const NOISE: [(&str, &str, Follower); 9] = [
    ("preset", "show list ls print cat get view", Follower::Any),
    ("bans", "list ls show", Follower::Any),
    ("status", "show list ls", Follower::Any),
    ("history", "show list", Follower::Any),
    ("watch", "drops", Follower::Any),
    ("limit", "add new create set", Follower::Operand),
    ("ban", "add ip host from source address", Follower::Prefix),
    (
        "unban check allow deny",
        "ip host from source address",
        Follower::Prefix,
    ),
    (
        "attach set limit reload edit keep reset detach status top watch log check history doctor bans",
        "dev device interface",
        Follower::Interface,
    ),
];

/// The verb that removes a limit by an option, and the words for that elsewhere.
const REMOVES: (&str, [&str; 5]) = ("limit", ["remove", "rm", "delete", "del", "drop"]);

/// The word that must follow a word that says nothing.
#[derive(Clone, Copy, Debug)]
enum Follower {
    Any,
    Operand,
    Prefix,
    Interface,
}

impl Follower {
    fn is(self, word: Option<&str>) -> bool {
        match (self, word) {
            (Self::Any, _) => true,
            (_, None) => false,
            (Self::Operand, Some(word)) => is_operand(word),
            (Self::Prefix, Some(word)) => prefix(word).is_ok() || word.parse::<IpAddr>().is_ok(),
            (Self::Interface, Some(word)) => is_interface(word),
        }
    }
}

/// The words in the form that clap reads. An interface is never taken for a word that says nothing.
pub fn rephrased(words: Vec<OsString>) -> Vec<OsString> {
    without_removal(without_noise(words))
}

fn text(words: &[OsString], place: usize) -> Option<&str> {
    words.get(place)?.to_str()
}

fn is_operand(word: &str) -> bool {
    !word.starts_with('-')
}

/// The place behind the verb, and behind the interface if there is one.
fn begin(words: &[OsString]) -> usize {
    let is_named = text(words, 2).is_some_and(|word| is_operand(word) && is_interface(word));
    2 + usize::from(is_named)
}

fn without_noise(mut words: Vec<OsString>) -> Vec<OsString> {
    let Some(verb) = text(&words, 1).map(str::to_owned) else {
        return words;
    };
    for place in [2, begin(&words)] {
        let Some(word) = text(&words, place).filter(|word| !is_interface(word)) else {
            continue;
        };
        let says_nothing = |(verbs, noise, follower): &(&str, &str, Follower)| {
            verbs.split(' ').any(|known| known == verb)
                && noise.split(' ').any(|known| known == word)
                && follower.is(text(&words, place + 1))
        };
        if NOISE.iter().any(says_nothing) {
            words.remove(place);
        }
    }
    words
}

/// `limit remove NAME` and `limit NAME remove` as `limit NAME --remove`.
fn without_removal(mut words: Vec<OsString>) -> Vec<OsString> {
    let (verb, removes) = REMOVES;
    if text(&words, 1) != Some(verb) {
        return words;
    }
    let first = begin(&words);
    let is_operand_at = |place| text(&words, place).is_some_and(is_operand);
    let removes_at = |place| text(&words, place).is_some_and(|word| removes.contains(&word));
    let place = if removes_at(first) && is_operand_at(first + 1) {
        first
    } else if is_operand_at(first) && removes_at(first + 1) {
        first + 1
    } else {
        return words;
    };
    words[place] = "--remove".into();
    words
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::rephrased;

    #[test]
    fn words_of_other_programs_are_left_out_or_moved() {
        // `lo` and `all` are interfaces everywhere.
        for (typed, read) in [
            ("preset show web", "preset web"),
            ("preset list", "preset"),
            ("bans list", "bans"),
            ("bans lo list", "bans lo"),
            ("status dev lo", "status lo"),
            ("ban add 192.0.2.7", "ban 192.0.2.7"),
            ("ban lo ip 192.0.2.7", "ban lo 192.0.2.7"),
            ("deny from 192.0.2.0/24", "deny 192.0.2.0/24"),
            ("check lo host 192.0.2.7", "check lo 192.0.2.7"),
            ("limit remove dns", "limit --remove dns"),
            ("limit lo delete dns", "limit lo --remove dns"),
            ("limit lo dns rm", "limit lo dns --remove"),
            ("limit dns del", "limit dns --remove"),
            ("limit lo add dns --rate 5", "limit lo dns --rate 5"),
            // The words may be names, too.
            ("limit lo remove", "limit lo remove"),
            ("limit lo remove --rate 5", "limit lo remove --rate 5"),
            ("limit lo add --rate 5", "limit lo add --rate 5"),
            ("limit add --rate 5", "limit add --rate 5"),
            ("ban from", "ban from"),
            ("status dev", "status dev"),
            ("preset web", "preset web"),
            ("watch lo", "watch lo"),
        ] {
            let words = |line: &str| -> Vec<OsString> {
                let words = std::iter::once("limiter").chain(line.split(' '));
                words.map(OsString::from).collect()
            };
            assert_eq!(rephrased(words(typed)), words(read), "{typed}");
        }
    }
}
