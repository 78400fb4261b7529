//! The `limiter` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    limiter_user::cli::main()
}
