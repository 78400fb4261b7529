//! Formats the results as a page in Markdown, for the terminal and the repository.

use std::fmt::Write as _;

use anyhow::Result;

use super::{release::COUNTED, results::Run};
use crate::process::today;

/// The page, with the current date.
pub fn page(runs: &[Run]) -> Result<String> {
    let mut page = format!(
        "# Kernels\n\n\
         Results of `cargo xtask test --kernels --out docs/kernels.md` on {}. The command boots Debian's kernels for\n\
         virtual machines in emulated machines with two CPUs, and runs kernel tests there. Emulation is slow, and a CPU\n\
         may stand still for seconds. So tests that flood, wait for wall-clock time, or need large programs are left out\n\
         (`xtask/src/kernels/init.sh`).\n",
        today()?
    );
    for run in runs.iter().filter(|run| run.name != COUNTED) {
        let (kernel, seconds, complaints) = (&run.kernel, run.seconds, run.complaints.len());
        let _ = write!(
            page,
            "\n## {kernel}\n\nAll targets took {seconds} s. The kernel printed {complaints} complaints.\n\n\
             | target | tests passed |\n| --- | --- |\n"
        );
        for target in &run.targets {
            let _ = writeln!(page, "| {} | {} |", target.title, target.counted());
        }
        let lines = run.targets.iter().flat_map(|target| target.printed.lines());
        let verified: Vec<_> = lines
            .filter_map(|line| line.strip_prefix("verified ")?.split_once(' '))
            .collect();
        if verified.is_empty() {
            continue;
        }
        page += "\nInstructions that the verifier processed for each entry in its most expensive configuration\n\
            (`tests/tests/verifier.rs`), of at most 1,000,000:\n\n| entry | instructions |\n| --- | --- |\n";
        for (entry, count) in verified {
            let _ = writeln!(page, "| `{entry}` | {} |", count.trim());
        }
    }
    Ok(page)
}
