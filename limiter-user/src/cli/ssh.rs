//! The warning before the limits hold the SSH session that the command is run in.

use crate::{
    cli::output::note,
    config::{
        Settings,
        connection::{Connection, Fate},
    },
    kernel::{
        Attachment,
        probe::session::{Session, peer},
    },
};

/// Prints what the limits are about to do to this SSH session, and how to prevent it; `advice` is given the address to
/// allow. Prints nothing where there is no session, or where its packets pass.
pub fn warn(interface: &str, settings: &Settings, advice: impl Fn(&str) -> String) {
    if let Some(warning) = warning(interface, settings, advice) {
        note(&warning);
    }
}

fn warning(
    interface: &str,
    settings: &Settings,
    advice: impl Fn(&str) -> String,
) -> Option<String> {
    let session = peer()?;
    let connection = connection(&session);
    let danger = match settings.fate(&connection) {
        Fate::Free => return None,
        Fate::Limited(limit) => format!("limit '{limit}' holds its packets too"),
        Fate::Denied => "the deny list drops its packets".to_owned(),
    };
    let client = session.client.to_string();
    let advice = if passes_when_allowed(settings, &connection) {
        advice(&client)
    } else {
        format!(
            "take {client} off the deny list, which goes before allow where both have the same prefix"
        )
    };
    Some(format!(
        "WARNING: if your SSH session from {client} comes in through {interface}, {danger}: {advice}"
    ))
}

/// The same before `change` is made to what is in force. Says nothing where the session is no worse off
/// than it was, or where there is no such change: that is told by whoever makes it.
pub async fn warn_of_change<E>(
    interface: &str,
    change: impl FnOnce(&Settings) -> Result<Settings, E>,
    advice: impl Fn(&str) -> String,
) {
    if let Some(warning) = warning_of_change(interface, change, advice).await {
        note(&warning);
    }
}

/// The same warning, to be shown elsewhere.
pub async fn warning_of_change<E>(
    interface: &str,
    change: impl FnOnce(&Settings) -> Result<Settings, E>,
    advice: impl Fn(&str) -> String,
) -> Option<String> {
    let change = |attachment: &Attachment, _: &Settings| {
        let own = attachment.own_settings().ok()?;
        Some(attachment.record.in_force(change(&own).ok()?).0)
    };
    warning_of_other(interface, change, advice).await
}

/// The same where `change` makes, of the attachment and what is in force there, what would be.
pub async fn warning_of_other(
    interface: &str,
    change: impl FnOnce(&Attachment, &Settings) -> Option<Settings>,
    advice: impl Fn(&str) -> String,
) -> Option<String> {
    let connection = peer().as_ref().map(connection)?;
    let attachment = Attachment::open(interface).await.ok()?;
    let old = attachment.settings().ok()?;
    let new = change(&attachment, &old)?;
    if old.fate(&connection) == new.fate(&connection) {
        return None;
    }
    warning(interface, &new, advice)
}

/// How whoever works from `client` keeps the session, where limiter is attached already.
pub fn allow_first(interface: &str, client: &str) -> String {
    format!("`limiter allow add {interface} {client}` lets it pass")
}

fn connection(session: &Session) -> Connection {
    Connection {
        from: session.client,
        port: session.server_port,
    }
}

fn passes_when_allowed(settings: &Settings, connection: &Connection) -> bool {
    let mut settings = settings.clone();
    settings.lists.allow.insert(connection.from.into());
    settings.fate(connection) == Fate::Free
}
