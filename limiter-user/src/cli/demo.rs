//! `limiter demo`.

use crate::cli::args;

pub async fn run(_arguments: args::Demo) -> anyhow::Result<()> {
    Ok(())
}
