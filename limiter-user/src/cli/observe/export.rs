use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use anyhow::bail;
use clap::Args;

use crate::{
    cli::shared::{interruption, note, print},
    export::{self, Collection, Served, Server},
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
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let port = export::LISTEN.port();
    let with_port = text.parse();
    let listen = with_port.or_else(|_| text.parse().map(|address: IpAddr| (address, port).into()));
    listen.map_err(|_| {
        "not an address: write one as in 127.0.0.1:10546, [::1]:10546 or ::1".to_owned()
    })
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
    for error in &reading.snapshot.unreadable {
        note(error);
    }
    let server = Server::bind(arguments.listen).await?;
    // From here on, requests can make this process do nothing more than ask the helper.
    sandbox::enter()?;
    let address = server.address;
    if !server.is_local() {
        note(&format!(
            "{address}: clients that can reach this address can read counters and source addresses without a password, \
             but change nothing"
        ));
    }
    print(&format!(
        "web page: http://{address}/, metrics: http://{address}/metrics\n"
    ))?;
    let served = Served {
        collection,
        labels: arguments.labels.into(),
    };
    tokio::select! {
        () = stop => Ok(()),
        why = lost => Err(why?.into()),
        never = server.run(served) => never,
    }
}
