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
use tokio::sync::oneshot;

use ipnet::IpNet;
use nix::{
    sys::socket::{getsockopt, sockopt::PeerCredentials},
    unistd::geteuid,
};
use serde::{Deserialize, Serialize};

use crate::{
    config::Scope,
    keeper::Channel,
    kernel::Attachment,
    stats::fleet::{Fleet, Listed, SharedLimit},
};

const NAME: &str = "limiter-agent";
/// Where an answer goes.
pub type Answer = oneshot::Sender<serde_json::Value>;

/// Sends an answer to whoever has asked, if that is still there.
pub fn reply<T: Serialize>(answer: Answer, with: Result<T, String>) {
    if let Ok(value) = serde_json::to_value(with) {
        // Whoever has gone away needs no answer.
        let _ = answer.send(value);
    }
}

/// How long a question may take: an edit brings a new program to each interface.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Prefixes in one question: it has at most 64 KiB.
const AT_ONCE: usize = 1_000;

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Question {
    /// How is the fleet of this interface? A `Result<Fleet, String>`.
    Fleet(String),
    /// Who has put what on its list? A `Result<Vec<Listed>, String>`.
    Listed {
        /// The interface.
        interface: String,
        /// The list.
        list: String,
    },
    /// To change the list: a `Result<u64, String>`, how many prefixes that has changed.
    Edit {
        /// The interface.
        interface: String,
        /// The list.
        list: String,
        /// How.
        edit: Edit,
        /// Whether more of the same is to come: then it need not be in force yet when the answer comes.
        is_part: bool,
    },
}

/// A change of a fleet's list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Edit {
    /// Puts prefixes on it.
    Add {
        /// Which.
        prefixes: Vec<IpNet>,
        /// For how long; without it, until they are removed.
        lasts: Option<Duration>,
    },
    /// Takes them off.
    Remove(Vec<IpNet>),
}

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

impl Edit {
    /// The same in parts, each of which a question has room for.
    fn parts(&self) -> Vec<Self> {
        match self {
            Self::Add { prefixes, lasts } => {
                let add = |prefixes: &[IpNet]| Self::Add {
                    prefixes: prefixes.to_vec(),
                    lasts: *lasts,
                };
                prefixes.chunks(AT_ONCE).map(add).collect()
            }
            Self::Remove(prefixes) => {
                let remove = |prefixes: &[IpNet]| Self::Remove(prefixes.to_vec());
                prefixes.chunks(AT_ONCE).map(remove).collect()
            }
        }
    }
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
        otherwise: Vec::new(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_room_for_each_part() {
        let longest = "2001:0db8:1111:2222:3333:4444:5555:6666/128"
            .parse()
            .unwrap();
        let edit = Edit::Add {
            prefixes: vec![longest; 2 * AT_ONCE + 1],
            lasts: Some(Duration::from_nanos(u64::MAX)),
        };
        let parts = edit.parts();
        assert_eq!(parts.len(), 3);
        for edit in parts {
            let question = Question::Edit {
                interface: "i".repeat(15),
                list: "l".repeat(64),
                edit,
                is_part: true,
            };
            let length = serde_json::to_vec(&question).unwrap().len();
            assert!(length <= 64 << 10, "{length}");
        }
        assert_eq!(Edit::Remove(vec![longest; AT_ONCE]).parts().len(), 1);
    }
}
