//! `limiter check`.

use crate::cli::{
    args,
    interfaces::each,
    output::{print, print_json},
};
use crate::kernel::Attachment;
use crate::stats::collect;
use crate::view;

pub async fn run(arguments: args::Check) -> anyhow::Result<()> {
    let interfaces = &arguments.on.interfaces;
    each(interfaces, async |interface| {
        one(interface, &arguments).await
    })
    .await
}

async fn one(interface: &str, arguments: &args::Check) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let check = collect::check(&attachment, arguments.address)?;
    if arguments.json {
        return print_json(&check);
    }
    Ok(print(&view::source::check(&check))?)
}
