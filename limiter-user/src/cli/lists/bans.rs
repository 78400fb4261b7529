use clap::Args;
use limiter_kernel::Attachment;

use crate::{
    cli::shared::{answer, each, interface},
    observe, show,
};

/// List the bans, and the sources that limits hold
#[derive(Debug, Args)]
pub struct Bans {
    /// The interfaces, separated by spaces or commas. Default: all that limiter is attached to
    #[arg(value_name = "IFACE", default_value = "all", hide_default_value = true, value_delimiter = ',', value_parser = interface)]
    interfaces: Vec<String>,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Bans) -> anyhow::Result<()> {
    let list = async |interface: &str| {
        let bans = observe::Bans::new(&Attachment::open(interface).await?)?;
        answer(arguments.json, &bans, || show::bans::bans(&bans))
    };
    each(&arguments.interfaces, list).await
}
