//! `limiter export`.

use crate::cli::{
    args,
    log::interruption,
    output::{note, print},
};
use crate::export::{Collection, Server};

pub async fn run(arguments: args::Export) -> anyhow::Result<()> {
    let stop = interruption()?;
    let collection = Collection::default();
    // What cannot be read at all is said now, not at the first scrape.
    for error in &collection.latest().await?.snapshot.unreadable {
        note(error);
    }
    let server = Server::bind(arguments.listen).await?;
    let address = server.address();
    if !server.is_local() {
        note(&format!(
            "{address}: whoever reaches this address can read figures and source addresses without a password; \
             nothing can be changed through it"
        ));
    }
    print(&format!(
        "http://{address}/ is the page, http://{address}/metrics for Prometheus\n"
    ))?;
    server.run(collection, stop).await;
    Ok(())
}
