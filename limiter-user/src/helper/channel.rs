//! Messages over a socket: JSON, one line each.

use std::io;

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

/// Maximum bytes of a message: enough for 1,000 attachments with all that is shown of each.
const MESSAGE_MAX: u64 = 64 << 20;

/// One end of the channel. After an error, it cannot be used any more.
#[derive(Debug)]
pub struct Channel(BufReader<UnixStream>);

impl Channel {
    /// Creates a channel from a socket.
    /// Fails if the runtime does not accept the socket.
    pub fn new(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self(BufReader::new(UnixStream::from_std(socket)?)))
    }

    /// Asks, and waits for the answer.
    /// Fails if the other process does not answer.
    pub async fn ask<A: DeserializeOwned>(&mut self, question: &impl Serialize) -> io::Result<A> {
        self.send(question).await?;
        self.receive().await?.ok_or_else(end)
    }

    /// Waits until the other process is gone, or sends something without a question.
    pub async fn ended(&mut self) -> io::Error {
        self.0.fill_buf().await.err().unwrap_or_else(end)
    }

    /// Sends a message.
    /// Fails if the other process is gone.
    pub async fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.0.write_all(&line).await
    }

    /// Reads the next message; none if the other process is gone.
    /// Fails if the message is not valid or too long.
    pub async fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.0).take(MESSAGE_MAX);
        bounded.read_until(b'\n', &mut line).await?;
        match line.pop() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(serde_json::from_slice(&line)?)),
            Some(_) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message is cut off or too long",
            )),
        }
    }
}

fn end() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream as Socket, time::Duration};

    use tokio::time::timeout;

    use super::*;

    fn pair() -> (Channel, Socket) {
        let (one, other) = Socket::pair().expect("a pair of sockets");
        (Channel::new(one).expect("a channel"), other)
    }

    #[tokio::test]
    async fn questions_are_answered_until_the_end() {
        let (mut here, there) = pair();
        let mut there = Channel::new(there).expect("a channel");
        let answering = tokio::spawn(async move {
            for _ in 0..3 {
                let number: u64 = there.receive().await.expect("a question").expect("one");
                let text = "x".repeat(1 << 20);
                there.send(&(number + 1, text)).await.expect("answered");
            }
        });
        for number in 0..3_u64 {
            let (next, text): (u64, String) = here.ask(&number).await.expect("an answer");
            assert_eq!((next, text.len()), (number + 1, 1 << 20));
            let early = timeout(Duration::from_millis(20), here.ended()).await;
            assert!(number == 2 || early.is_err(), "{early:?}");
        }
        assert_eq!(here.ended().await.kind(), io::ErrorKind::UnexpectedEof);
        answering.await.expect("the other end has ended");
        assert!(here.ask::<u64>(&1).await.is_err());
    }

    #[tokio::test]
    async fn malformed_message_is_an_error() {
        // Not JSON, and cut off.
        for bytes in ["abc\n", "1"] {
            let (mut here, mut there) = pair();
            there.write_all(bytes.as_bytes()).expect("written");
            drop(there);
            assert!(here.receive::<u64>().await.is_err(), "{bytes:?}");
        }
    }
}
