//! The agent's socket: takes questions of other commands.

use std::{
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    time::Duration,
};

use limiter_fleet::{agent::Answer, question::Question};
use tokio::sync::{mpsc, oneshot};

use crate::{
    ask::{NAME, is_trusted, peer},
    helper::Channel,
};

/// Takes the agent's socket in this network namespace.
/// Fails if there is an agent already.
pub fn socket() -> io::Result<tokio::net::UnixListener> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(NAME)?)?;
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}

/// Time for a client to send its question after it has connected.
const ATTENTION: Duration = Duration::from_secs(2);

/// Reads one question from a socket, and writes the answer.
pub fn answer(socket: tokio::net::UnixStream, questions: mpsc::Sender<(Question, Answer)>) {
    tokio::spawn(async move {
        // Every user of this network namespace can connect.
        if !peer(&socket).is_ok_and(is_trusted) {
            return;
        }
        let Ok(mut channel) = socket.into_std().and_then(Channel::new) else {
            return;
        };
        let question = tokio::time::timeout(ATTENTION, channel.receive::<Question>()).await;
        let Ok(Ok(Some(question))) = question else {
            return;
        };
        let (answer, comes) = oneshot::channel();
        // With too many questions at once, the client gets no answer.
        if questions.try_send((question, answer)).is_ok()
            && let Ok(answer) = comes.await
        {
            // If the client is gone, it needs no answer.
            let _ = tokio::time::timeout(ATTENTION, channel.send(&answer)).await;
        }
    });
}
