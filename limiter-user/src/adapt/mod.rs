//! `limiter adapt`: lowers the rates of adaptive limits while the host is overloaded.
//!
//! Once a second, it writes one word for each of these limits; see [`limiter_common::arithmetic::scale`]. Without the
//! process, the configured rates are in force again within six seconds.

pub mod controller;
mod probe;
mod signals;
pub mod simulate;

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use limiter_common::arithmetic::scale;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    config::{Adaptive, Limit},
    kernel::{Attachment, sys::clock},
};
use controller::{Controller, ROUND};
use signals::Signals;

/// A limit that is being adapted.
struct Adapted {
    settings: Adaptive,
    signals: Signals,
    controller: Controller,
}

/// Adapts the limits of an interface until `stop`. Calls `say` with each change of direction.
///
/// # Errors
/// The interface has no adaptive limit, or a signal cannot be read.
pub async fn run(interface: &str, say: fn(&str), stop: impl Future<Output = ()>) -> Result<()> {
    let mut adapted = BTreeMap::new();
    let mut rounds = interval(Duration::from_nanos(ROUND));
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            _ = rounds.tick() => {}
        }
        round(interface, &mut adapted, say).await?;
    }
    let (mut attachment, _lock) = Attachment::open_locked(interface).await?;
    for (limit, slot) in attachment.record.with_slots() {
        if limit.adaptive.is_some() {
            attachment.tables.set_scale(slot.number, 0)?;
        }
    }
    Ok(())
}

/// One round. The lock keeps each limit in its slot.
async fn round(
    interface: &str,
    adapted: &mut BTreeMap<String, Adapted>,
    say: fn(&str),
) -> Result<()> {
    let (mut attachment, _lock) = Attachment::open_locked(interface).await?;
    let limits = attachment.record.with_slots();
    let is_adaptive = |name: &str, of: &Adaptive| {
        let mut limits = limits.iter().map(|(limit, _)| limit);
        limits.any(|limit| limit.name == name && limit.adaptive.as_ref() == Some(of))
    };
    adapted.retain(|name, one| is_adaptive(name, &one.settings));
    let mut found = false;
    for (limit, slot) in &limits {
        let Some(settings) = &limit.adaptive else {
            continue;
        };
        found = true;
        let now = clock::now()?;
        if let Some(one) = adapted.get_mut(&limit.name) {
            one.step(limit, say)?;
            let word = one.controller.word(now);
            attachment.tables.set_scale(slot.number, word)?;
            continue;
        }
        let in_force = scale::stretch(attachment.tables.scale(slot.number)?, || now);
        let one = Adapted {
            settings: settings.clone(),
            signals: Signals::start(&settings.when)?,
            controller: Controller::resume(settings.floor, in_force),
        };
        say(&format!("{interface}: {} follows {settings}", limit.name));
        adapted.insert(limit.name.clone(), one);
    }
    anyhow::ensure!(
        found,
        "{interface} has no adaptive limit: write adaptive = {{ when = {{ cpu_pressure = \"20%\" }} }} under its [[limit]]"
    );
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
