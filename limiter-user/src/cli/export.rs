//! `limiter export`.

use crate::{
    cli::{
        args,
        log::interruption,
        output::{note, print},
    },
    export::{Collection, Server},
    keeper, sandbox,
};

pub async fn run(arguments: args::Export) -> anyhow::Result<()> {
    let stop = interruption()?;
    let collection = Collection::new(keeper::start()?);
    // What cannot be read at all is said now, not at the first scrape.
    for error in &collection.latest().await?.snapshot.unreadable {
        note(error);
    }
    let server = Server::bind(arguments.listen).await?;
    // Whatever comes in, this process can do no more than ask the keeper.
    sandbox::enter()?;
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
    let mut broken = None;
    let end = async {
        tokio::select! {
            () = stop => {}
            why = collection.lost() => broken = Some(why),
            never = collection.keep_history() => never,
        }
    };
    server.run(collection.clone(), end).await;
    broken.map_or(Ok(()), |why| Err(anyhow::Error::msg(why)))
}
