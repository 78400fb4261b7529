//! The interfaces that a verb works on: one, several, or every one that limiter is attached to.

use std::{collections::HashSet, ffi::OsString, io};

use clap::Args;

use super::{
    output::{Usage, note},
    values::interface,
};
use crate::{config::Invalid, kernel::Attachment};

// Interfaces as the only operands of a verb.
#[derive(Debug, Args)]
pub struct On {
    /// The interfaces, separated by spaces or commas; `all` or --all: all that limiter is attached to
    #[arg(value_name = "IFACE", required = true, value_delimiter = ',', value_parser = interface)]
    pub interfaces: Vec<String>,
}

// Interfaces in one word, for verbs with further operands.
#[derive(Debug, Args)]
pub struct OnOne {
    /// The interface, or several as in eth0,eth1
    #[arg(value_name = "IFACE", value_parser = names)]
    pub interfaces: Names,
    /// All interfaces that limiter is attached to, instead of IFACE; IFACE `all` means the same
    // For help and completion only: `all_as_operand` replaces it by the operand `all` before the line is parsed.
    #[arg(long)]
    pub all: bool,
}

/// Names separated by commas.
#[derive(Clone, Debug)]
pub struct Names(pub Vec<String>);

/// Reads names separated by commas.
pub fn names(text: &str) -> Result<Names, Invalid> {
    let names: Result<_, _> = text.split(',').map(interface).collect();
    names.map(Names)
}

/// The word for every interface that limiter is attached to. The kernel gives no interface of that name an IPv4
/// address.
pub const ALL: &str = "all";

/// Returns true if the names mean all interfaces that limiter is attached to.
pub fn is_all(names: &[String]) -> bool {
    matches!(names, [name] if name == ALL)
}

/// The names without repetitions.
pub fn unique(names: &[String]) -> Vec<&str> {
    let mut before = HashSet::new();
    let names = names.iter().map(String::as_str);
    names.filter(|name| before.insert(*name)).collect()
}

/// Does `work` on each interface. A failure on one does not stop the others. Each failure is reported; the command
/// ends with the last one.
pub async fn each(
    names: &[String],
    work: impl AsyncFn(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut failed: Option<anyhow::Error> = None;
    let mut fail = |error: anyhow::Error| {
        if let Some(earlier) = failed.replace(error) {
            note(&earlier.to_string());
        }
    };
    let attached;
    let names = if is_all(names) {
        let (attachments, errors) = Attachment::all().await?;
        if attachments.is_empty() && errors.is_empty() {
            anyhow::bail!("limiter is not attached to any interface: run `limiter attach IFACE`");
        }
        errors.into_iter().for_each(|error| fail(error.into()));
        let names = attachments.into_iter().map(|one| one.interface.name);
        attached = names.collect::<Vec<_>>();
        unique(&attached)
    } else if names.iter().any(|name| name == ALL) {
        let why = format!("'{ALL}' stands for every interface: leave the others out");
        return Err(Usage(why).into());
    } else {
        unique(names)
    };
    for name in &names {
        match work(name).await {
            Ok(()) => {}
            Err(error) if names.len() > 1 && !names_it(&error, name) => {
                fail(anyhow::anyhow!("{name}: {error}"));
            }
            Err(error) => fail(error),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Returns true if the error names its interface, or concerns no interface.
fn names_it(error: &anyhow::Error, name: &str) -> bool {
    error.is::<io::Error>() || error.is::<Usage>() || error.to_string().contains(name)
}

/// Replaces `--all`, anywhere on the line, by the operand IFACE `all`. Not for `detach` and `reset`, which have their
/// own option of that name.
pub fn all_as_operand(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let given = words.iter().position(|word| word == "--all");
    let (Some(given), Some(verb)) = (given, verb(&words)) else {
        return words;
    };
    let verbs = match words[verb].to_str() {
        Some("keep" | "status" | "set" | "reload" | "check") => 1,
        Some("allow" | "deny" | "tier" | "config") => 2,
        _ => return words,
    };
    if given >= verb + verbs && !words[..given].iter().any(|word| word == "--") {
        words.remove(given);
        words.insert(verb + verbs, ALL.into());
    }
    words
}

/// The position of the verb. Only options without values precede it.
fn verb(words: &[OsString]) -> Option<usize> {
    let is_verb = |word: &OsString| !word.as_encoded_bytes().starts_with(b"-");
    words.iter().skip(1).position(is_verb).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_all_replaces_the_interface() {
        let cases = "
limiter deny add 192.0.2.7 --all => limiter deny add all 192.0.2.7
limiter deny add --all 192.0.2.7 => limiter deny add all 192.0.2.7
limiter --strict check --all ::1 => limiter --strict check all ::1
limiter set --rate 5 --all => limiter set all --rate 5
limiter config show --all => limiter config show all
limiter status --all => limiter status all
limiter deny --all add ::1 => limiter deny --all add ::1
limiter deny add eth0 -- --all => limiter deny add eth0 -- --all
limiter reset eth0 --all => limiter reset eth0 --all
limiter detach --all => limiter detach --all
limiter --all => limiter --all
limiter => limiter
";
        for (line, expected) in cases.lines().filter_map(|case| case.split_once(" => ")) {
            let words = all_as_operand(line.split(' ').map(OsString::from));
            assert_eq!(words.join(" ".as_ref()).to_str(), Some(expected));
        }
    }
}
