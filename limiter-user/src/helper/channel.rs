//! Questions and answers over a socket, as JSON with a length prefix.

use std::{io, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::UnixStream,
};

/// Maximum bytes of a question: an edit of 100,000 prefixes, with as much to spare.
const QUESTION_MAX: u32 = 10 << 20;
/// Maximum bytes of an answer: enough for 1,000 attachments with all that is shown of each.
const ANSWER_MAX: u32 = 64 << 20;

/// The other process is gone, or violates the protocol. The channel cannot be used any more.
#[derive(Debug, thiserror::Error)]
#[error("the helper process has ended ({0}): start limiter again; `dmesg` may say why")]
pub struct Broken(#[from] io::Error);

impl Broken {
    /// The cause in words.
    pub fn cause(&self) -> String {
        self.0.to_string()
    }
}

/// One end of the channel.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
    end: End,
}

/// The end of a channel, which is noticed as soon as the other process is gone, even without a question.
#[derive(Clone, Debug)]
pub struct End(Arc<UnixStream>);

impl End {
    /// Waits for the end.
    pub async fn wait(&self) -> Broken {
        // Linux reports a peer that hung up together with urgent data, which our Unix sockets never have. Answers do
        // not end this wait.
        match self.0.ready(Interest::PRIORITY).await {
            Ok(_) => Broken(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Broken(error),
        }
    }
}

impl Channel {
    /// Creates a channel from a socket.
    ///
    /// # Errors
    ///
    /// Fails if the runtime does not accept the socket.
    pub fn new(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // A second descriptor of the socket, to wait for the end while an answer is read.
        let watched = UnixStream::from_std(socket.try_clone()?)?;
        Ok(Self {
            socket: UnixStream::from_std(socket)?,
            end: End(Arc::new(watched)),
        })
    }

    /// The waiter for the end of this channel.
    pub fn end(&self) -> End {
        self.end.clone()
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    ///
    /// Fails if the other process does not answer.
    pub async fn ask<A: DeserializeOwned>(
        &mut self,
        question: &impl Serialize,
    ) -> Result<A, Broken> {
        self.send(question, QUESTION_MAX).await?;
        let answer = self.receive(ANSWER_MAX).await?;
        Ok(answer.ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?)
    }

    /// Reads the next question; none if there are no more.
    ///
    /// # Errors
    ///
    /// Fails if the question is not valid or too long.
    pub async fn question<Q: DeserializeOwned>(&mut self) -> io::Result<Option<Q>> {
        self.receive(QUESTION_MAX).await
    }

    /// Sends the answer to a question.
    ///
    /// # Errors
    ///
    /// Fails if the other process is gone.
    pub async fn answer(&mut self, answer: &impl Serialize) -> io::Result<()> {
        self.send(answer, ANSWER_MAX).await
    }

    async fn send(&mut self, value: &impl Serialize, most: u32) -> io::Result<()> {
        let bytes = serde_json::to_vec(value)?;
        let length = u32::try_from(bytes.len()).ok().filter(|n| *n <= most);
        let length = length.ok_or_else(too_long)?;
        self.socket.write_all(&length.to_le_bytes()).await?;
        self.socket.write_all(&bytes).await
    }

    async fn receive<T: DeserializeOwned>(&mut self, most: u32) -> io::Result<Option<T>> {
        let mut length = [0; 4];
        match self.socket.read_exact(&mut length).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        };
        let length = u32::from_le_bytes(length);
        if length > most {
            return Err(too_long());
        }
        let mut bytes = vec![0; length as usize];
        self.socket.read_exact(&mut bytes).await?;
        Ok(Some(serde_json::from_slice(&bytes)?))
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message is too long")
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream as Socket};

    use super::*;

    fn pair() -> (Channel, Socket) {
        let (one, other) = Socket::pair().expect("a pair of sockets");
        (Channel::new(one).expect("a channel"), other)
    }

    #[tokio::test]
    async fn questions_are_answered() {
        let (mut here, there) = pair();
        let mut there = Channel::new(there).expect("a channel");
        let answering = tokio::spawn(async move {
            while let Some(number) = there.question::<u64>().await.expect("a question") {
                let text = "x".repeat(1 << 20);
                there.answer(&(number + 1, text)).await.expect("answered");
            }
        });
        for number in 0..3 {
            let (next, text): (u64, String) = here.ask(&number).await.expect("an answer");
            assert_eq!((next, text.len()), (number + 1, 1 << 20));
        }
        drop(here);
        answering.await.expect("it ends with the last question");
    }

    #[tokio::test]
    async fn malformed_question_is_an_error() {
        for bytes in [
            // Too long for a question, not JSON, shorter than announced.
            &u32::MAX.to_le_bytes()[..],
            &[3, 0, 0, 0, b'a', b'b', b'c'],
            &[9, 0, 0, 0, b'1'],
        ] {
            let (mut here, mut there) = pair();
            there.write_all(bytes).expect("written");
            drop(there);
            assert!(here.question::<u64>().await.is_err(), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn end_is_reported_when_the_peer_closes_and_not_on_an_answer() {
        use std::time::Duration;

        use tokio::time::timeout;

        let (here, mut there) = pair();
        let end = here.end();
        there.write_all(b"an answer").expect("written");
        let early = timeout(Duration::from_millis(100), end.wait()).await;
        assert!(early.is_err(), "{early:?}");
        drop(there);
        let end = timeout(Duration::from_secs(60), end.wait()).await;
        assert_eq!(end.expect("the end").0.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn question_fails_if_the_other_end_is_closed() {
        let (mut here, there) = pair();
        drop(there);
        assert!(here.ask::<u64>(&1).await.is_err());
    }
}
