//! Questions of commands to the agent, over its socket. The name is abstract (see unix(7)) and belongs to this network
//! namespace, so nothing is left when the agent is killed.

use std::{
    io,
    net::IpAddr,
    os::{
        fd::AsFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixStream},
    },
    time::Duration,
};

use nix::{
    sys::socket::{getsockopt, sockopt::PeerCredentials},
    unistd::geteuid,
};

use limiter_config::Scope;
use limiter_fleet::{
    question::{Edit, Question, Subject},
    status::{Fleet, Listed, SharedLimit},
};
use limiter_kernel::{Attachment, sys::lock};

use crate::helper::Channel;

/// The abstract name of the socket.
pub(crate) const NAME: &str = "limiter-agent";
/// Timeout of a question.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Timeout of an edit. The agent waits for the lock of the attachment at most twice, and its error must arrive.
const PATIENCE_FOR_EDIT: Duration = Duration::from_secs(2 * lock::PATIENCE.as_secs() + 5);

/// The reason why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No agent runs.
    #[error("no agent runs here: start one by `limiter agent --store URL`")]
    NoAgent,
    /// The agent does not answer, or refuses.
    #[error("{0}")]
    Failed(String),
}

/// The user at the other end of the socket.
pub(crate) fn peer(socket: &impl AsFd) -> io::Result<u32> {
    Ok(getsockopt(socket, PeerCredentials)?.uid())
}

/// True if this user may ask, and answer.
pub(crate) fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

async fn ask<T: serde::de::DeserializeOwned>(
    interface: &str,
    about: Subject,
    patience: Duration,
) -> Result<T, Error> {
    let question = Question {
        interface: interface.to_owned(),
        about,
    };
    let silent = |error: io::Error| {
        Error::Failed(format!(
            "the agent does not answer ({error}): read its log, or restart it"
        ))
    };
    let address = SocketAddr::from_abstract_name(NAME).map_err(silent)?;
    let socket = match UnixStream::connect_addr(&address) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return Err(Error::NoAgent);
        }
        socket => socket.map_err(silent)?,
    };
    let user = peer(&socket).map_err(silent)?;
    if !is_trusted(user) {
        return Err(Error::Failed(format!(
            "a process of user {user} holds the agent's socket: end it (`ss -xlp | grep {NAME}` shows it)"
        )));
    }
    let mut channel = Channel::new(socket).map_err(silent)?;
    let answer = tokio::time::timeout(patience, channel.ask::<Result<T, String>>(&question)).await;
    let late = |_| silent(io::Error::other(format!("within {patience:?}")));
    let answer = answer.map_err(late)?.map_err(silent)?;
    answer.map_err(Error::Failed)
}

/// The fleet's entries on a list.
/// Fails if no agent answers.
pub async fn listed(interface: &str, list: &str) -> Result<Vec<Listed>, Error> {
    ask(interface, Subject::Listed(list.to_owned()), PATIENCE).await
}

/// The addresses of the fleet's store.
/// Fails if no agent answers.
pub async fn store() -> Result<Vec<IpAddr>, Error> {
    ask("", Subject::Store, Duration::from_secs(1)).await
}

/// Changes a list of the whole fleet. It is in force on this host when the function returns, and on the others within
/// a second. Returns the number of prefixes changed.
/// Fails if no agent answers, or the store does not take the change.
pub async fn edit(interface: &str, list: &str, edit: Edit) -> Result<u64, Error> {
    let about = Subject::Edit(list.to_owned(), edit);
    ask(interface, about, PATIENCE_FOR_EDIT).await
}

/// The state of an attachment's fleet, if it belongs to one: the agent's answer within `patience`. Without an answer,
/// the state says that the limits apply to this host alone.
pub async fn of(attachment: &Attachment, patience: Duration) -> Option<Fleet> {
    let settings = &attachment.record.settings;
    let name = settings.fleet.as_ref()?;
    let error = match ask(&attachment.interface.name, Subject::Fleet, patience).await {
        Ok(fleet) => return Some(fleet),
        Err(error) => error,
    };
    let limits = settings.limits.iter();
    let shared = limits.filter(|limit| limit.scope == Scope::Fleet);
    let shared = shared.map(|limit| SharedLimit {
        name: limit.name.clone(),
        overshoot_packets: None,
        conflicts: Vec::new(),
    });
    Some(Fleet {
        name: name.clone(),
        agent: !matches!(error, Error::NoAgent),
        error: Some(error.to_string()),
        hosts: 1,
        limits: shared.collect(),
        ..Fleet::default()
    })
}
