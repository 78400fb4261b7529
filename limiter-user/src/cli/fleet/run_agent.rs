//! Runs the agent by the arguments of its command.

use std::path::Path;

use anyhow::anyhow;
use limiter_fleet::{agent::Options, store};
use limiter_kernel::sys::requirements;

use super::agent::{Agent, Verb};
use crate::{
    agent,
    cli::shared::{interruption, note, print},
    observe::own_name,
};

/// The longest file in bytes: longer than any password or certificate.
const LONGEST: u64 = 1 << 20;

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
