use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use limiter_fleet::{agent::Options, store};
use limiter_kernel::sys::requirements;

use crate::{
    agent,
    cli::shared::{SECOND, duration, interruption, note, print},
    observe::own_name,
};

/// The longest file in bytes: longer than any password or certificate.
const LONGEST: u64 = 1 << 20;

/// Share limits and lists with other hosts through a store
///
/// It runs until it is interrupted.
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub struct Agent {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Address of the store. Redis 7.0, Valkey or later: redis://[USER[:PASSWORD]@]HOST[:PORT][/DB],
    /// rediss:// with TLS, or unix:///PATH; of a primary that Sentinels know:
    /// redis+sentinel://[USER[:PASSWORD]@]SENTINEL[:PORT]/NAME[/DB], rediss+sentinel:// with TLS.
    /// PostgreSQL 14 or later: postgres://[USER[:PASSWORD]@]HOST[:PORT]/DB, with TLS if
    /// ?sslmode=verify-full follows. Of several servers (HOST,HOST), the primary is used
    #[arg(long, value_name = "URL", required = true)]
    store: Option<String>,
    /// File with the store's password. A password in the address is visible to all users of this host
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Certificate authority of the store (PEM). Default: the authorities that this host trusts
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate of this host (PEM), for a store that demands one
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Time between exchanges with the store: 10ms to 2s
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration(10..=2 * SECOND, "100ms"))]
    interval: Duration,
    /// Name of this host in the store. Default: its host name
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    host: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the SQL that makes a PostgreSQL database a store
    Schema,
}

pub async fn run(arguments: Agent) -> anyhow::Result<()> {
    if let Some(Verb::Schema) = arguments.verb {
        return Ok(print(store::SCHEMA)?);
    }
    // Without privileges the agent would run, but never share anything.
    requirements::privileges()?;
    let stop = interruption()?;
    let url = arguments.store.unwrap_or_default();
    let [cert, key] = store::client_files(&url);
    let (cert, key) = (arguments.cert.or(cert), arguments.key.or(key));
    let options = Options {
        store: store::Options {
            password: read("the password file", arguments.password_file.as_deref())?,
            ca: read("the CA file", arguments.ca.as_deref())?,
            cert: read("the certificate file", cert.as_deref())?,
            key: read("the key file", key.as_deref())?,
            ..store::Options::new(&url)
        },
        interval: arguments.interval,
        host: arguments.host.unwrap_or_else(own_name),
        say: note,
    };
    agent::run(options, stop).await
}

fn read(subject: &str, path: Option<&Path>) -> anyhow::Result<Option<Vec<u8>>> {
    let read = path.map(|path| limiter_config::files::read(path, LONGEST));
    read.transpose().map_err(|error| {
        let path = path.unwrap_or(Path::new("")).display();
        anyhow!("{subject} {path} cannot be read ({error}): name a file that this user can read")
    })
}
