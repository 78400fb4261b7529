//! `cargo xtask stores`: the fleet's tests with stores and poolers of other releases of Debian.

mod packages;
mod page;
mod plan;

use std::{
    env, fs,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};

use self::plan::{ROWS, Row};
use crate::{
    debian, lanes, paths,
    process::{progress, today},
    suites::Suite,
    test,
};

/// Runs the rows with one of `names` in their names, or all. Writes their lines into the page `out`.
pub fn run(names: &[String], out: Option<&Path>) -> Result<ExitCode> {
    let is_chosen =
        |row: &&Row| names.is_empty() || names.iter().any(|name| row.name.contains(&**name));
    let rows: Vec<_> = ROWS.iter().filter(is_chosen).collect();
    if rows.is_empty() {
        let all = ROWS.map(|row| row.name).join(" ");
        bail!("no store or pooler has such a name: {all}");
    }
    debian::ensure("patchelf", "testing other stores")?;
    let path = test::install_packages(true)?;
    let modules: Vec<_> = rows
        .iter()
        .flat_map(|row| row.kind.suites())
        .map(str::to_owned)
        .collect();
    let suites = lanes::build(&modules)?;
    let mut code = ExitCode::SUCCESS;
    for row in rows {
        let unpacked = match packages::unpack(row) {
            Ok(unpacked) => unpacked,
            // The others may be there, and take half an hour.
            Err(error) => {
                progress(&format!("{}: {error:#}", row.name));
                code = ExitCode::FAILURE;
                continue;
            }
        };
        let folders = [unpacked.programs]
            .into_iter()
            .chain(env::split_paths(&path));
        let path = env::join_paths(folders).context("a folder of PATH has a colon in its name")?;
        let prepare = |command: &mut Command| {
            command
                .env("LIMITER_BINARY", paths::target().join("debug/limiter"))
                .env("LIMITER_STRICT", "1")
                .env("PATH", &path)
                .envs(row.kind.variable());
        };
        let is_run = |suite: &&Suite| row.kind.suites().contains(&&*suite.name);
        let chosen: Vec<_> = suites
            .iter()
            .filter(is_run)
            .map(|suite| suite.only(|test| row.kind.runs(test)))
            .collect();
        let results = lanes::each_test(&chosen, &prepare)?;
        if results.iter().any(|(_, passed)| !passed) {
            code = ExitCode::FAILURE;
        }
        let line = page::line(row.name, &unpacked.version, &today()?, &results);
        println!("{line}");
        if let Some(out) = out {
            let page = fs::read_to_string(out)
                .with_context(|| format!("cannot read {}", out.display()))?;
            let page = page::with(&page, &line)
                .with_context(|| format!("{} has no line for {}", out.display(), row.name))?;
            fs::write(out, page)?;
        }
    }
    Ok(code)
}
