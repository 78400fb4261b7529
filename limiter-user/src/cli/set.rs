//! `limiter set`.

use crate::cli::{
    args::{self, FleetOrNone, Switch},
    output::{about, note, report, usage},
    ssh,
};
use crate::config::{
    Invalid, Limit, Scope, Settings, difference::difference, settings::CONTROL_LIMIT,
};
use crate::kernel::set::{Swapped, set};

pub async fn run(arguments: args::Set) -> anyhow::Result<()> {
    if let (Some(rate), Some(burst)) = (&arguments.rate, arguments.burst) {
        burst.for_rate(rate).map_err(usage)?;
    }
    let interface = &arguments.interface;
    ssh::warn_of_change(
        interface,
        |settings| merged(settings, &arguments),
        |client| ssh::allow_first(interface, client),
    )
    .await;
    let changed = set(interface, |settings| merged(settings, &arguments))
        .await
        .map_err(|error| about(interface, error))?;
    report(&told(interface, &changed));
    // The next reload, and the next boot of a service, would undo it without a word.
    if let Some(file) = changed.file.filter(|_| changed.old != changed.new) {
        note(&format!(
            "{} does not know of it: `limiter reload {interface}` would put what it says in force again; `limiter config show {interface}` prints what is in force now",
            file.display()
        ));
    }
    Ok(())
}

/// What has changed, on one line; and before that, what was taken over.
pub fn told(interface: &str, changed: &Swapped) -> String {
    let taken_over = changed.taken_over.as_ref();
    let taken_over = taken_over.map_or_else(String::new, |what| format!("{interface}: {what}\n"));
    let changes = in_words(&changed.old, &changed.new);
    format!("{taken_over}{interface}: {changes}\n")
}

fn in_words(old: &Settings, new: &Settings) -> String {
    let changes = difference(old, new);
    if changes.is_empty() {
        "unchanged: it was so already".to_owned()
    } else {
        changes.join(", ")
    }
}

fn merged(settings: &Settings, arguments: &args::Set) -> Result<Settings, Invalid> {
    let mut new = settings.clone();
    let shadow = arguments.shadow.map(|shadow| matches!(shadow, Switch::On));
    let of_limit =
        arguments.rate.is_some() || arguments.burst.is_some() || arguments.limit.is_some();
    if of_limit {
        let limit = chosen(&mut new.limits, arguments.limit.as_deref())?;
        limit.rate = arguments.rate.unwrap_or(limit.rate);
        limit.burst = arguments.burst.or(limit.burst);
        if arguments.limit.is_some() {
            limit.shadow = shadow.unwrap_or(limit.shadow);
        }
    }
    if arguments.limit.is_none() {
        new.shadow = shadow.unwrap_or(new.shadow);
    }
    if let Some(malformed) = arguments.malformed {
        new.malformed = malformed;
    }
    if let Some(new_sources) = arguments.new_sources {
        let burst = settings.new_sources.and_then(|limit| limit.burst);
        new.new_sources = new_sources.with_burst(arguments.new_sources_burst.or(burst));
    } else if let Some(burst) = arguments.new_sources_burst {
        let limit = new.new_sources.as_mut().ok_or_else(|| {
            Invalid(
                "without a rate of new sources there is no burst: write --new-sources RATE too"
                    .to_owned(),
            )
        })?;
        limit.burst = Some(burst);
    }
    if let Some(FleetOrNone(fleet)) = &arguments.fleet {
        share(&mut new, fleet.as_deref(), arguments.limit.as_deref())?;
    }
    new.check()?;
    Ok(new)
}

/// Shares the limit with a fleet; or, with none, nothing at all any more.
fn share(new: &mut Settings, fleet: Option<&str>, limit: Option<&str>) -> Result<(), Invalid> {
    let limits = &mut new.limits;
    if fleet.is_some() {
        // What is shared already stays so, and may be all that is meant.
        let shared = |limit: &Limit| limit.scope == Scope::Fleet;
        let shares = limits.iter().any(shared) || !new.fleet_lists.is_empty();
        if limit.is_some() || !shares {
            chosen(limits, limit)?.scope = Scope::Fleet;
        }
    } else if limit.is_some() {
        return Err(Invalid(
            "whoever is of no fleet shares nothing at all: write --fleet none without --limit"
                .to_owned(),
        ));
    } else {
        for limit in limits {
            limit.scope = Scope::Host;
        }
        new.fleet_lists.clear();
    }
    new.fleet = fleet.map(str::to_owned);
    Ok(())
}

/// The limit of that name; the only one where none is named.
fn chosen<'a>(limits: &'a mut [Limit], name: Option<&str>) -> Result<&'a mut Limit, Invalid> {
    let names: Vec<_> = limits.iter().map(|limit| limit.name.clone()).collect();
    let names = names.join(", ");
    if limits.is_empty() {
        return Err(Invalid(
            "there is no limit to change, only lists: write a [[limit]] in the file, and reload"
                .to_owned(),
        ));
    }
    if name == Some(CONTROL_LIMIT) {
        return Err(Invalid(format!(
            "'{CONTROL_LIMIT}' is built in and cannot be changed: attach without --exempt control to be without it"
        )));
    }
    let found = match (name, limits.len()) {
        (Some(name), _) => limits.iter_mut().find(|limit| limit.name == name),
        (None, 1) => limits.first_mut(),
        (None, _) => {
            return Err(Invalid(format!(
                "there are several limits ({names}): say which with --limit NAME"
            )));
        }
    };
    found.ok_or_else(|| {
        Invalid(format!(
            "there is no limit '{}': write one of {names}",
            name.unwrap_or_default()
        ))
    })
}
