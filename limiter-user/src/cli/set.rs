//! `limiter set`.

use crate::cli::{
    args::{self, Switch},
    output::{about, print, usage},
};
use crate::config::{Invalid, Settings};
use crate::kernel::set::set;

pub async fn run(arguments: args::Set) -> anyhow::Result<()> {
    if let (Some(rate), Some(burst)) = (&arguments.rate, arguments.burst) {
        burst.for_rate(rate).map_err(usage)?;
    }
    let interface = &arguments.interface;
    let changed = set(interface, |settings| merged(settings, &arguments))
        .await
        .map_err(|error| about(interface, error))?;
    print(&format!(
        "{interface}: {}\n",
        difference(&changed.old, &changed.new)
    ))?;
    Ok(())
}

fn merged(settings: &Settings, arguments: &args::Set) -> Result<Settings, Invalid> {
    let mut new = settings.clone();
    if let Some(rate) = arguments.rate {
        new.limit.rate = rate;
    }
    if let Some(burst) = arguments.burst {
        new.limit.burst = Some(burst);
    }
    if let Some(shadow) = arguments.shadow {
        new.shadow = matches!(shadow, Switch::On);
    }
    if let Some(malformed) = arguments.malformed {
        new.malformed = malformed;
    }
    if let Some(burst) = new.limit.burst {
        burst.for_rate(&new.limit.rate)?;
    }
    Ok(new)
}

fn difference(old: &Settings, new: &Settings) -> String {
    let burst = |settings: &Settings| {
        settings.limit.burst.map_or_else(
            || "one second's worth".to_owned(),
            |burst| burst.to_string(),
        )
    };
    let malformed = |settings: &Settings| settings.malformed.name().to_owned();
    let on = |shadow: bool| if shadow { "on" } else { "off" };
    let mut changes = Vec::new();
    let mut change = |what: &str, from: String, to: String| {
        if from != to {
            changes.push(format!("{what} {from} -> {to}"));
        }
    };
    change(
        "rate",
        old.limit.rate.to_string(),
        new.limit.rate.to_string(),
    );
    change("burst", burst(old), burst(new));
    change(
        "shadow",
        on(old.shadow).to_owned(),
        on(new.shadow).to_owned(),
    );
    change("malformed", malformed(old), malformed(new));
    if changes.is_empty() {
        "unchanged: it was so already".to_owned()
    } else {
        changes.join(", ")
    }
}
