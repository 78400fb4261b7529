//! Messages over a socket: JSON, each behind its length.

use std::io;

use futures_util::{SinkExt, StreamExt, TryStreamExt};
use hyper::body::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use tokio::net::UnixStream;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

/// Maximum bytes of a message: enough for 1,000 attachments with all that is shown of each.
const MESSAGE_MAX: usize = 64 << 20;

/// One end of the channel. After an error, it cannot be used any more.
#[derive(Debug)]
pub struct Channel(Framed<UnixStream, LengthDelimitedCodec>);

impl Channel {
    /// Creates a channel from a socket.
    /// Fails if the runtime does not accept the socket.
    pub fn new(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let mut codec = LengthDelimitedCodec::new();
        codec.set_max_frame_length(MESSAGE_MAX);
        Ok(Self(Framed::new(UnixStream::from_std(socket)?, codec)))
    }

    /// Creates a channel to a client that is not trusted: its messages have at most `most` bytes.
    pub fn limited(socket: UnixStream, most: usize) -> Self {
        let mut codec = LengthDelimitedCodec::new();
        codec.set_max_frame_length(most);
        Self(Framed::new(socket, codec))
    }

    /// Sends a message to a client with a [limited](Self::limited) channel, which does not limit this one.
    /// Fails if the client is gone.
    pub async fn send_any(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.0.codec_mut().set_max_frame_length(MESSAGE_MAX);
        self.send(message).await
    }

    /// Asks, and waits for the answer.
    /// Fails if the other process does not answer.
    pub async fn ask<A: DeserializeOwned>(&mut self, question: &impl Serialize) -> io::Result<A> {
        self.send(question).await?;
        self.receive().await?.ok_or_else(end)
    }

    /// Waits until the other process is gone, or sends something without a question.
    pub async fn ended(&mut self) -> io::Error {
        let next = self.0.next().await;
        next.and_then(Result::err).unwrap_or_else(end)
    }

    /// Sends a message.
    /// Fails if the other process is gone.
    pub async fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let message = serde_json::to_vec(message)?;
        self.0.send(Bytes::from(message)).await
    }

    /// Reads the next message; none if the other process is gone.
    /// Fails if the message is not valid or too long.
    pub async fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let message = self.0.try_next().await?;
        let message = message.map(|message| serde_json::from_slice(&message));
        Ok(message.transpose()?)
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
        let (here, there) = Socket::pair().expect("a pair of sockets");
        (Channel::new(here).expect("a channel"), there)
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
