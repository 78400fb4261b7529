//! `attach` of several interfaces: all of them get the configuration, or none does.

use limiter_kernel::{
    Attachment, Error,
    ops::{
        detach::detach_unchanged,
        set::{Lasts, Wanted, swap},
    },
};

use crate::cli::shared::{about, at_once::at_once, note, record};

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

/// Checks the configuration where limiter is attached already. Returns groups of interfaces, one after the other, that leave
/// the fewest effects to undo if one fails: those that are attached anew, those that are reloaded, and then each one whose
/// effects cannot be undone.
///
/// # Errors
/// An attachment cannot be reloaded with this configuration. Nothing has changed.
pub async fn in_order<'a>(
    interfaces: &[&'a str],
    wanted: &Wanted,
) -> anyhow::Result<Vec<Vec<&'a str>>> {
    if interfaces.len() < 2 {
        return Ok(vec![interfaces.to_vec()]);
    }
    let ranks = at_once(interfaces, async |interface: &str| {
        rank(interface, wanted).await
    })
    .await;
    let (mut anew, mut reloaded, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (interface, rank) in interfaces.iter().zip(ranks) {
        match rank? {
            Rank::Anew => anew.push(*interface),
            Rank::Reloaded => reloaded.push(*interface),
            Rank::Final => last.push(vec![*interface]),
        }
    }
    Ok([vec![anew, reloaded], last].concat())
}

/// The kind of effect that `attach --or-reload` will have.
enum Rank {
    Anew,
    Reloaded,
    Final,
}

async fn rank(interface: &str, wanted: &Wanted) -> anyhow::Result<Rank> {
    let attachment = match Attachment::open(interface).await {
        Ok(attachment) => attachment,
        Err(Error::OtherVersion(..)) => return Ok(Rank::Final),
        Err(_) => return Ok(Rank::Anew),
    };
    let on_trial = attachment.try_until().is_some();
    drop(attachment);
    let checked = swap(interface, Lasts::DryRun, |_| Ok(wanted.clone())).await;
    checked.map_err(about(interface))?;
    Ok(match on_trial {
        true => Rank::Final,
        false => Rank::Reloaded,
    })
}

/// Undoes the effects on interfaces, because another interface failed. Notes each result.
pub async fn undo(done: &[(&str, Effect)], wanted: &Wanted) {
    for (interface, effect) in done.iter().rev() {
        let text = match effect {
            Effect::Unchanged => continue,
            Effect::Attached => match detach_unchanged(interface).await {
                Ok(true) => "detached again, because another interface failed".to_owned(),
                Ok(false) => "still attached, because another command has changed it".to_owned(),
                Err(error) => format!("still attached, because detaching failed: {error}"),
            },
            Effect::Reloaded(before) => {
                let back = |current: Wanted| match current.settings == wanted.settings {
                    true => Ok((**before).clone()),
                    false => Err(Error::Refused(
                        "another command has changed them meanwhile".to_owned(),
                    )),
                };
                match swap(interface, Lasts::ForGood, back).await {
                    Ok(_) => {
                        let why = "the former settings: another interface failed";
                        record(interface, "revert", &[why.to_owned()]);
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
