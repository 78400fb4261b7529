//! The errors of reading a capture.

use std::io;

/// An error of reading a capture, with the capture's name and advice.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened.
    #[error("{0} cannot be read ({1}): check the path and its permissions")]
    Unopened(String, io::Error),
    /// Reading failed.
    #[error("{0} cannot be read ({1}): name a pcap or pcapng file, or - for standard input")]
    Unread(String, String),
    /// The file is empty.
    #[error("{0} is empty: write a capture to it, as with tcpdump -w")]
    Empty(String),
    /// The file ends before the first packet could begin.
    #[error("{0} ends within the header of the capture: name a complete capture")]
    NoHeader(String),
    /// The file is not a capture.
    #[error(
        "{0} is neither pcap nor pcapng: name a file that tcpdump -w has written (a compressed file \
         through a pipe: gunzip -c FILE | limiter ... -)"
    )]
    NoCapture(String),
    /// The packet with this number cannot be read.
    #[error("{0}: packet {1} {2}")]
    Packet(String, u64, String),
}

/// The result of reading a capture.
pub type Result<T> = std::result::Result<T, Error>;
