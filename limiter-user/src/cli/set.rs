//! `limiter set`.

use crate::{
    cli::{
        args::{
            self,
            Change::{By, To},
            FleetOrNone, Switch,
        },
        interfaces::each,
        output::{about, note, outcome, usage},
        ssh,
    },
    config::{
        Algorithm, Invalid, Limit, Scope, Settings, control::is_control, difference::difference,
    },
    kernel::{
        Attachment,
        ops::set::{Lasts, Swapped, set},
    },
};

pub async fn run(arguments: args::Set) -> anyhow::Result<()> {
    if let (Some(To(rate)), Some(To(burst))) = (&arguments.rate, arguments.burst) {
        burst.for_rate(rate).map_err(usage)?;
    }
    let interfaces = &arguments.on.interfaces;
    each(interfaces, async |interface| {
        one(interface, &arguments).await
    })
    .await
}

async fn one(interface: &str, arguments: &args::Set) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await;
    let frame_max = attachment
        .map_err(|error| about(interface, error))?
        .record
        .frame_max;
    let merged = |settings: &Settings| merged(settings, arguments, frame_max);
    ssh::warn_of_change(interface, merged, |client| {
        ssh::allow_first(interface, client)
    })
    .await;
    let lasts = arguments.lasting.lasts();
    let changed = set(interface, lasts, merged)
        .await
        .map_err(|error| about(interface, error))?;
    outcome(is_unchanged(&changed), &told(interface, &changed, lasts));
    let stays = lasts == Lasts::ForGood && changed.old != changed.new;
    // The next reload, and the next boot of a service, would undo it without a word.
    if let Some(file) = changed.file.filter(|_| stays) {
        note(&format!(
            "{} does not know of it: `limiter reload {interface}` would put what it says in force again; `limiter config show {interface}` prints what is in force now",
            file.display()
        ));
    }
    Ok(())
}

/// Whether everything was so already.
pub fn is_unchanged(changed: &Swapped) -> bool {
    changed.old == changed.new
}

/// The changes, a line each, and for how long they are made.
pub fn told(interface: &str, changed: &Swapped, lasts: Lasts) -> String {
    let mut changes = difference(&changed.old, &changed.new, changed.frame_max);
    if changes.is_empty() {
        changes.push("unchanged: it was so already".to_owned());
    }
    changes.extend(told_lasting(interface, changed, lasts));
    let lines = changes.into_iter();
    lines.map(|line| format!("{interface}: {line}\n")).collect()
}

/// For how long a change is made, if not for good.
pub fn told_lasting(interface: &str, changed: &Swapped, lasts: Lasts) -> Option<String> {
    match (lasts, &changed.try_until) {
        (Lasts::DryRun, _) => Some("dry run: nothing was changed".to_owned()),
        (_, Some(until)) => Some(format!(
            "ON TRIAL: undone at {until} unless you say `limiter keep {interface}`"
        )),
        (_, None) => None,
    }
}

fn merged(settings: &Settings, arguments: &args::Set, frame_max: u64) -> Result<Settings, Invalid> {
    let mut new = settings.clone();
    let shadow = arguments.shadow.map(|shadow| matches!(shadow, Switch::On));
    let of_limit =
        arguments.rate.is_some() || arguments.burst.is_some() || arguments.limit.is_some();
    if of_limit {
        let absolute =
            matches!(arguments.rate, Some(To(_))) || matches!(arguments.burst, Some(To(_)));
        let limits = &mut new.limits;
        let limits = chosen(limits, arguments.limit.as_deref(), !absolute, frame_max)?;
        for limit in limits {
            change(limit, arguments, frame_max)
                .map_err(|Invalid(why)| Invalid(format!("limit '{}': {why}", limit.name)))?;
            if arguments.limit.is_some() {
                limit.shadow = shadow.unwrap_or(limit.shadow);
            }
        }
    }
    if arguments.limit.is_none() {
        new.shadow = shadow.unwrap_or(new.shadow);
    }
    if let Some(malformed) = arguments.malformed {
        new.malformed = malformed;
    }
    new_sources(&mut new, arguments)?;
    if let Some(FleetOrNone(fleet)) = &arguments.fleet {
        let limit = arguments.limit.as_deref();
        share(&mut new, fleet.as_deref(), limit, frame_max)?;
    }
    new.check()?;
    Ok(new)
}

