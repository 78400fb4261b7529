//! The warning before limits apply to the SSH session that runs the command.

use std::{env, fs, net::IpAddr, os::unix::process::parent_id};

use ipnet::IpNet;
use limiter_config::{Prefixes, Settings, lists::show};
use limiter_kernel::Attachment;

use crate::{
    cli::shared::output,
    plan::session::{Fate, Session},
};

/// The environment variable with the session's addresses, set by sshd: see ssh(1).
const VARIABLE: &str = "SSH_CONNECTION";

fn session() -> Option<Session> {
    Some(own_session()?.session)
}

/// The SSH session of this command.
#[derive(Debug)]
pub struct OwnSession {
    /// Its ends.
    session: Session,
    /// The value of [`VARIABLE`].
    value: String,
}

/// The SSH session of this command; none if it runs elsewhere.
pub fn own_session() -> Option<OwnSession> {
    let value = env::var(VARIABLE).ok().or_else(of_parent)?;
    let session = Session::parse(&value)?;
    Some(OwnSession { session, value })
}

impl OwnSession {
    /// The address that the user works from.
    pub fn client(&self) -> IpAddr {
        self.session.client.0
    }

    /// The ends of the session.
    pub fn session(&self) -> Session {
        self.session
    }

    /// The variable and its value, for a process that is to know the session.
    pub fn variable(&self) -> (&str, &str) {
        (VARIABLE, &self.value)
    }
}

/// The parent process's value of the variable. `sudo` has it, and removes it for the command that it runs.
fn of_parent() -> Option<String> {
    let variables = fs::read(format!("/proc/{}/environ", parent_id())).ok()?;
    let variables = String::from_utf8_lossy(&variables);
    let mut variables = variables
        .split('\0')
        .filter_map(|variable| variable.split_once('='));
    let (_, value) = variables.find(|(name, _)| *name == VARIABLE)?;
    Some(value.to_owned())
}

/// Prints the effect of new limits on this SSH session, and how to prevent it, if it differs from the effect of `old`
/// ones. `advice` gets the address to allow.
pub fn warn(
    interface: &str,
    old: Option<&Settings>,
    new: &Settings,
    advice: impl Fn(IpAddr) -> String,
) {
    let Some(session) = session() else { return };
    let fate = session.fate(new);
    if old.is_some_and(|old| session.fate(old) == fate) {
        return;
    }
    let danger = match fate {
        Fate::Free => return,
        Fate::Limited(limit) => format!("limit '{}' applies to its packets", limit.name),
        Fate::Denied => "the deny list drops its packets".to_owned(),
    };
    let (client, _) = session.client;
    let advice = if new.lists.deny.contains(&client.into()) {
        format!(
            "remove {client} from the deny list, which takes precedence over allow for the same prefix"
        )
    } else {
        advice(client)
    };
    output::warn(&format!(
        "WARNING: if your SSH session from {client} comes in through {interface}, {danger}: {advice}"
    ));
}

/// Warns before `change` is made to an attachment. Prints nothing if no other or changed limit applies to the session, or
/// the change is not possible: the command itself reports that.
pub async fn warn_of_change(
    interface: &str,
    change: impl FnOnce(&Attachment, &Settings) -> Option<Settings>,
    advice: impl Fn(IpAddr) -> String,
) {
    if session().is_some()
        && let Ok(attachment) = Attachment::open(interface).await
        && let Ok(old) = attachment.settings()
        && let Some(new) = change(&attachment, &old)
    {
        warn(interface, Some(&old), &new, advice);
    }
}

/// Warns before a ban of these prefixes, if it includes the client of this SSH session and `allow` does not.
pub fn warn_of_ban(interface: &str, prefixes: &[IpNet], allow: &Prefixes) {
    let Some(client) = session().map(|session| session.client.0) else {
        return;
    };
    let allowed = allow.around(client).map(|prefix| prefix.prefix_len());
    let mut bans = prefixes.iter().filter(|prefix| prefix.contains(&client));
    if let Some(ban) = bans.find(|ban| allowed < Some(ban.prefix_len())) {
        output::warn(&format!(
            "WARNING: if your SSH session from {client} comes in through {interface}, this ban drops its packets: `limiter unban {interface} {}` ends it, and `limiter allow add {interface} {client}` prevents it",
            show(ban)
        ));
    }
}

/// Advice for a user who works from `client` to keep the session, if limiter is attached already.
pub fn allow_first(interface: &str, client: IpAddr) -> String {
    format!(
        "`limiter allow add {interface} {client}` lets it pass; --try 2m undoes the change after two minutes"
    )
}
