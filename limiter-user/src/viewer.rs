//! Commands of users without privileges: the exporter answers them over its Unix socket.

use std::{collections::HashMap, io, os::unix::net::UnixStream, path::Path, time::Duration};

use anyhow::{Result, anyhow, bail};
use limiter_kernel::sys::requirements;
use nix::unistd::{Gid, Group};
use serde::de::DeserializeOwned;
use std::os::unix::fs::MetadataExt;

use crate::{
    ask::{is_trusted, peer},
    helper::Channel,
    observe::{
        Snapshot, Top,
        request::{Request, SOCKET},
    },
};

/// Timeout of an answer. A reading of large tables takes seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two readings. The exporter answers from the same reading for a second.
pub const INTERVAL_MIN: Duration = Duration::from_millis(1_100);

/// The exporter, because this process may not read attachments.
#[derive(Debug)]
pub struct Viewer {
    /// The error without the exporter.
    why: String,
}

/// The exporter, if this process needs it.
pub fn needed() -> Option<Viewer> {
    let why = requirements::may_read().err()?.to_string();
    Some(Viewer { why })
}

impl Viewer {
    /// The error if the exporter cannot answer.
    pub fn refused(&self, also: &str) -> anyhow::Error {
        anyhow!("{}; {also}", self.why)
    }

    /// Asks the exporter.
    ///
    /// # Errors
    /// There is no exporter with a socket, or it is closed to this user, or it refuses.
    pub async fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T> {
        let socket = UnixStream::connect(SOCKET).map_err(|error| self.refused(&advice(&error)))?;
        let user = peer(&socket)?;
        if !is_trusted(user) {
            bail!("a process of user {user} listens on {SOCKET}, and not limiter: tell root");
        }
        let mut channel = Channel::new(socket)?;
        let answer = tokio::time::timeout(PATIENCE, channel.ask::<Result<T, String>>(request));
        let silent = |error: io::Error| {
            anyhow!(
                "the exporter does not answer ({error}): try again, or restart `limiter export`"
            )
        };
        let answer = answer.await.map_err(|late| silent(late.into()))?;
        answer.map_err(silent)?.map_err(anyhow::Error::msg)
    }

    /// The snapshot, of these interfaces alone; of all without names. Returns an error for each name that it lacks.
    pub async fn snapshot(&self, names: &[&str]) -> Result<(Snapshot, Vec<anyhow::Error>)> {
        let mut snapshot: Snapshot = self.ask(&Request::Snapshot).await?;
        if names.is_empty() {
            let unreadable = snapshot.unreadable.drain(..).map(anyhow::Error::msg);
            let errors = unreadable.collect();
            return Ok((snapshot, errors));
        }
        let is_named = |name: &String| names.contains(&name.as_str());
        let interfaces = &mut snapshot.status.interfaces;
        interfaces.retain(|interface| is_named(&interface.name));
        let interfaces = &snapshot.status.interfaces;
        snapshot.tops.retain(|top| is_named(&top.interface));
        let there = |name: &&&str| interfaces.iter().any(|found| found.name == **name);
        let missing = names.iter().filter(|name| !there(name));
        let missing = missing.map(|name| {
            let mut notes = snapshot.notes();
            match notes.find(|text| text.contains(name)) {
                Some(error) => anyhow!("{error}"),
                None => anyhow!("limiter is not attached to '{name}'"),
            }
        });
        let errors = missing.collect();
        Ok((snapshot, errors))
    }
}

fn advice(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let group = group().unwrap_or_else(|| "its group".to_owned());
            format!("{SOCKET} is for members of {group}: ask root to add you (`usermod -aG`)")
        }
        _ => format!(
            "without root, `limiter export --socket-group GROUP` answers status, top, check and bans: it does not run, or has no socket at {SOCKET}"
        ),
    }
}

/// The group of the socket.
fn group() -> Option<String> {
    let group = Path::new(SOCKET).metadata().ok()?.gid();
    let named = Group::from_gid(Gid::from_raw(group)).ok()?;
    Some(named.map_or(format!("group {group}"), |group| {
        format!("group {}", group.name)
    }))
}

/// Adds rates to the sources, from two readings that are `seconds` apart.
pub fn add_rates(top: &mut Top, before: &Top, seconds: f64) {
    let key =
        |source: &crate::observe::source::TopSource| (source.source.clone(), source.limit.clone());
    let earlier: HashMap<_, _> = before
        .sources
        .iter()
        .map(|source| (key(source), source))
        .collect();
    let rate = |now: u64, then: u64| Some(now.saturating_sub(then) as f64 / seconds);
    top.interval_seconds = Some(seconds);
    for source in &mut top.sources {
        let Some(then) = earlier.get(&key(source)) else {
            continue;
        };
        source.passed_packets_per_second = rate(source.passed_packets, then.passed_packets);
        source.would_drop_packets_per_second =
            rate(source.would_drop_packets, then.would_drop_packets);
        // The drops of a listed source are counted for its list.
        if source.listed.is_none() {
            source.dropped_packets_per_second = rate(source.dropped_packets, then.dropped_packets);
        }
    }
    for drops in &mut top.other_drops {
        let mut others = before.other_drops.iter();
        let then = others.find(|then| then.reason == drops.reason);
        let then = then.map_or(0, |then| then.dropped_packets);
        drops.dropped_packets_per_second = rate(drops.dropped_packets, then);
    }
}
