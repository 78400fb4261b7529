//! What other commands ask the agent, over a socket whose name is of this network namespace (abstract, see unix(7)):
//! nothing is left of it when the agent is killed.

use std::{
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    time::Duration,
};

use nix::{
    sys::socket::{getsockopt, sockopt::PeerCredentials},
    unistd::geteuid,
};
use tokio::sync::{mpsc, oneshot};

use limiter_fleet::{
    agent::{Answer, Edit, Question},
    status::{Fleet, Listed, SharedLimit},
};

use crate::{config::Scope, helper::Channel, kernel::Attachment};

const NAME: &str = "limiter-agent";
/// How long a question may take: an edit brings a new program to each interface.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no agent.
    #[error("no agent runs here: start one by `limiter agent --store URL`")]
    NoAgent,
    /// Somebody else has taken its place.
    #[error(
        "what answers in the place of the agent belongs to user {0}: end that process (`ss -xlp | grep {NAME}` shows it)"
    )]
    NotOurs(u32),
    /// It does not answer.
    #[error("the agent does not answer ({0}): see what it prints, or start it again")]
    Silent(String),
    /// It says no.
    #[error("{0}")]
    Refused(String),
}

fn address() -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(NAME)
}

/// Takes the agent's place in this network namespace.
///
/// # Errors
/// Where there is one already.
pub fn listen() -> io::Result<tokio::net::UnixListener> {
    let listener = UnixListener::bind_addr(&address()?)?;
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}

/// How long somebody who has connected may take to ask.
const ATTENTION: Duration = Duration::from_secs(2);

/// Reads one question from a socket, and writes the answer.
pub fn listen_to(socket: tokio::net::UnixStream, questions: mpsc::Sender<(Question, Answer)>) {
    tokio::spawn(async move {
        if !may_ask(&socket) {
            return;
        }
        let Ok(mut channel) = socket.into_std().and_then(Channel::new) else {
            return;
        };
        let question = tokio::time::timeout(ATTENTION, channel.question::<Question>()).await;
        let Ok(Ok(Some(question))) = question else {
            return;
        };
        let (answer, comes) = oneshot::channel();
        // Too many at once: they see that nobody answers.
        if questions.try_send((question, answer)).is_ok()
            && let Ok(answer) = comes.await
        {
            // Whoever has gone away needs no answer.
            let _ = tokio::time::timeout(ATTENTION, channel.answer(&answer)).await;
        }
    });
}

/// The user at the other end.
fn peer(socket: &impl std::os::fd::AsFd) -> io::Result<u32> {
    Ok(getsockopt(socket, PeerCredentials)?.uid())
}

/// Whether the one at the other end may ask: root, or who has started the agent. Everybody can connect.
pub fn may_ask(socket: &impl std::os::fd::AsFd) -> bool {
    peer(socket).is_ok_and(|user| user == 0 || user == geteuid().as_raw())
}

async fn ask<T: serde::de::DeserializeOwned>(question: &Question) -> Result<T, Error> {
    let silent = |error: io::Error| Error::Silent(error.to_string());
    let socket = match address().and_then(|address| UnixStream::connect_addr(&address)) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return Err(Error::NoAgent);
        }
        socket => socket.map_err(silent)?,
    };
    match peer(&socket).map_err(silent)? {
        user if user == 0 || user == geteuid().as_raw() => {}
        user => return Err(Error::NotOurs(user)),
    }
    let mut channel = Channel::new(socket).map_err(silent)?;
    let answer = tokio::time::timeout(PATIENCE, channel.ask::<Result<T, String>>(question)).await;
    match answer {
        Ok(Ok(answer)) => answer.map_err(Error::Refused),
        Ok(Err(broken)) => Err(Error::Silent(broken.cause())),
        Err(_) => Err(Error::Silent(format!("within {PATIENCE:?}"))),
    }
}

/// How the fleet of an interface is.
///
/// # Errors
/// Where no agent answers.
pub async fn fleet(interface: &str) -> Result<Fleet, Error> {
    ask(&Question::Fleet(interface.to_owned())).await
}

/// Who has put what on a list.
///
/// # Errors
/// Where no agent answers.
pub async fn listed(interface: &str, list: &str) -> Result<Vec<Listed>, Error> {
    let (interface, list) = (interface.to_owned(), list.to_owned());
    ask(&Question::Listed { interface, list }).await
}

/// Changes a list of the whole fleet: in force on this host when it is done, on the others within a second. Returns how
/// many prefixes that was about.
///
/// # Errors
/// Where no agent answers, or the store does not take it.
pub async fn edit(interface: &str, list: &str, edit: &Edit) -> Result<u64, Error> {
    let mut parts = edit.parts().into_iter().peekable();
    let mut done = 0;
    while let Some(edit) = parts.next() {
        let question = Question::Edit {
            interface: interface.to_owned(),
            list: list.to_owned(),
            edit,
            is_part: parts.peek().is_some(),
        };
        done += match ask::<u64>(&question).await {
            Err(Error::Refused(why)) if done > 0 => {
                return Err(Error::Refused(format!(
                    "{why}; {done} prefixes were changed before: say it again for the rest"
                )));
            }
            changed => changed?,
        };
    }
    Ok(done)
}

/// How the fleet of an attachment is, if it is of one: what the agent says within `patience`; or, where none does, that
/// the limits hold on this host alone.
pub async fn of(attachment: &Attachment, patience: Duration) -> Option<Fleet> {
    let settings = &attachment.record.settings;
    let name = settings.fleet.as_ref()?;
    let asked = tokio::time::timeout(patience, fleet(&attachment.interface.name)).await;
    let error = match asked {
        Ok(Ok(fleet)) => return Some(fleet),
        Ok(Err(error)) => error,
        Err(_) => Error::Silent(format!("within {patience:?}")),
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
        store: None,
        error: Some(error.to_string()),
        hosts: 1,
        staleness_seconds: None,
        sources: 0,
        limits: shared.collect(),
        missing_limits: Vec::new(),
    })
}
