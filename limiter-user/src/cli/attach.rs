//! `limiter attach`.

use crate::cli::{
    args,
    output::{about, note, print, usage},
};
use crate::config::{Limit, Settings, settings::DEFAULT_LIMIT};
use crate::kernel::{
    Attachment,
    attach::{attach, attach_on_trial},
    detach::detach,
};
use crate::stats::collect;
use crate::view;

pub async fn run(arguments: args::Attach) -> anyhow::Result<()> {
    let settings = settings(&arguments);
    if let Some(burst) = arguments.burst {
        burst.for_rate(&arguments.rate).map_err(usage)?;
    }
    let mut done: Vec<&str> = Vec::new();
    for interface in unique(&arguments.interfaces) {
        let attached = match arguments.try_for {
            None => attach(interface, &settings).await,
            Some(duration) => attach_on_trial(interface, &settings, duration).await,
        };
        if let Err(error) = attached {
            undo(&done).await;
            return Err(about(interface, error));
        }
        done.push(interface);
    }
    for interface in done {
        let attachment = Attachment::open(interface).await?;
        print(&view::status::attached(&collect::interface(&attachment)?))?;
    }
    Ok(())
}

fn settings(arguments: &args::Attach) -> Settings {
    Settings {
        limit: Limit {
            name: DEFAULT_LIMIT.to_owned(),
            rate: arguments.rate,
            burst: arguments.burst,
            key: arguments.key,
        },
        shadow: arguments.shadow,
        malformed: arguments.malformed,
        max_sources: arguments.max_sources,
        mode: arguments.mode,
    }
}

fn unique(interfaces: &[String]) -> Vec<&str> {
    let mut unique = Vec::new();
    for interface in interfaces {
        if !unique.contains(&interface.as_str()) {
            unique.push(interface.as_str());
        }
    }
    unique
}

/// All interfaces or none.
async fn undo(done: &[&str]) {
    for interface in done {
        match detach(interface).await {
            Ok(()) => note(&format!(
                "{interface}: detached again, because another one failed"
            )),
            Err(error) => note(&format!(
                "{interface}: is attached, and detaching failed: {error}"
            )),
        }
    }
}
