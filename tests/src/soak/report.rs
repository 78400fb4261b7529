//! Writes the report of the soak.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    time::{Duration, SystemTime},
};

use super::{Soak, bound::Bounds};
use crate::number;

/// Packets sent, their verdicts, and actions meanwhile.
#[derive(Debug)]
pub struct Report {
    time: Duration,
    /// Figures by name.
    figures: Vec<(String, String)>,
    done: BTreeMap<&'static str, u64>,
}

impl Report {
    pub(super) fn of(soak: &Soak<'_>, bounds: &Bounds, time: Duration) -> Self {
        let status = soak.hosts.status();
        let packets = |name: &str| number(&status[name]["packets"]).to_string();
        let (least, most) = bounds.used();
        let figures = [
            ("packets sent", soak.sent.all().to_string()),
            ("packets that limiter has seen", packets("seen")),
            ("packets passed", packets("passed")),
            ("packets dropped", packets("dropped")),
            ("packets lost by slow sources", "0".to_owned()),
            (
                "share of burst + rate × t used by heavy sources",
                format!("{:.4} % to {:.4} %", 100.0 * least, 100.0 * most),
            ),
            (
                "smallest distance to burst + rate × t, in packets",
                format!("{:.3}", bounds.room()),
            ),
        ];
        Self {
            time,
            figures: figures
                .map(|(name, figure)| (name.to_owned(), figure))
                .into(),
            done: soak.done.lock().unwrap().clone(),
        }
    }

    /// Number of times that an action was done.
    pub fn times(&self, what: &str) -> u64 {
        self.done.get(what).copied().unwrap_or(0)
    }

    /// The report as Markdown.
    pub fn page(&self) -> String {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut page = format!(
            "# Soak\n\nResult of `cargo xtask soak --out docs/soak.md`: {} of all functions at once, ended {}, on Linux {}.\n\
             The first failed check ends a run. This run completed.\n\n| figure | |\n| --- | --- |\n",
            humantime::format_duration(Duration::from_secs(self.time.as_secs())),
            humantime::format_rfc3339_seconds(SystemTime::now()),
            kernel.trim(),
        );
        for (name, figure) in &self.figures {
            let _ = writeln!(page, "| {name} | {figure} |");
        }
        page += "\n| action | count |\n| --- | --- |\n";
        for (what, times) in &self.done {
            let _ = writeln!(page, "| {what} | {times} |");
        }
        page
    }
}
