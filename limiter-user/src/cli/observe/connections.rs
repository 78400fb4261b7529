use std::net::IpAddr;

use clap::Args;
use limiter_kernel::Attachment;

use crate::{
    cli::shared::{ForPrograms, OnOne, address, document, each},
    observe::connections::connections,
    show,
};

/// List the sources with open connections that limits bound
///
/// Counts are those of the host's sockets; a difference to the program's own counts is corrected.
#[derive(Debug, Args)]
pub struct Connections {
    #[command(flatten)]
    on: OnOne,
    /// Only connections of this source
    #[arg(value_name = "ADDRESS", value_parser = address)]
    address: Option<IpAddr>,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: Connections) -> anyhow::Result<()> {
    arguments.programs.answer();
    let list = async |interface: &str| {
        let attachment = Attachment::open(interface).await?;
        let open = connections(&attachment, arguments.address)?;
        document(arguments.programs.json, &open, || {
            show::connections::connections(&open)
        })
    };
    each(&arguments.on.interfaces, list).await
}
