//! `top` of a user without privileges: the exporter's readings, with their first sources.

use std::time::Instant;

use tokio::time::sleep;

use super::{PRINTED, Top};
use crate::{
    cli::shared::{answer, interruption, is_all, unique},
    observe::{self, Snapshot, snapshot},
    show::top,
    viewer::{INTERVAL_MIN, Viewer, add_rates},
};

/// Prints the sources once, or with `--json` until it is interrupted.
pub async fn run(arguments: &Top, viewer: &Viewer) -> anyhow::Result<()> {
    if !arguments.once && !arguments.json {
        return Err(viewer.refused(
            "the exporter answers `limiter top IFACE --once` and `--json`, not the live view",
        ));
    }
    let most = arguments.most.map_or(PRINTED, usize::from);
    if most > snapshot::TOP {
        let why = format!(
            "the exporter has the first {} sources: write a smaller -n",
            snapshot::TOP
        );
        return Err(viewer.refused(&why));
    }
    let names = match is_all(&arguments.interfaces) {
        true => Vec::new(),
        false => unique(&arguments.interfaces),
    };
    let interrupted = interruption()?;
    tokio::pin!(interrupted);
    let mut before = read(viewer, &names).await?;
    loop {
        tokio::select! {
            biased;
            () = &mut interrupted => return Ok(()),
            () = sleep(arguments.interval.max(INTERVAL_MIN)) => {}
        }
        let now = read(viewer, &names).await?;
        for mut shown in tops(&now.0, &before) {
            shown.sources.truncate(most);
            answer(arguments.json, &shown, || top::once(&shown))?;
        }
        if arguments.once {
            return Ok(());
        }
        before = now;
    }
}

async fn read(viewer: &Viewer, names: &[&str]) -> anyhow::Result<(Snapshot, Instant)> {
    let (snapshot, errors) = viewer.snapshot(names).await?;
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok((snapshot, Instant::now())),
    }
}

/// The sources of a reading, with rates since the one before.
fn tops<'a>(
    now: &'a Snapshot,
    (before, then): &'a (Snapshot, Instant),
) -> impl Iterator<Item = observe::Top> + 'a {
    let seconds = then.elapsed().as_secs_f64();
    let shown = now.tops.iter().zip(&now.status.interfaces);
    shown.map(move |(shown, interface)| {
        let mut shown = shown.clone();
        let mut earlier = before.tops.iter();
        if let Some(earlier) = earlier.find(|earlier| earlier.interface == shown.interface) {
            add_rates(&mut shown, earlier, seconds);
        }
        // The exporter does not send it.
        for source in &mut shown.sources {
            let mut limits = interface.limits.iter();
            let limit = limits.find(|limit| limit.name == source.limit);
            source.shadow = interface.shadow || limit.is_some_and(|limit| limit.shadow);
        }
        shown
    })
}
