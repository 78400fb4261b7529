//! `limiter`: the command.

use std::process::ExitCode;

fn main() -> ExitCode {
    limiter_user::cli::main()
}
