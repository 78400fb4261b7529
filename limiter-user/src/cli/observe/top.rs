mod by_exporter;
mod keys;
mod live;
mod look;
#[cfg(test)]
mod screens;

use std::{collections::BTreeSet, env, num::NonZeroUsize, sync::Arc, time::Duration};

use clap::{ArgGroup, Args, ColorChoice};
use limiter_config::places::Places;
use limiter_kernel::{Attachment, Error};
use look::look;
use tokio::time::{self, MissedTickBehavior, sleep};

use crate::{
    cli::shared::{
        SECOND, answer, databases, duration, interface, interruption, named, note, write,
    },
    observe::sample::Gauge,
    sandbox,
    show::top,
    viewer,
};

const PRINTED: usize = 20;

/// Show the sources that send most and are dropped most, live
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("printed").args(["once", "json"]).multiple(true))]
pub struct Top {
    /// The interfaces, separated by spaces or commas; or `all` for all that limiter is attached to. The live view shows
    /// the first one; Tab goes to the next
    #[arg(value_name = "IFACE", required = true, value_delimiter = ',', value_parser = interface)]
    interfaces: Vec<String>,
    /// Print once and exit
    #[arg(long)]
    once: bool,
    /// Number of sources that --once and --json print. Default: 20
    #[arg(short = 'n', value_name = "N", requires = "printed")]
    most: Option<NonZeroUsize>,
    /// Print JSON, for programs: without --once, a line for each reading
    #[arg(long)]
    json: bool,
    /// Time between readings; --once measures rates over it. 100ms to 10s
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration(100..=10 * SECOND, "500ms"))]
    interval: Duration,
    /// Colours of the live view: auto (unless the variable NO_COLOR is set), always, never
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        hide_default_value = true,
        conflicts_with = "printed"
    )]
    color: ColorChoice,
}

pub async fn run(arguments: Top) -> anyhow::Result<()> {
    if !arguments.once && !arguments.json {
        live::check_terminal(&arguments.interfaces)?;
    }
    if let Some(viewer) = viewer::needed() {
        return by_exporter::run(&arguments, &viewer).await;
    }
    let interfaces = named(&arguments.interfaces).await?;
    let most = arguments.most.map_or(PRINTED, NonZeroUsize::get);
    match (arguments.once, arguments.json) {
        (true, json) => once(&interfaces, most, arguments.interval, json).await,
        (false, true) => stream(&interfaces, most, arguments.interval).await,
        (false, false) => {
            let is_coloured = is_coloured(arguments.color);
            live::run(interfaces, arguments.interval, is_coloured).await
        }
    }
}

/// Returns true if the view may use colours. <https://no-color.org>: the variable counts unless it is empty.
fn is_coloured(wanted: ColorChoice) -> bool {
    match wanted {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    }
}

/// Reads the databases that the configurations of these interfaces name.
async fn places(interfaces: &[String]) -> Arc<Places> {
    let mut paths = BTreeSet::new();
    for name in interfaces {
        // The reading that follows reports the error.
        if let Ok(attachment) = Attachment::open(name).await {
            paths.extend(databases(&attachment));
        }
    }
    let (places, errors) = Places::open(&paths);
    for error in errors {
        note(&format!("some places of sources are not shown: {error}"));
    }
    Arc::new(places)
}

/// Takes a first sample of each interface, because rates need two.
async fn gauges(interfaces: &[String], most: usize) -> Result<Vec<Gauge>, Error> {
    let places = places(interfaces).await;
    let mut gauges = Vec::new();
    for interface in interfaces {
        let mut gauge = Gauge::new(most, false).with_places(Arc::clone(&places));
        look(interface, &mut gauge).await?;
        gauges.push(gauge);
    }
    Ok(gauges)
}

async fn once(
    interfaces: &[String],
    most: usize,
    interval: Duration,
    json: bool,
) -> anyhow::Result<()> {
    let mut gauges = gauges(interfaces, most).await?;
    sleep(interval).await;
    for (interface, gauge) in interfaces.iter().zip(&mut gauges) {
        let top = look(interface, gauge).await?.top;
        answer(json, &top, || top::once(&top))?;
    }
    Ok(())
}

/// Prints a line of JSON for each reading of each interface, until it is interrupted.
async fn stream(interfaces: &[String], most: usize, interval: Duration) -> anyhow::Result<()> {
    let interrupted = interruption()?;
    tokio::pin!(interrupted);
    let mut gauges = gauges(interfaces, most).await?;
    sandbox::confine(sandbox::TO_READ)?;
    let mut ticks = time::interval_at(time::Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = &mut interrupted => return Ok(()),
            _ = ticks.tick() => {}
        }
        for (interface, gauge) in interfaces.iter().zip(&mut gauges) {
            let top = look(interface, gauge).await?.top;
            write(&(serde_json::to_string(&top)? + "\n"))?;
        }
    }
}
