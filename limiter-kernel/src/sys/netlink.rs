//! Route netlink. Foreign XDP programs are attached through it, as `ip link` does: limiter itself uses a link.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use rtnetlink::{
    Error, Handle,
    packet_route::link::{LinkAttribute, LinkMessage, LinkXdp},
};

use crate::sys::XdpMode;

/// Only if no program is attached.
const XDP_FLAGS_UPDATE_IF_NOEXIST: u32 = 1;
/// Only if the expected program is attached (Linux 5.7).
const XDP_FLAGS_REPLACE: u32 = 1 << 4;

/// The index of an interface, and the mode of a program on it.
pub type Place = (u32, XdpMode);

/// Takes `program`, and no other, off its place. `EEXIST` if another program is there, `EBUSY` if
/// a link holds it.
pub async fn take_off(place: Place, program: BorrowedFd<'_>) -> io::Result<()> {
    const NONE: i32 = -1;
    let expected = LinkXdp::ExpectedFd(program.as_raw_fd().cast_unsigned());
    request(place, XDP_FLAGS_REPLACE, [LinkXdp::Fd(NONE), expected]).await
}

/// Puts `program` there. `EBUSY` or `EEXIST` if any mode has a program already.
pub async fn put_on(place: Place, program: BorrowedFd<'_>) -> io::Result<()> {
    let fd = LinkXdp::Fd(program.as_raw_fd());
    request(place, XDP_FLAGS_UPDATE_IF_NOEXIST, [fd]).await
}

/// Returns true if `program` is attached there: tries to exchange it for itself, which changes nothing.
pub async fn is_on(place: Place, program: BorrowedFd<'_>) -> bool {
    let fd = program.as_raw_fd();
    let both = [LinkXdp::Fd(fd), LinkXdp::ExpectedFd(fd.cast_unsigned())];
    request(place, XDP_FLAGS_REPLACE, both).await.is_ok()
}

/// Asks a question on a connection of its own.
pub async fn ask<T>(question: impl AsyncFnOnce(Handle) -> T) -> io::Result<T> {
    let (connection, handle, _) = rtnetlink::new_connection()?;
    let connection = tokio::spawn(connection);
    let answer = question(handle).await;
    connection.abort();
    Ok(answer)
}

/// Sends `RTM_SETLINK` with `IFLA_XDP`.
async fn request(
    (interface, mode): Place,
    flags: u32,
    programs: impl IntoIterator<Item = LinkXdp>,
) -> io::Result<()> {
    let mut attributes = vec![LinkXdp::Flags(flags | mode.flag())];
    attributes.extend(programs);
    let mut link = LinkMessage::default();
    link.header.index = interface;
    link.attributes = vec![LinkAttribute::Xdp(attributes)];
    let done = ask(async |handle| handle.link().set(link).execute().await).await?;
    done.map_err(|error| match error {
        Error::NetlinkError(answer) => answer.to_io(),
        error => io::Error::other(error),
    })
}
