//! Bytes and one descriptor over a Unix socket, and who is at its other end.

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    time::Duration,
};

use nix::{
    cmsg_space,
    sys::{
        socket::{
            AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
            UnixAddr, UnixCredentials, connect as nix_connect, getsockopt, recvmsg, sendmsg,
            setsockopt, socket,
            sockopt::{PeerCredentials, SendTimeout},
        },
        time::TimeVal,
    },
};

use crate::kernel::sys::bpf;

/// Listens on an abstract name.
pub fn listen(name: &str) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to an abstract name; nothing takes longer than `patience`.
pub fn connect(name: &str, patience: Duration) -> io::Result<UnixStream> {
    // Not by UnixStream::connect: that waits without an end where the listener does not accept.
    let socket = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let seconds = i64::try_from(patience.as_secs()).unwrap_or(1);
    setsockopt(&socket, SendTimeout, &TimeVal::new(seconds, 0))?;
    let address = UnixAddr::new_abstract(name.as_bytes())?;
    nix_connect(socket.as_raw_fd(), &address)?;
    let stream = UnixStream::from(socket);
    stream.set_read_timeout(Some(patience))?;
    Ok(stream)
}

/// Who connected, or who listens, as the kernel has it.
pub fn peer(stream: &UnixStream) -> io::Result<UnixCredentials> {
    Ok(getsockopt(stream, PeerCredentials)?)
}

/// Sends a few bytes and a descriptor.
pub fn send(stream: &UnixStream, bytes: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
    let descriptors = [fd.as_raw_fd()];
    let sent = sendmsg::<()>(
        stream.as_raw_fd(),
        &[IoSlice::new(bytes)],
        &[ControlMessage::ScmRights(&descriptors)],
        MsgFlags::MSG_NOSIGNAL,
        None,
    )?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Receives what [`send`] has sent; an end of the stream is an error.
pub fn receive<const N: usize>(stream: &UnixStream) -> io::Result<([u8; N], OwnedFd)> {
    let mut bytes = [0_u8; N];
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    let mut space = cmsg_space!(RawFd);
    let message = recvmsg::<()>(
        stream.as_fd().as_raw_fd(),
        &mut buffers,
        Some(&mut space),
        MsgFlags::MSG_CMSG_CLOEXEC,
    )?;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = control {
            descriptors.extend(raw.into_iter().map(bpf::owned));
        }
    }
    match (message.bytes == N, descriptors.pop()) {
        (true, Some(descriptor)) => Ok((bytes, descriptor)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Write},
    };

    use super::*;

    #[test]
    fn bytes_and_a_descriptor_go_across() {
        let (here, there) = UnixStream::pair().expect("a pair of sockets");
        let (mut reader, writer) = io::pipe().expect("a pipe");
        send(&here, &7_u64.to_le_bytes(), writer.as_fd()).expect("sent");
        drop(writer);
        let (bytes, descriptor) = receive::<8>(&there).expect("received");
        assert_eq!(u64::from_le_bytes(bytes), 7);
        let mut copy = File::from(descriptor);
        copy.write_all(b"through it").expect("written");
        drop(copy);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "through it");
        assert_eq!(
            peer(&there).expect("credentials").uid(),
            nix::unistd::getuid().as_raw()
        );
    }

    #[test]
    fn bytes_alone_or_an_end_are_errors() {
        let (mut here, there) = UnixStream::pair().expect("a pair of sockets");
        here.write_all(&[1]).expect("written");
        assert!(receive::<1>(&there).is_err());
        drop(here);
        assert!(receive::<1>(&there).is_err());
    }

    #[test]
    fn nobody_listens() {
        let refused = connect("limiter/test/nobody", Duration::from_secs(1)).map(drop);
        let refused = refused.map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::ConnectionRefused));
    }
}
