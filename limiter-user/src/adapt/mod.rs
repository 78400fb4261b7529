//! `limiter adapt`: lowers the rates of adaptive limits while the host is overloaded.
//!
//! Once a second, it writes one word for each of these limits; see [`limiter_common::arithmetic::scale`]. Without the
//! process, the configured rates are in force again within six seconds.

pub mod controller;
mod probe;
mod signals;
pub mod simulate;

use std::{
    collections::BTreeMap,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use limiter_common::arithmetic::scale;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use controller::{Controller, ROUND};
use limiter_config::{Adaptive, Limit};
use limiter_kernel::{Attachment, sys::clock};
use signals::Signals;

/// A limit that is being adapted.
struct Adapted {
    settings: Adaptive,
    signals: Signals,
    controller: Controller,
}

/// Adapts the limits of an interface until `stop`. Calls `say` with each change of direction. After the first round, errors
/// are reported once, and the next round tries again: the interface may come back, or its settings.
///
/// # Errors
/// The interface has no adaptive limit, a signal cannot be read, or another process adapts it.
pub async fn run(interface: &str, say: fn(&str), stop: impl Future<Output = ()>) -> Result<()> {
    // The name is abstract, belongs to this network namespace, and goes with the process.
    let name = SocketAddr::from_abstract_name(format!("limiter-adapt-{interface}"))?;
    let _alone = UnixListener::bind_addr(&name).with_context(|| {
        format!("another process adapts {interface} (`ss -xlp` shows limiter-adapt): end it first")
    })?;
    let mut adapted = BTreeMap::new();
    round(interface, &mut adapted, say).await?;
    let round_time = Duration::from_nanos(ROUND);
    let mut rounds = interval_at(Instant::now() + round_time, round_time);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said = String::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            _ = rounds.tick() => {}
        }
        let failed = round(interface, &mut adapted, say).await.err();
        let failed = failed.map_or_else(String::new, |error| format!("{error:#}"));
        if failed != said && !failed.is_empty() {
            say(&format!(
                "the configured rates are in force, until this is mended: {failed}"
            ));
            adapted.clear();
            // Without this, the scales would hold for a few seconds more.
            let _ = restore(interface).await;
        }
        said = failed;
    }
    restore(interface).await
}

/// Puts the configured rates of all adaptive limits in force. If limiter is detached, nothing is left to do.
async fn restore(interface: &str) -> Result<()> {
    let Ok(mut attachment) = Attachment::open(interface).await else {
        return Ok(());
    };
    for (limit, slot) in attachment.record.with_slots() {
        if limit.adaptive.is_some() {
            attachment.tables.set_scale(slot.number, 0)?;
        }
    }
    Ok(())
}

/// One round. It takes no lock: if a command gives a slot to another limit meanwhile, the next round corrects its word.
async fn round(
    interface: &str,
    adapted: &mut BTreeMap<String, Adapted>,
    say: fn(&str),
) -> Result<()> {
    let mut attachment = Attachment::open(interface).await?;
    let (mut now_adapted, mut words, mut new) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (limit, slot) in attachment.record.with_slots() {
        let Some(settings) = &limit.adaptive else {
            continue;
        };
        let now = clock::now()?;
        let known = adapted.remove(&limit.name);
        let state = match known.filter(|known| known.settings == *settings) {
            Some(mut known) => {
                known.step(&limit, say)?;
                known
            }
            None => {
                let name = &limit.name;
                let in_force = scale::stretch(attachment.tables.scale(slot.number)?, || now);
                let signals = Signals::start(&settings.when)?;
                new.push(format!("{interface}: {name} may fall to {settings}"));
                Adapted {
                    settings: settings.clone(),
                    signals,
                    controller: Controller::new(settings.floor, in_force),
                }
            }
        };
        words.push((slot.number, state.controller.word(now)));
        now_adapted.insert(limit.name, state);
    }
    anyhow::ensure!(
        !now_adapted.is_empty(),
        "{interface} has no adaptive limit: write adaptive = {{ when = {{ cpu_pressure = \"20%\" }} }} under its [[limit]]"
    );
    // If one limit cannot be adapted, none is: the words of a former round end by themselves.
    for (slot, word) in words {
        attachment.tables.set_scale(slot, word)?;
    }
    new.iter().for_each(|line| say(line));
    *adapted = now_adapted;
    Ok(())
}

impl Adapted {
    fn step(&mut self, Limit { name, rate, .. }: &Limit, say: fn(&str)) -> Result<()> {
        let over = self.signals.over()?;
        let before = self.controller;
        self.controller.step(!over.is_empty());
        let (was, is) = (before.scale(), self.controller.scale());
        if was == scale::ONE && is < was {
            say(&format!("{name}: {rate} falls ({over})"));
        } else if !before.is_at_floor() && self.controller.is_at_floor() && is < was {
            say(&format!(
                "{name}: {} of {rate}, the floor ({over})",
                self.settings.floor
            ));
        } else if was < is && is == scale::ONE {
            say(&format!("{name}: {rate} again"));
        }
        Ok(())
    }
}
