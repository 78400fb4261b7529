//! `limiter top`.

use crate::cli::{
    args,
    output::{print, print_json},
};
use crate::kernel::Attachment;
use crate::stats::collect;
use crate::view;

pub async fn run(arguments: args::Top) -> anyhow::Result<()> {
    let attachment = Attachment::open(&arguments.interface).await?;
    let top = collect::top(&attachment, arguments.most.get())?;
    if arguments.json {
        return print_json(&top);
    }
    Ok(print(&view::source::top(&top))?)
}
