//! The interfaces that a verb works on: one, several, or every one that limiter is attached to.

use std::{collections::HashSet, io};

use clap::{ArgAction, Args};
use limiter_kernel::Attachment;

use super::{Usage, at_once::at_once, interface, output::note_error};

// Interfaces as the only operands of a verb.
#[derive(Debug, Args)]
pub struct On {
    /// The interfaces, separated by spaces or commas; or `all` for all that limiter is attached to
    #[arg(value_name = "IFACE", required = true, value_delimiter = ',', value_parser = interface)]
    pub interfaces: Vec<String>,
}

// Interfaces in one word, for verbs with further operands.
#[derive(Debug, Args)]
pub struct OnOne {
    /// The interface, several as in eth0,eth1, or `all` for all that limiter is attached to
    #[arg(value_name = "IFACE", required = true, action = ArgAction::Set, num_args = 1, value_delimiter = ',', value_parser = interface)]
    pub interfaces: Vec<String>,
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

/// The interfaces that are named, each once: with `all`, every one that limiter is attached to.
pub async fn named(names: &[String]) -> anyhow::Result<Vec<String>> {
    if !is_all(names) {
        refuse_mixed(names)?;
        return Ok(unique(names).into_iter().map(str::to_owned).collect());
    }
    let mut attached = Vec::new();
    let name = async |attachment: Attachment| attached.push(attachment.interface.name);
    let errors = Attachment::visit_all(name).await?;
    match errors.into_iter().next() {
        Some(error) if attached.is_empty() => Err(error.into()),
        None if attached.is_empty() => Err(nothing_attached()),
        _ => Ok(attached),
    }
}

/// Fails if other names stand beside `all`.
fn refuse_mixed(names: &[String]) -> Result<(), Usage> {
    match names.iter().any(|name| name == ALL) {
        true => Err(Usage(format!(
            "'{ALL}' stands for every interface: leave the others out"
        ))),
        false => Ok(()),
    }
}

fn nothing_attached() -> anyhow::Error {
    anyhow::anyhow!("limiter is not attached to any interface: run `limiter attach IFACE`")
}

/// Does `work` on each interface. A failure on one does not stop the others. Each failure is reported; the command
/// ends with the last one.
pub async fn each(
    names: &[String],
    work: impl AsyncFn(&str) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let mut failed: Option<anyhow::Error> = None;
    let mut fail = |error: anyhow::Error| {
        if let Some(earlier) = failed.replace(error) {
            note_error(&earlier);
        }
    };
    let mut attached = Vec::new();
    let names = if is_all(names) {
        let name = async |attachment: Attachment| attached.push(attachment.interface.name);
        let errors = Attachment::visit_all(name).await?;
        if attached.is_empty() && errors.is_empty() {
            return Err(nothing_attached());
        }
        errors.into_iter().for_each(|error| fail(error.into()));
        unique(&attached)
    } else {
        refuse_mixed(names)?;
        unique(names)
    };
    for (name, done) in names.iter().zip(at_once(&names, work).await) {
        match done {
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
