//! `limiter check`.

use crate::cli::{
    args,
    output::{print, print_json},
};
use crate::kernel::Attachment;
use crate::stats::{collect, source::Check};
use crate::view;

pub async fn run(arguments: args::Check) -> anyhow::Result<()> {
    let Attachment {
        interface,
        record,
        tables,
        ..
    } = Attachment::open(&arguments.interface).await?;
    let limit = &record.settings.limit;
    let key = limit.key.of(arguments.address);
    // The clock is read after the bucket: otherwise a packet in between would seem to come from the
    // future.
    let source = tables.source(&key)?;
    let reader = collect::reader(&record)?;
    let check = Check {
        interface: interface.name,
        source: limit.key.show(&key),
        listed: None,
        limits: vec![reader.check(&limit.name, source.as_ref())],
    };
    if arguments.json {
        return print_json(&check);
    }
    Ok(print(&view::source::check(&check))?)
}
