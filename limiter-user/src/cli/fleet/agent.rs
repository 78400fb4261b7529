use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use crate::cli::shared::{SECOND, duration};

/// Share limits and lists with other hosts through a store
///
/// It runs until it is interrupted.
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub struct Agent {
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// Address of the store. Redis 7.0, Valkey or later: redis://[USER[:PASSWORD]@]HOST[:PORT][/DB],
    /// rediss:// with TLS, or unix:///PATH; of a primary that Sentinels know:
    /// redis+sentinel://[USER[:PASSWORD]@]SENTINEL[:PORT]/NAME[/DB], rediss+sentinel:// with TLS.
    /// PostgreSQL 14 or later: postgres://[USER[:PASSWORD]@]HOST[:PORT]/DB, with TLS if
    /// ?sslmode=verify-full follows. Of several servers (HOST,HOST), the primary is used
    #[arg(long, value_name = "URL", required = true)]
    pub store: Option<String>,
    /// File with the store's password. A password in the address is visible to all users of this host
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Certificate authority of the store (PEM). Default: the authorities that this host trusts
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Certificate of this host (PEM), for a store that demands one
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Time between exchanges with the store: 10ms to 2s
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration(10..=2 * SECOND, "100ms"))]
    pub interval: Duration,
    /// Name of this host in the store. Default: its host name
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub host: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Print the SQL that makes a PostgreSQL database a store
    Schema,
}

/// Says that this build has no agent.
#[cfg(not(feature = "fleet"))]
pub async fn run(_: Agent) -> anyhow::Result<()> {
    anyhow::bail!(
        "this build of limiter has no agent for fleets: install a package of limiter, or build it with the feature `fleet`"
    )
}

#[cfg(feature = "fleet")]
pub use super::run_agent::run;