/// Changes rate and burst of one limit. Factors scale what is in force.
fn change(limit: &mut Limit, arguments: &args::Set, frame_max: u64) -> Result<(), Invalid> {
    let burst = limit.burst(frame_max)?;
    let window = limit.algorithm == Algorithm::FixedWindow;
    limit.rate = match arguments.rate {
        None => limit.rate,
        Some(To(rate)) => rate,
        Some(By(factor)) => limit.rate.scaled(factor, window)?,
    };
    limit.burst = match arguments.burst {
        None => limit.burst,
        Some(To(burst)) => Some(burst),
        Some(By(factor)) => Some(burst.scaled(factor)?),
    };
    Ok(())
}

fn new_sources(new: &mut Settings, arguments: &args::Set) -> Result<(), Invalid> {
    let old = new.new_sources;
    match arguments.new_sources {
        None => {}
        Some(To(rate)) => new.new_sources = rate.with_burst(old.and_then(|limit| limit.burst)),
        Some(By(factor)) => {
            let limit = new.new_sources.as_mut().ok_or_else(|| {
                Invalid("new sources have no limit to scale: write --new-sources RATE".to_owned())
            })?;
            limit.rate = limit.rate.scaled(factor, false)?;
        }
    }
    if let Some(burst) = arguments.new_sources_burst {
        let limit = new.new_sources.as_mut().ok_or_else(|| {
            Invalid(
                "without a rate of new sources there is no burst: write --new-sources RATE too"
                    .to_owned(),
            )
        })?;
        let in_force = old.unwrap_or(*limit).burst();
        limit.burst = Some(match burst {
            To(burst) => burst,
            By(factor) => factor.of(in_force, &format_args!("new-sources burst {in_force}"))?,
        });
    }
    Ok(())
}

/// Shares the limit with a fleet; or, with none, nothing at all any more.
fn share(
    new: &mut Settings,
    fleet: Option<&str>,
    limit: Option<&str>,
    frame_max: u64,
) -> Result<(), Invalid> {
    let limits = &mut new.limits;
    if fleet.is_some() {
        // What is shared already stays so, and may be all that is meant.
        let shared = |limit: &Limit| limit.scope == Scope::Fleet;
        let shares = limits.iter().any(shared) || !new.fleet_lists.is_empty();
        if limit.is_some() || !shares {
            for limit in chosen(limits, limit, false, frame_max)? {
                limit.scope = Scope::Fleet;
            }
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

/// The limit of that name. Where none is named: the only one, or all of them if `all`.
fn chosen<'a>(
    limits: &'a mut [Limit],
    name: Option<&str>,
    all: bool,
    frame_max: u64,
) -> Result<&'a mut [Limit], Invalid> {
    let fail = |why: String| Err(Invalid(why));
    let Some(first) = limits.first().map(|limit| limit.name.clone()) else {
        return fail(
            "there is no limit to change, only lists: write a [[limit]] in the file, and reload"
                .to_owned(),
        );
    };
    if let Some(name) = name.filter(|name| is_control(name)) {
        return fail(format!(
            "'{name}' is built in: write its rate under [control] in the configuration file, and reload"
        ));
    }
    let Some(name) = name else {
        if all || limits.len() == 1 {
            return Ok(limits);
        }
        return fail(format!(
            "there are several limits: {}: name one, as in --limit {first}, or scale all of them, as in --rate x0.5",
            listed(limits, frame_max)?
        ));
    };
    let Some(index) = limits.iter().position(|limit| limit.name == name) else {
        return fail(format!(
            "there is no limit '{name}': write one of {}",
            listed(limits, frame_max)?
        ));
    };
    Ok(&mut limits[index..=index])
}

/// The limits, each with its rate and burst.
fn listed(limits: &[Limit], frame_max: u64) -> Result<String, Invalid> {
    let one = |limit: &Limit| {
        let Limit { name, rate, .. } = limit;
        Ok(format!(
            "{name} (rate {rate}, burst {})",
            limit.burst(frame_max)?
        ))
    };
    let listed: Result<Vec<_>, _> = limits.iter().map(one).collect();
    Ok(listed?.join(", "))
}
