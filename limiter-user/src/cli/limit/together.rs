//! `attach` of several interfaces: all of them get the configuration, or none does.

use crate::{
    cli::shared::{about, note},
    kernel::{
        Attachment, Error,
        ops::{
            detach::detach,
            set::{Lasts, Wanted, swap},
        },
    },
};

/// The effect of `attach` on one interface.
pub enum Effect {
    /// Limiter is attached, and was not before.
    Attached,
    /// The settings were replaced. The state before, to which [`undo`] goes back.
    Reloaded(Box<Wanted>),
    /// A trial has ended, or another version was replaced. Both cannot be restored.
    Final,
    /// The configuration was in force before.
    Unchanged,
}

/// Checks the configuration where limiter is attached already. Returns the interfaces in an order that leaves the fewest
/// effects to undo if one fails: those that are attached anew, then those that are reloaded, then the effects that cannot be
/// undone.
///
/// # Errors
/// An attachment cannot be reloaded with this configuration. Nothing has changed.
pub async fn in_order<'a>(interfaces: &[&'a str], wanted: &Wanted) -> anyhow::Result<Vec<&'a str>> {
    let mut ranked = Vec::new();
    for interface in interfaces {
        let rank = match Attachment::open(interface).await {
            Ok(attachment) => {
                let on_trial = attachment.try_until().is_some();
                drop(attachment);
                let checked = swap(interface, Lasts::DryRun, |_| Ok(wanted.clone())).await;
                checked.map_err(about(interface))?;
                if on_trial { 2 } else { 1 }
            }
            Err(Error::OtherVersion(..)) => 2,
            Err(_) => 0,
        };
        ranked.push((rank, *interface));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    Ok(ranked.into_iter().map(|(_, interface)| interface).collect())
}

/// Undoes the effects on interfaces, because another interface failed. Notes each result.
pub async fn undo(done: &[(&str, Effect)]) {
    for (interface, effect) in done.iter().rev() {
        let text = match effect {
            Effect::Unchanged => continue,
            Effect::Attached => match detach(interface).await {
                Ok(_) => "detached again, because another interface failed".to_owned(),
                Err(error) => format!("still attached, because detaching failed: {error}"),
            },
            Effect::Reloaded(before) => {
                match swap(interface, Lasts::ForGood, |_| Ok((**before).clone())).await {
                    Ok(_) => {
                        "the former settings are in force again, because another interface failed"
                            .to_owned()
                    }
                    Err(error) => {
                        format!("the new settings stay, because the former ones failed: {error}")
                    }
                }
            }
            Effect::Final => {
                "the new settings stay although another interface failed, because a trial or another version cannot be restored".to_owned()
            }
        };
        note(&format!("{interface}: {text}"));
    }
}
