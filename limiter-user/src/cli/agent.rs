//! `limiter agent`.

use std::path::Path;

use anyhow::anyhow;
use limiter_fleet::{agent::Options, store};

use crate::{
    agent,
    cli::{args, log::interruption, output::note},
    files,
    kernel::sys::requirements,
};

/// Longer than any password or certificate.
const LONGEST: u64 = 1 << 20;

pub async fn run(arguments: args::Agent) -> anyhow::Result<()> {
    // Without them it would go on, and share nothing for ever.
    requirements::privileges()?;
    let stop = interruption()?;
    let args::Agent {
        store: url,
        password_file,
        ca,
        cert,
        key,
        interval,
        host,
    } = arguments;
    let options = Options {
        store: store::Options {
            password: read("the password file", password_file.as_deref())?,
            ca: read("the CA file", ca.as_deref())?,
            cert: read("the certificate", cert.as_deref())?,
            key: read("the key", key.as_deref())?,
            ..store::Options::new(&url)
        },
        interval,
        host: host.unwrap_or_else(own_name),
        say: note,
    };
    agent::run(options, stop).await
}

/// Reads a file that an option names.
fn read(what: &str, path: Option<&Path>) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let text = files::read(path, LONGEST).map_err(|error| {
        anyhow!(
            "{what} {} cannot be read ({error}): name a file that this user may read",
            path.display()
        )
    })?;
    Ok(Some(text))
}

/// What this host calls itself.
fn own_name() -> String {
    let name = nix::unistd::gethostname().ok();
    name.and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "host".to_owned())
}
