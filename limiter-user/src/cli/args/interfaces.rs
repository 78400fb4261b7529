//! The operand IFACE.

use clap::Args;

use super::values::interface;

/// Interfaces, of verbs without other operands.
#[derive(Debug, Args)]
pub struct On {
    /// The interface, or several; all (or --all) stands for every one that limiter is attached to
    #[arg(value_name = "IFACE", required = true, value_delimiter = ',', value_parser = interface)]
    pub interfaces: Vec<String>,
}

/// Interfaces in one word, of verbs with other operands behind it.
#[derive(Debug, Args)]
pub struct OnOne {
    /// The interface, or several as in eth0,eth1
    #[arg(value_name = "IFACE", value_parser = names)]
    pub interfaces: Names,
    /// Every interface that limiter is attached to, in the place of IFACE; the word all is the same
    // For help and completion: `cli::interfaces` makes the operand `all` of it before the line is parsed.
    #[arg(long)]
    pub all: bool,
}

/// Names with commas between.
#[derive(Clone, Debug)]
pub struct Names(Vec<String>);

impl std::ops::Deref for Names {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

/// Reads names with commas between.
pub fn names(text: &str) -> Result<Names, String> {
    text.split(',')
        .map(interface)
        .collect::<Result<_, _>>()
        .map(Names)
}
