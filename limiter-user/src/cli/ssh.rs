//! The warning to those who are about to limit the SSH session that they work in.

use crate::cli::output::note;
use crate::config::{
    Settings,
    connection::{Connection, Fate},
};
use crate::kernel::session::{arrives_on, peer};

/// Tells what is about to happen to this SSH session on the interface, and how to prevent it;
/// `advice` is given the address to allow. Says nothing where there is none, or where it passes.
pub async fn warn(interface: &str, settings: &Settings, advice: impl Fn(&str) -> String) {
    let Some(session) = peer() else {
        return;
    };
    let connection = Connection {
        from: session.client,
        port: session.server_port,
    };
    let danger = match settings.fate(&connection) {
        Fate::Free => return,
        Fate::Limited(limit) => format!("limit '{limit}' holds its packets too"),
        Fate::Denied => "the deny list drops its packets".to_owned(),
    };
    // Where the kernel does not say, it may well be.
    if !arrives_on(&session, interface).await.unwrap_or(true) {
        return;
    }
    let client = session.client.to_string();
    let advice = if passes_when_allowed(settings, &connection) {
        advice(&client)
    } else {
        format!(
            "take {client} off the deny list, which goes before allow where both have the same prefix"
        )
    };
    note(&format!(
        "WARNING: your SSH session from {client} comes in through {interface}, and {danger}: {advice}"
    ));
}

fn passes_when_allowed(settings: &Settings, connection: &Connection) -> bool {
    let mut settings = settings.clone();
    settings.lists.allow.insert(connection.from.into());
    settings.fate(connection) == Fate::Free
}
