//! Verbs of lists.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use ipnet::IpNet;

use super::{
    Lasting, OnOne,
    values::{duration, prefix},
};

/// What to do with a list.
#[derive(Debug, Subcommand)]
pub enum ListVerb {
    /// Put prefixes on it; all of them, or none if one is wrong
    Add(ListAdd),
    /// Take prefixes off it; those that are not there are named
    Remove(ListEdit),
    /// Put these prefixes in the place of all that are on it
    Replace(ListEdit),
    /// Print what is on it
    List(ListShow),
}

/// What to do with a list that has a name.
#[derive(Debug, Subcommand)]
pub enum TierVerb {
    /// Put prefixes on it; all of them, or none if one is wrong
    Add(TierAdd),
    /// Take prefixes off it; those that are not there are named
    Remove(TierEdit),
    /// Put these prefixes in the place of all that are on it
    Replace(TierEdit),
    /// Print what is on it
    List(TierShow),
}

/// Prefixes to put on a list.
#[derive(Debug, Args)]
pub struct ListAdd {
    /// Where
    #[command(flatten)]
    pub edit: ListEdit,
    /// Take them off again after this time (90s, 10m, 2h); for lists that a fleet shares
    #[arg(long = "for", value_name = "DURATION", value_parser = lasts)]
    pub lasts: Option<Duration>,
}

/// Prefixes to put on a list that has a name.
#[derive(Debug, Args)]
pub struct TierAdd {
    /// Where
    #[command(flatten)]
    pub edit: TierEdit,
    /// Take them off again after this time (90s, 10m, 2h); for lists that a fleet shares
    #[arg(long = "for", value_name = "DURATION", value_parser = lasts)]
    pub lasts: Option<Duration>,
}

fn lasts(text: &str) -> Result<Duration, String> {
    const YEAR: u64 = 365 * 24 * 3_600;
    let possible = Duration::from_secs(1)..=Duration::from_secs(10 * YEAR);
    let given = duration(text)?;
    if possible.contains(&given) {
        return Ok(given);
    }
    Err("write 1s to 10y".to_owned())
}

/// Prefixes for a list.
#[derive(Debug, Args)]
pub struct ListEdit {
    /// Where
    #[command(flatten)]
    pub on: OnOne,
    /// What goes on it or off it
    #[command(flatten)]
    pub prefixes: GivenPrefixes,
    /// For how long
    #[command(flatten)]
    pub lasting: Lasting,
}

/// Prefixes on the command line, or in a file.
#[derive(Debug, Args)]
pub struct GivenPrefixes {
    /// The prefixes; an address stands for itself alone
    #[arg(value_name = "CIDR", value_parser = prefix, required_unless_present = "file")]
    pub prefixes: Vec<IpNet>,
    /// A file with one prefix a line; # begins a comment
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Prefixes for a list that has a name.
#[derive(Debug, Args)]
pub struct TierEdit {
    /// Where
    #[command(flatten)]
    pub on: OnOne,
    /// The list
    #[arg(value_name = "NAME")]
    pub name: String,
    /// What goes on it or off it
    #[command(flatten)]
    pub prefixes: GivenPrefixes,
    /// For how long
    #[command(flatten)]
    pub lasting: Lasting,
}

/// Which list to print.
#[derive(Debug, Args)]
pub struct ListShow {
    /// Where
    #[command(flatten)]
    pub on: OnOne,
    /// For programs
    #[arg(long)]
    pub json: bool,
}

/// Which list that has a name to print.
#[derive(Debug, Args)]
pub struct TierShow {
    /// Where
    #[command(flatten)]
    pub on: OnOne,
    /// The list
    #[arg(value_name = "NAME")]
    pub name: String,
    /// For programs
    #[arg(long)]
    pub json: bool,
}
