//! Connections to a Unix socket that only root may use: the helper process makes them for a feed.
//!
//! CrowdSec's socket is root's. The helper connects to the one path that it was started with, whatever its parent asks for,
//! and hands the connection over through a second socket between the two.

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use limiter_feed::Dial;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The feed's end of the second socket: asks the helper for a connection.
pub fn through(helper: UnixStream) -> Dial {
    let helper = Mutex::new(helper);
    Arc::new(move || {
        let mut helper = helper.lock().unwrap_or_else(PoisonError::into_inner);
        helper.write_all(&[0])?;
        receive(&helper)
    })
}

fn receive(helper: &UnixStream) -> io::Result<UnixStream> {
    let mut code = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [IoSliceMut::new(&mut code)];
    let received = recvmsg(helper, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes != size_of_val(&code) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let handed = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    match handed {
        Some(descriptor) => Ok(UnixStream::from(descriptor)),
        None => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code))),
    }
}

/// The helper's end: connects to `path` whenever the feed asks, until it is gone.
pub fn attend(feed: OwnedFd, path: PathBuf) {
    let mut feed = UnixStream::from(feed);
    thread::spawn(
        move || {
            while feed.read_exact(&mut [0]).is_ok() && send(&feed, &path).is_ok() {}
        },
    );
}

fn send(feed: &UnixStream, path: &Path) -> io::Result<()> {
    let connected = UnixStream::connect(path);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let code = match &connected {
        Ok(_) => 0,
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
    };
    let descriptors: Vec<_> = connected.iter().map(AsFd::as_fd).collect();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let code = code.to_ne_bytes();
    let from = &[IoSlice::new(&code)];
    sendmsg(feed, from, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn connection_of_the_helper_is_handed_over_and_so_is_its_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let (here, there) = UnixStream::pair().expect("a pair of sockets");
        attend(there.into(), path.clone());
        let dial = through(here);
        let refused = dial().expect_err("nothing listens");
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).expect("a socket");
        for text in ["one", "other"] {
            let mut connection = dial().expect("a connection");
            let (mut accepted, _) = listener.accept().expect("a client");
            accepted.write_all(text.as_bytes()).expect("written");
            drop(accepted);
            let mut read = String::new();
            connection.read_to_string(&mut read).expect("read");
            assert_eq!(read, text);
        }
        drop(listener);
        let refused = dial().expect_err("nothing listens any more");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
