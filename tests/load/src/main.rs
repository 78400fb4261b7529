//! Programs that put limiter under load for minutes: `cargo xtask soak`, `cargo xtask overload` and
//! `cargo run --release -p limiter-load clients`.

mod clients;
mod overload;
mod soak;

use anyhow::Result;
use clap::Parser;

/// Put limiter under load
#[derive(Debug, Parser)]
#[command(name = "load")]
enum Tool {
    Soak(soak::Options),
    Overload(overload::Options),
    Clients(clients::Options),
}

fn main() -> Result<()> {
    match Tool::parse() {
        Tool::Soak(options) => soak::main(&options),
        Tool::Overload(options) => overload::main(&options)?,
        Tool::Clients(options) => clients::main(options)?,
    }
    Ok(())
}
