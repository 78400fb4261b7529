//! Messages over a socket, as JSON with a length prefix.

use std::io;

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

/// Maximum bytes of a message: enough for 1,000 attachments with all that is shown of each.
const MESSAGE_MAX: u32 = 64 << 20;

/// One end of the channel. After an error, it cannot be used any more.
#[derive(Debug)]
pub struct Channel(UnixStream);

impl Channel {
    /// Creates a channel from a socket.
    ///
    /// # Errors
    ///
    /// Fails if the runtime does not accept the socket.
    pub fn new(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket).map(Self)
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    ///
    /// Fails if the other process does not answer.
    pub async fn ask<A: DeserializeOwned>(&mut self, question: &impl Serialize) -> io::Result<A> {
        self.send(question).await?;
        self.receive().await?.ok_or_else(end)
    }

    /// Waits until the other process is gone, or sends something without a question.
    pub async fn ended(&self) -> io::Error {
        loop {
            let read = match self.0.readable().await {
                Ok(()) => self.0.try_read(&mut [0]),
                Err(error) => return error,
            };
            match read {
                Ok(_) => return end(),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return error,
                // The readiness was that of an earlier answer.
                Err(_) => {}
            }
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// Fails if the other process is gone, or the message is too long.
    pub async fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        let length = u32::try_from(bytes.len()).ok();
        let length = length.filter(|length| *length <= MESSAGE_MAX);
        self.0.write_u32(length.ok_or_else(too_long)?).await?;
        self.0.write_all(&bytes).await
    }

    /// Reads the next message; none if the other process is gone.
    ///
    /// # Errors
    ///
    /// Fails if the message is not valid or too long.
    pub async fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let length = match self.0.read_u32().await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            length => length?,
        };
        if length > MESSAGE_MAX {
            return Err(too_long());
        }
        let mut bytes = vec![0; length as usize];
        self.0.read_exact(&mut bytes).await?;
        Ok(Some(serde_json::from_slice(&bytes)?))
    }
}

fn end() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message is too long")
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
        for bytes in [
            // Too long, not JSON, shorter than announced.
            &u32::MAX.to_be_bytes()[..],
            &[0, 0, 0, 3, b'a', b'b', b'c'],
            &[0, 0, 0, 9, b'1'],
        ] {
            let (mut here, mut there) = pair();
            there.write_all(bytes).expect("written");
            drop(there);
            assert!(here.receive::<u64>().await.is_err(), "{bytes:?}");
        }
    }
}
