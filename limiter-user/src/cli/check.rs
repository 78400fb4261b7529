//! `limiter check`.

use crate::cli::{
    args,
    output::{print, print_json},
};
use crate::kernel::Attachment;
use crate::stats::collect;
use crate::view;

pub async fn run(arguments: args::Check) -> anyhow::Result<()> {
    let attachment = Attachment::open(&arguments.interface).await?;
    let check = collect::check(&attachment, arguments.address)?;
    if arguments.json {
        return print_json(&check);
    }
    Ok(print(&view::source::check(&check))?)
}
