//! Finds the server to use among the addresses of a store.

use std::{io, net::SocketAddr};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::net::{TcpStream, UnixStream, lookup_host};

use super::{
    address::Place,
    error::{Error, Fault},
    options::Target,
    socket::Stream,
};

/// A socket that is connected to a server.
pub(super) struct Socket {
    pub stream: Box<dyn Stream>,
    /// The server's address; none for a Unix socket.
    pub peer: Option<SocketAddr>,
}

type Sockets = FuturesUnordered<BoxFuture<'static, io::Result<Socket>>>;

/// Begins a session with the first of the servers that is suitable. A name may have several addresses: of those that can
/// be reached, each is tried.
/// Fails with the error of each server if there is none.
pub(super) async fn first<T>(
    target: &Target,
    servers: &[Place],
    begin: impl AsyncFn(Socket, &Place) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut errors = Vec::new();
    for place in servers {
        let mut sockets = match target.within_timeout(open(target, place)).await {
            Ok(sockets) => sockets,
            Err(error) => {
                errors.push(error.of_server(place.shown()));
                continue;
            }
        };
        let several = sockets.len() > 1;
        let mut unreachable = None;
        loop {
            let next = async { Ok(sockets.next().await) };
            let socket = match target.within_timeout(next).await {
                Ok(Some(Ok(socket))) => socket,
                Ok(Some(Err(error))) => {
                    unreachable = Some(target.error(unreached(target, &error)));
                    continue;
                }
                Ok(None) => break,
                Err(error) => {
                    unreachable = Some(error);
                    break;
                }
            };
            let address = socket.peer.filter(|_| several);
            let shown = address.map_or_else(|| place.shown(), |address| address.to_string());
            match begin(socket, place).await {
                Ok(session) => return Ok(session),
                Err(error) => errors.push(error.of_server(shown)),
            }
        }
        errors.extend(unreachable.map(|error| error.of_server(place.shown())));
    }
    match errors.len() {
        1 => Err(errors.remove(0)),
        _ => Err(Error::Servers(errors)),
    }
}

fn unreached(target: &Target, error: &io::Error) -> Fault {
    Fault::Unreachable(target.quoted(&error.to_string()))
}

/// Connects to all addresses of a server at the same time.
async fn open(target: &Target, place: &Place) -> Result<Sockets, Fault> {
    let sockets = Sockets::new();
    match place.clone() {
        Place::Unix(path) => sockets.push(Box::pin(async move {
            let stream = Box::new(UnixStream::connect(path).await?);
            Ok(Socket { stream, peer: None })
        })),
        Place::Tcp(host, port) => {
            let addresses = lookup_host((host, port)).await;
            for address in addresses.map_err(|error| unreached(target, &error))? {
                sockets.push(Box::pin(async move {
                    let stream = TcpStream::connect(address).await?;
                    stream.set_nodelay(true)?;
                    Ok(Socket {
                        stream: Box::new(stream),
                        peer: Some(address),
                    })
                }));
            }
        }
    }
    if sockets.is_empty() {
        let none = "failed to lookup address: there is none";
        return Err(Fault::Unreachable(none.to_owned()));
    }
    Ok(sockets)
}
