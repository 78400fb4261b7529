//! Writes the report of the soak.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

use serde_json::Value;

use super::{Soak, bound::Bounds, memory::Range};
use crate::number;

/// Packets sent, their verdicts, actions meanwhile, and resources used.
#[derive(Debug)]
pub struct Report {
    date: String,
    time: Duration,
    sent: BTreeMap<&'static str, u64>,
    status: Value,
    come: u64,
    used: (f64, f64),
    room: f64,
    done: BTreeMap<&'static str, u64>,
    memory: BTreeMap<String, Range>,
}

impl Report {
    pub(super) fn of(soak: &Soak<'_>, bounds: &Bounds, slow: u64, time: Duration) -> Self {
        let sent = &soak.sent;
        Self {
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            time,
            sent: BTreeMap::from([
                ("from made-up sources", sent.spoofed.load(Ordering::SeqCst)),
                (
                    "from heavy sources, and odd frames",
                    sent.usual.load(Ordering::SeqCst),
                ),
                ("from slow sources", slow),
                (
                    "refused by the wire and sent again",
                    soak.lost.load(Ordering::SeqCst),
                ),
            ]),
            status: soak.hosts.status(),
            come: soak.arrivals.all(),
            used: bounds.used(),
            room: bounds.room(),
            done: soak.done.lock().unwrap().clone(),
            memory: soak.memory.lock().unwrap().ranges(),
        }
    }

    /// Number of times that an action was done.
    pub fn times(&self, what: &str) -> u64 {
        self.done.get(what).copied().unwrap_or(0)
    }

    /// The report as Markdown.
    pub fn page(&self) -> String {
        let mut page = format!(
            "# Soak\n\nResult of `cargo xtask soak --out docs/soak.md`: {} of all functions at once, ended {}, on Linux {}, {}.\n\
             The first failed check ends a run. This run completed.\n",
            humantime::format_duration(Duration::from_secs(self.time.as_secs())),
            self.date,
            first_line("/proc/sys/kernel/osrelease"),
            machine(),
        );
        self.packets(&mut page);
        self.bounds(&mut page);
        table(
            &mut page,
            ("action", "count"),
            self.done
                .iter()
                .map(|(what, times)| ((*what).to_owned(), grouped(*times))),
        );
        self.processes(&mut page);
        page
    }

    fn packets(&self, page: &mut String) {
        let sent = self
            .sent
            .iter()
            .map(|(source, count)| (format!("sent: {source}"), grouped(*count)));
        let packets = |count: &Value| grouped(number(&count["packets"]));
        let status = ["seen", "passed", "dropped"].map(|name| {
            (
                format!("{name}, by `limiter status`"),
                packets(&self.status[name]),
            )
        });
        let come = ("arrived behind limiter".to_owned(), grouped(self.come));
        let drops = self.status["drops"].as_object().unwrap();
        let drops = drops
            .iter()
            .map(|(reason, count)| (format!("dropped: `{reason}`"), packets(count)));
        table(
            page,
            ("packets", "count"),
            sent.chain(status).chain([come]).chain(drops),
        );
    }

    fn bounds(&self, page: &mut String) {
        let (least, most) = self.used;
        let sources = |name: &str| number(&self.status["sources"][name]);
        let rows = [
            ("packets lost by slow sources".to_owned(), "0".to_owned()),
            (
                "share of burst + rate × t used by heavy sources".to_owned(),
                format!("{:.4} % to {:.4} %", 100.0 * least, 100.0 * most),
            ),
            (
                "smallest distance to burst + rate × t between two readings, in packets".to_owned(),
                format!("{:.3}", self.room),
            ),
            (
                "entries of the table in use at the end".to_owned(),
                format!(
                    "{} of {}",
                    grouped(sources("entries")),
                    grouped(sources("capacity"))
                ),
            ),
            (
                "map memory under equal configurations".to_owned(),
                format!(
                    "constant ({} bytes at the end)",
                    grouped(sources("memory_bytes"))
                ),
            ),
        ];
        table(page, ("bounds", ""), rows.into_iter());
    }

    fn processes(&self, page: &mut String) {
        let rows = self.memory.iter().map(|(name, range)| {
            let mib = |bytes: u64| format!("{:.2}", bytes as f64 / f64::from(1 << 20));
            let value = format!(
                "{} | {} to {} | {:+.2} | {} to {}",
                range.processes,
                mib(range.bytes.0),
                mib(range.bytes.1),
                range.grown as f64 / f64::from(1 << 20),
                range.descriptors.0,
                range.descriptors.1
            );
            (name.clone(), value)
        });
        page.push_str("\n| process | number | memory, MiB | largest growth, MiB | descriptors |\n| --- | --- | --- | --- | --- |\n");
        for (name, value) in rows {
            let _ = writeln!(page, "| {name} | {value} |");
        }
        page.push_str(
            "\nGrowth is the median of the last quarter of a process's time minus the median of the first quarter, without the first fifth.\n",
        );
    }
}

fn table(
    page: &mut String,
    (left, right): (&str, &str),
    rows: impl Iterator<Item = (String, String)>,
) {
    let _ = writeln!(page, "\n| {left} | {right} |\n| --- | --- |");
    for (name, value) in rows {
        let _ = writeln!(page, "| {name} | {value} |");
    }
}

/// A number with thousands separators.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models = || {
        cpus.lines()
            .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
    };
    let model = models().next().map_or("unknown", |(_, model)| model);
    format!("{} x {model}", aya::util::nr_cpus().unwrap())
}
