//! What shares limits with other hosts.

use std::{path::PathBuf, time::Duration};

use clap::Args;

/// Arguments of `agent`.
#[derive(Debug, Args)]
pub struct Agent {
    /// Where the store is: redis://[USER[:PASSWORD]@]HOST[:PORT][/DB], rediss:// with TLS, or unix:///PATH; Redis 7.0,
    /// Valkey or later, also a cluster
    #[arg(long, value_name = "URL")]
    pub store: String,
    /// The store's password; not in the address then, which everybody on this host can see
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Who has signed the store's certificate (PEM); else whom this host trusts
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// This host's certificate for the store (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// How often to exchange: 10ms to 10s
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = interval)]
    pub interval: Duration,
    /// What this host is called in the store; else its host name
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub host: Option<String>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let given = humantime::parse_duration(text)
        .map_err(|error| format!("{error}: write one as in 100ms or 1s"))?;
    let possible = Duration::from_millis(10)..=Duration::from_secs(10);
    if possible.contains(&given) {
        return Ok(given);
    }
    Err("write 10ms to 10s".to_owned())
}
