//! The warning before limits apply to the SSH session that runs the command.

use std::{env, fs, net::IpAddr, os::unix::process::parent_id};

use ipnet::IpNet;

use crate::{
    cli::shared::output::note,
    config::{Prefixes, Settings, lists::show},
    kernel::Attachment,
    plan::session::{Fate, Session},
};

/// The environment variable with the session's addresses, set by sshd: see ssh(1).
const VARIABLE: &str = "SSH_CONNECTION";

fn session() -> Option<Session> {
    let value = env::var(VARIABLE).ok().or_else(of_parent)?;
    Session::parse(&value)
}

/// The parent process's value of the variable. `sudo` has it, and removes it for the command that it runs.
fn of_parent() -> Option<String> {
    let variables = fs::read(format!("/proc/{}/environ", parent_id())).ok()?;
    let variables = String::from_utf8_lossy(&variables);
    let mut variables = variables.split('\0').filter_map(|one| one.split_once('='));
    let (_, value) = variables.find(|(name, _)| *name == VARIABLE)?;
    Some(value.to_owned())
}

/// Prints the effect of new limits on this SSH session, and how to prevent it. `advice` gets the address to allow.
pub fn warn(interface: &str, settings: &Settings, advice: impl Fn(IpAddr) -> String) {
    let warning = session().and_then(|session| {
        let fate = session.fate(settings);
        warning(interface, &session, fate, settings, advice)
    });
    warning.iter().for_each(|text| note(text));
}

/// Warns before `change` is made to an attachment. Prints nothing if no other or changed limit applies to the session, or
/// the change is not possible: the command itself reports that.
pub async fn warn_of_change(
    interface: &str,
    change: impl FnOnce(&Attachment, &Settings) -> Option<Settings>,
    advice: impl Fn(IpAddr) -> String,
) {
    let warning = async {
        let session = session()?;
        let attachment = Attachment::open(interface).await.ok()?;
        let old = attachment.settings().ok()?;
        let new = change(&attachment, &old)?;
        let fate = session.fate(&new);
        let differs = session.fate(&old) != fate;
        differs.then(|| warning(interface, &session, fate, &new, advice))?
    };
    warning.await.iter().for_each(|text| note(text));
}

/// Warns before a ban of these prefixes, if it includes the client of this SSH session and `allow` does not.
pub fn warn_of_ban(interface: &str, prefixes: &[IpNet], allow: &Prefixes) {
    let Some(client) = session().map(|session| session.client.0) else {
        return;
    };
    let around = |prefix: &&IpNet| prefix.contains(&client);
    let allowed = allow.iter().filter(around).map(IpNet::prefix_len).max();
    let mut bans = prefixes.iter().filter(around);
    if let Some(ban) = bans.find(|ban| allowed < Some(ban.prefix_len())) {
        note(&format!(
            "WARNING: if your SSH session from {client} comes in through {interface}, this ban drops its packets: `limiter unban {interface} {}` ends it, and `limiter allow add {interface} {client}` prevents it",
            show(ban)
        ));
    }
}

fn warning(
    interface: &str,
    session: &Session,
    fate: Fate,
    settings: &Settings,
    advice: impl Fn(IpAddr) -> String,
) -> Option<String> {
    let danger = match fate {
        Fate::Free => return None,
        Fate::Limited(limit) => format!("limit '{}' applies to its packets", limit.name),
        Fate::Denied => "the deny list drops its packets".to_owned(),
    };
    let (client, _) = session.client;
    let advice = if settings.lists.deny.contains(&client.into()) {
        format!(
            "remove {client} from the deny list, which takes precedence over allow for the same prefix"
        )
    } else {
        advice(client)
    };
    Some(format!(
        "WARNING: if your SSH session from {client} comes in through {interface}, {danger}: {advice}"
    ))
}

/// Advice for a user who works from `client` to keep the session, if limiter is attached already.
pub fn allow_first(interface: &str, client: IpAddr) -> String {
    format!(
        "`limiter allow add {interface} {client}` lets it pass; --try 2m undoes the change after two minutes"
    )
}
