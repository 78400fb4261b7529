//! Attaches XDP programs through netlink, as `ip link` does. Only for foreign programs: limiter itself uses a link.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use rtnetlink::{
    packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload},
    packet_route::{
        RouteNetlinkMessage,
        link::{LinkAttribute, LinkMessage, LinkXdp},
    },
    sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE},
};

use crate::kernel::sys::XdpMode;

/// Only if no program is attached.
const XDP_FLAGS_UPDATE_IF_NOEXIST: u32 = 1;
/// Only if the expected program is attached (Linux 5.7).
const XDP_FLAGS_REPLACE: u32 = 1 << 4;

/// The index of an interface, and the mode of a program on it.
pub type Place = (u32, XdpMode);

/// Takes `program`, and no other, off its place. `EEXIST` if another program is there, `EBUSY` if
/// a link holds it.
pub fn take_off(place: Place, program: BorrowedFd<'_>) -> io::Result<()> {
    const NONE: i32 = -1;
    let expected = LinkXdp::ExpectedFd(program.as_raw_fd().cast_unsigned());
    request(place, XDP_FLAGS_REPLACE, [LinkXdp::Fd(NONE), expected])
}

/// Puts `program` there. `EBUSY` or `EEXIST` if any mode has a program already.
pub fn put_on(place: Place, program: BorrowedFd<'_>) -> io::Result<()> {
    let fd = LinkXdp::Fd(program.as_raw_fd());
    request(place, XDP_FLAGS_UPDATE_IF_NOEXIST, [fd])
}

/// Whether `program` is attached there: tries to exchange it for itself, which changes nothing.
pub fn is_on(place: Place, program: BorrowedFd<'_>) -> bool {
    let fd = program.as_raw_fd();
    let both = [LinkXdp::Fd(fd), LinkXdp::ExpectedFd(fd.cast_unsigned())];
    request(place, XDP_FLAGS_REPLACE, both).is_ok()
}

/// Sends a message, and returns the answer. The kernel answers during the send.
pub fn ask(protocol: isize, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(question, 0)?;
    Ok(socket.recv_from_full()?.0)
}

/// Sends `RTM_SETLINK` with `IFLA_XDP`.
fn request(
    (interface, mode): Place,
    flags: u32,
    programs: impl IntoIterator<Item = LinkXdp>,
) -> io::Result<()> {
    let mut attributes = vec![LinkXdp::Flags(flags | mode.flag())];
    attributes.extend(programs);
    let mut link = LinkMessage::default();
    link.header.index = interface;
    link.attributes = vec![LinkAttribute::Xdp(attributes)];
    let mut message = NetlinkMessage::new(
        NetlinkHeader::default(),
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::SetLink(link)),
    );
    message.header.flags = NLM_F_REQUEST | NLM_F_ACK;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    let answer = ask(NETLINK_ROUTE, &bytes)?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    match answer.payload {
        NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
