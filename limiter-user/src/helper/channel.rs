//! Questions and answers over a socket: each is JSON with its length in front.

use std::{io, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::UnixStream,
};

/// Bytes of a question at most: the prefixes of an edit are the longest part of one.
const QUESTION_MAX: u32 = 64 << 10;
/// Bytes of an answer at most: 1,000 attachments with all that is shown of each have room.
const ANSWER_MAX: u32 = 64 << 20;

/// The other process is gone, or does not speak as it should: there is nobody to ask any more.
#[derive(Debug, thiserror::Error)]
#[error(
    "the process that reads the kernel for this one has ended ({0}): start it again; `dmesg` may say what ended it"
)]
pub struct Broken(#[from] io::Error);

impl Broken {
    /// What has happened.
    #[must_use]
    pub fn cause(&self) -> String {
        self.0.to_string()
    }
}

/// One end.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
    end: End,
}

/// The end of a channel: it comes as soon as the other process is gone, also where nobody asks.
#[derive(Clone, Debug)]
pub struct End(Arc<UnixStream>);

impl End {
    /// Waits for it.
    pub async fn wait(&self) -> Broken {
        // Linux reports a peer that hung up together with urgent data, which a Unix socket of ours never has. Answers do
        // not end this wait.
        match self.0.ready(Interest::PRIORITY).await {
            Ok(_) => Broken(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Broken(error),
        }
    }
}

impl Channel {
    /// Of a socket.
    ///
    /// # Errors
    ///
    /// Where the runtime does not take it.
    pub fn new(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // A second descriptor of the socket, so that the end can be waited for while an answer is read.
        let watched = UnixStream::from_std(socket.try_clone()?)?;
        Ok(Self {
            socket: UnixStream::from_std(socket)?,
            end: End(Arc::new(watched)),
        })
    }

    /// The end of this channel.
    #[must_use]
    pub fn end(&self) -> End {
        self.end.clone()
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    ///
    /// Where nobody answers.
    pub async fn ask<A: DeserializeOwned>(
        &mut self,
        question: &impl Serialize,
    ) -> Result<A, Broken> {
        self.send(question, QUESTION_MAX).await?;
        let answer = self.receive(ANSWER_MAX).await?;
        Ok(answer.ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?)
    }

    /// The next question; none where there will be no more.
    ///
    /// # Errors
    ///
    /// What is no question, or too long for one.
    pub async fn question<Q: DeserializeOwned>(&mut self) -> io::Result<Option<Q>> {
        self.receive(QUESTION_MAX).await
    }

    /// Answers it.
    ///
    /// # Errors
    ///
    /// Where nobody listens.
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
    async fn what_is_no_question_is_an_error() {
        for bytes in [
            // Longer than a question may be; not JSON; less than it says.
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
    async fn the_end_comes_without_a_question_and_not_with_an_answer() {
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
    async fn nobody_answers() {
        let (mut here, there) = pair();
        drop(there);
        assert!(here.ask::<u64>(&1).await.is_err());
    }
}
