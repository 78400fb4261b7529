//! The host's TCP sockets, by netlink (`NETLINK_SOCK_DIAG`; include/uapi/linux/inet_diag.h).

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use rtnetlink::{
    packet_core::{NLM_F_DUMP, NLM_F_REQUEST},
    sys::{Socket as Netlink, SocketAddr, protocols::NETLINK_SOCK_DIAG},
};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const TCP: u8 = 6;

/// States of sockets (include/net/tcp_states.h): open connections, and listeners.
const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;
const LISTEN: u8 = 10;

/// Bytes of `struct nlmsghdr`, `struct inet_diag_req_v2` and `struct inet_diag_msg`.
const HEADER: usize = 16;
const QUESTION: usize = 56;
const ANSWER: usize = 72;

/// A TCP socket of this network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSocket {
    /// The local port.
    pub port: u16,
    /// The peer of an open connection; `None`: a listener.
    pub peer: Option<IpAddr>,
}

/// All listeners and open connections.
pub fn all() -> io::Result<Vec<TcpSocket>> {
    let mut sockets = Vec::new();
    for family in [AF_INET, AF_INET6] {
        dump(family, &mut sockets)?;
    }
    Ok(sockets)
}

fn dump(family: u8, sockets: &mut Vec<TcpSocket>) -> io::Result<()> {
    let mut socket = Netlink::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&question(family), 0)?;
    loop {
        let (answer, _) = socket.recv_from_full()?;
        if read(&answer, sockets)? {
            return Ok(());
        }
    }
}

fn question(family: u8) -> Vec<u8> {
    let length = u32::try_from(HEADER + QUESTION).unwrap_or(0);
    let states: u32 = 1 << ESTABLISHED | 1 << CLOSE_WAIT | 1 << LISTEN;
    let mut question = length.to_ne_bytes().to_vec();
    question.extend(BY_FAMILY.to_ne_bytes());
    question.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    question.extend([0; 8]);
    question.extend([family, TCP, 0, 0]);
    question.extend(states.to_ne_bytes());
    question.resize(HEADER + QUESTION, 0);
    question
}

/// Adds the sockets of these messages. Returns whether the last one was among them.
fn read(mut messages: &[u8], sockets: &mut Vec<TcpSocket>) -> io::Result<bool> {
    let cut = || io::Error::other("the kernel's list of sockets is cut short");
    while let Some((header, _)) = messages.split_first_chunk::<HEADER>() {
        let [a, b, c, d, e, f, ..] = *header;
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let message = messages.get(..length.max(HEADER)).ok_or_else(cut)?;
        match u16::from_ne_bytes([e, f]) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = message.get(HEADER..).and_then(<[u8]>::first_chunk);
                let code = i32::from_ne_bytes(*code.ok_or_else(cut)?);
                return Err(io::Error::from_raw_os_error(-code));
            }
            _ => {
                let message = message.get(HEADER..HEADER + ANSWER).ok_or_else(cut)?;
                sockets.extend(socket(message));
            }
        }
        messages = messages
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Ok(false)
}

/// Reads a `struct inet_diag_msg`.
fn socket(message: &[u8]) -> Option<TcpSocket> {
    let (family, state) = (*message.first()?, *message.get(1)?);
    let port = u16::from_be_bytes(*message.get(4..)?.first_chunk()?);
    let peer: [u8; 16] = *message.get(24..)?.first_chunk()?;
    let [a, b, c, d, ..] = peer;
    let address = match family {
        AF_INET => IpAddr::from(Ipv4Addr::new(a, b, c, d)),
        _ => Ipv6Addr::from(peer).to_canonical(),
    };
    Some(TcpSocket {
        port,
        peer: (state != LISTEN).then_some(address),
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn listeners_and_connections_are_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dual = TcpListener::bind("[::]:0").unwrap();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let _client = TcpStream::connect(("127.0.0.1", port(&listener))).unwrap();
        let _accepted = listener.accept().unwrap();
        let _mapped = TcpStream::connect(("127.0.0.1", port(&dual))).unwrap();
        let sockets = all().unwrap();
        for listener in [&listener, &dual] {
            for peer in [None, Some(IpAddr::from([127, 0, 0, 1]))] {
                let port = port(listener);
                let wanted = TcpSocket { port, peer };
                assert!(sockets.contains(&wanted), "{wanted:?} in {sockets:?}");
            }
        }
    }

    #[test]
    fn cut_message_is_an_error() {
        let mut message = question(AF_INET);
        assert!(read(&message, &mut Vec::new()).is_err());
        message.truncate(HEADER + 3);
        assert!(read(&message, &mut Vec::new()).is_err());
    }
}
