//! `limiter reset`.

use crate::cli::{args, output::print};
use crate::kernel::{Attachment, bpffs};

pub async fn run(arguments: args::Reset) -> anyhow::Result<()> {
    let Attachment {
        interface,
        record,
        mut tables,
        ..
    } = Attachment::open(&arguments.interface).await?;
    let _lock = bpffs::lock()?;
    let key = &record.settings.limit.key;
    let text = match arguments.address {
        Some(address) => {
            let source = key.of(address);
            let shown = key.show(&source);
            if tables.forget(&source)? {
                format!("{shown} is forgotten: its bucket is full again")
            } else {
                format!("{shown} was not in the table: its bucket is full")
            }
        }
        None => {
            let mut count = 0_u64;
            for (source, _) in tables.sources()? {
                count += u64::from(tables.forget(&source)?);
            }
            format!("{count} sources are forgotten: their buckets are full again")
        }
    };
    Ok(print(&format!("{}: {text}\n", interface.name))?)
}
