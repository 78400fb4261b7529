use std::{
    collections::BTreeMap,
    future::pending,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use anyhow::bail;
use clap::Args;
use nix::unistd::{Gid, Group};

use crate::{
    cli::shared::{interruption, note, print},
    export::{self, Collection, Served, Server, Socket},
    helper, sandbox,
};

/// Serve metrics for Prometheus, and a web page
///
/// It runs until interrupted, and changes nothing.
#[derive(Debug, Args)]
pub struct Export {
    /// Address and port to listen on; without a port, 10546. Other machines need no password to read an address that they
    /// can reach
    #[arg(long, value_name = "ADDR[:PORT]", default_value_t = export::LISTEN, value_parser = listen)]
    listen: SocketAddr,
    /// Label of each sample of the metrics, besides its own, for readers that add none; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = export::label)]
    labels: Vec<(String, String)>,
    /// Also answer status, top, check and bans of this group's members, without root, on a Unix socket of mode 0660
    #[arg(long, value_name = "GROUP", value_parser = group)]
    socket_group: Option<Gid>,
    /// Path of this socket. Commands know only the default: /run/limiter-export/socket
    #[arg(long, value_name = "PATH", requires = "socket_group")]
    socket: Option<PathBuf>,
}

/// Reads the name of a group, or its id.
fn group(text: &str) -> Result<Gid, String> {
    match (text.parse(), Group::from_name(text)) {
        (_, Ok(Some(group))) => Ok(group.gid),
        (Ok(id), _) => Ok(Gid::from_raw(id)),
        _ => Err("there is no such group: make it by `groupadd`, or write another".to_owned()),
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let port = export::LISTEN.port();
    let with_port = text.parse();
    let listen = with_port.or_else(|_| text.parse().map(|address: IpAddr| (address, port).into()));
    listen.map_err(|_| {
        "not an address: write one as in 127.0.0.1:10546, [::1]:10546 or ::1".to_owned()
    })
}

/// Answers on the socket, if there is one. Does not end.
async fn answer_local(socket: Option<Socket>, collection: Collection) {
    match socket {
        Some(socket) => socket.run(collection).await,
        None => pending().await,
    }
}

pub async fn run(arguments: Export) -> anyhow::Result<()> {
    let labels: BTreeMap<_, _> = arguments.labels.iter().cloned().collect();
    if labels.len() < arguments.labels.len() {
        bail!("--label: each name may be given once");
    }
    let stop = interruption()?;
    let (collection, lost) = Collection::start(helper::start(None)?, true);
    // Unreadable attachments are reported now, not at the first scrape.
    let reading = collection.latest().await.map_err(anyhow::Error::msg)?;
    for text in reading.snapshot.notes() {
        note(text);
    }
    let server = Server::bind(arguments.listen).await?;
    let socket = arguments.socket_group;
    let socket = socket.map(|group| Socket::bind(arguments.socket.as_deref(), group));
    let socket = socket.transpose()?;
    // From here on, requests can make this process do nothing more than ask the helper.
    sandbox::enter()?;
    let address = server.address;
    if !server.is_local() {
        note(&format!(
            "{address}: clients that can reach this address can read counters and source addresses without a password, \
             but change nothing"
        ));
    }
    let path = socket.as_ref().map(|socket| socket.path.display());
    let path = path.map_or_else(String::new, |path| format!("socket: {path}\n"));
    print(&format!(
        "web page: http://{address}/, metrics: http://{address}/metrics\n{path}"
    ))?;
    let local = answer_local(socket, collection.clone());
    let served = Served {
        collection,
        labels: arguments.labels.into(),
    };
    tokio::select! {
        () = stop => Ok(()),
        why = lost => Err(why?.into()),
        never = server.run(served) => never,
        () = local => Ok(()),
    }
}
