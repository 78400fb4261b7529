//! The command of an earlier version, with another layout: `cargo xtask test` builds it from its commit.

use std::{env, path::PathBuf, process::Command};

use crate::{command::Outcome, hosts::Hosts};

/// Where it is; none where nobody has built it.
#[must_use]
pub fn binary() -> Option<PathBuf> {
    // Tests lie in TARGET/PROFILE/deps.
    let test = env::current_exe().ok()?;
    let built = test.ancestors().nth(3)?.join("layouts/v5/limiter");
    let told = env::var_os("LIMITER_LAYOUT_5").map(PathBuf::from);
    told.or(Some(built)).filter(|path| path.exists())
}

/// Runs the earlier `limiter` on the server.
#[must_use]
pub fn limiter(hosts: &Hosts, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(binary().unwrap());
    command.args(arguments);
    let output = hosts.server.namespace.run(|| command.output());
    let line = format!("limiter of layout 5: {}", arguments.join(" "));
    Outcome::of(line, output.unwrap().unwrap())
}

/// Where it pins what it attaches to the server's `eth0`.
#[must_use]
pub fn pins(hosts: &Hosts) -> PathBuf {
    let pins = hosts.pins();
    let layout = pins.parent().unwrap().with_file_name("v5");
    layout.join(pins.file_name().unwrap())
}

/// Leaves a test that needs the kernel, or the earlier version, where there is none.
#[macro_export]
macro_rules! need_earlier {
    () => {
        $crate::need_kernel!();
        if !$crate::need::earlier(concat!(module_path!(), ", line ", line!())) {
            return;
        }
    };
}
