//! `limiter agent`.

use crate::{
    agent,
    cli::{args, log::interruption, output::note},
    fleet::store,
    kernel::sys::requirements,
};

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
    let options = agent::Options {
        store: store::Options {
            password_file,
            ca,
            cert,
            key,
            ..store::Options::new(&url)
        },
        interval,
        host: host.unwrap_or_else(own_name),
        say: note,
    };
    agent::run(options, stop).await
}

/// What this host calls itself.
fn own_name() -> String {
    let name = nix::unistd::gethostname().ok();
    name.and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "host".to_owned())
}
