//! Verbs for before and beside: they limit nothing.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::values::{NewSourcesRate, duration, interface};
use crate::config::Mode;

/// Arguments of `learn`.
#[derive(Debug, Args)]
pub struct Learn {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface, required_unless_present = "capture", requires = "duration")]
    pub interface: Option<String>,
    /// How long to watch: 90s, 10m, 1h; Ctrl-C ends it early
    #[arg(long = "for", id = "duration", value_name = "DURATION", value_parser = learn_for)]
    pub duration: Option<Duration>,
    /// From a capture (pcap or pcapng) instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["interface", "duration", "mode"])]
    pub capture: Option<PathBuf>,
    /// Write the configuration to this file; left out, to standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Even if that file is there
    #[arg(long, requires = "output")]
    pub force: bool,
    /// How many of the usual sources are to lose nothing, in percent
    #[arg(long, value_name = "PERCENT", default_value = "99.9", value_parser = percent)]
    pub keep: f64,
    /// How fast new sources are taken in, less than the default of 10k/s too; left out, four times as fast as they came,
    /// and at least 10k/s
    #[arg(long, value_name = "RATE|none", allow_hyphen_values = true)]
    pub new_sources: Option<NewSourcesRate>,
    /// Where the program runs that watches
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
}

fn learn_for(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if (Duration::from_secs(1)..=Duration::from_secs(7 * 86_400)).contains(&duration) {
        Ok(duration)
    } else {
        Err("it watches for 1s to 7days: write a duration in between, as in 10m".to_owned())
    }
}

/// A share, above 0 and at most 1.
fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (50.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a share of 50 to 100 percent is wanted: write a number, as in 99.9".to_owned()),
    }
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    pub interface: String,
    /// For programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// How long the traffic lasts, 1s to 60s
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub duration: Duration,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// The page: a verb, or limiter.toml; left out, that of the whole command
    #[arg(value_name = "PAGE")]
    pub page: Option<String>,
    /// Write all pages into this folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "page")]
    pub folder: Option<PathBuf>,
}
