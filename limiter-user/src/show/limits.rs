//! A table with a line for each limit, and below it the match and the options.

use limiter_config::{Burst, Settings};

use crate::{
    observe::{Connections, Limit, Rates},
    show::{
        page::Page,
        table,
        units::{counted, grouped, whole_packets},
    },
};

/// The columns of a limit, and what does not fit into columns.
struct Row {
    name: String,
    rate: String,
    burst: String,
    key: String,
    /// Columns with counters.
    figures: Vec<String>,
    /// A line below the row: the reason why long frames never pass.
    warning: Option<String>,
    /// Another line below the row: the match, and what is not the default.
    options: Vec<String>,
}

/// Adds the limits of an attachment.
pub fn add(page: &mut Page, limits: &[Limit]) {
    let would_drop = limits.iter().any(|limit| limit.would_drop.packets > 0);
    let rated = limits.iter().any(|limit| limit.rates.is_some());
    let columns = [
        ("PASSED", true),
        ("DROPPED", true),
        ("WOULD DROP", would_drop),
        ("PASS/s", rated),
        ("OVER/s", rated),
    ];
    let names = columns.map(|(name, is_shown)| is_shown.then_some(name));
    let rows = limits.iter().map(|limit| {
        let rate = |rate: fn(&Rates) -> f64| {
            let per_second = limit.rates.as_ref().map(rate);
            per_second.map_or_else(String::new, whole_packets)
        };
        let figures = [
            grouped(limit.passed.packets),
            grouped(limit.dropped.packets),
            grouped(limit.would_drop.packets),
            rate(|rates| rates.passed.packets),
            rate(|rates| rates.dropped.packets + rates.would_drop.packets),
        ];
        let shown = figures.into_iter().zip(names);
        let shown = shown.filter_map(|(figure, name)| name.map(|_| figure));
        Row {
            name: limit.name.clone(),
            rate: limit.rate_in_force(),
            burst: (limit.burst.parse::<Burst>())
                .map_or_else(|_| limit.burst.clone(), |burst| burst.for_people()),
            key: limit.key.clone(),
            figures: shown.collect(),
            warning: (limit.never_admits.as_ref())
                .map(|why| format!("LONG FRAMES NEVER PASS: {why}")),
            options: options(limit),
        }
    });
    let names: Vec<_> = names.into_iter().flatten().collect();
    add_rows(page, &names, rows.collect());
}

/// Adds the limits of a file, as on an interface with frames of up to `frame_max` bytes.
pub fn add_configured(page: &mut Page, settings: &Settings, frame_max: u64) {
    let rows = settings.limits.iter().map(|limit| Row {
        name: limit.name.clone(),
        rate: limit.rate.to_string(),
        // The file was checked.
        burst: limit
            .burst(frame_max)
            .map_or_else(|_| String::new(), |burst| burst.for_people()),
        key: limit.key.to_string(),
        figures: Vec::new(),
        warning: None,
        options: Vec::new(),
    });
    add_rows(page, &[], rows.collect());
}

/// Adds the table. On a narrow terminal, the burst and the key move below the limit.
fn add_rows(page: &mut Page, figures: &[&str], rows: Vec<Row>) {
    let wide = table_of(figures, &rows, true);
    let fits = |line: &str| page.width().is_none_or(|width| line.len() < width);
    let is_wide = wide.lines().all(fits);
    let lines = match is_wide {
        true => wide,
        false => table_of(figures, &rows, false),
    };
    let mut lines = lines.lines();
    page.add(&format!(" {}\n", lines.next().unwrap_or_default()));
    for (line, row) in lines.zip(&rows) {
        page.add(&format!(" {line}\n"));
        if let Some(warning) = &row.warning {
            page.wrapped(&format!("    {warning}"), 6);
        }
        let moved = format!("burst {}, per {}", row.burst, row.key);
        let moved = (!is_wide).then_some(&moved).into_iter();
        let options: Vec<_> = moved.chain(&row.options).map(String::as_str).collect();
        if !options.is_empty() {
            page.wrapped(&format!("    {}", options.join(", ")), 6);
        }
    }
}

fn table_of(figures: &[&str], rows: &[Row], is_wide: bool) -> String {
    // The name, the rate, and on a wide terminal the burst and the key.
    let text = if is_wide { 4 } else { 2 };
    let columns = ["LIMIT", "RATE", "BURST", "PER"].into_iter().take(text);
    let rows = rows.iter().map(|row| {
        let terms = [&*row.name, &row.rate, &row.burst, &row.key];
        let figures = row.figures.iter().map(|figure| &**figure);
        terms.into_iter().take(text).chain(figures).collect()
    });
    table::rows(columns.chain(figures.iter().copied()), text, rows)
}

/// The open connections under a limit.
fn open(connections: Connections) -> String {
    let Connections { most, open, .. } = connections;
    let full = match connections.keys_at_bound {
        0 => String::new(),
        full => format!(", {} at the bound", grouped(full)),
    };
    let keys = counted(connections.keys, "source");
    let [most, open] = [most, open].map(grouped);
    format!("at most {most} connections: {open} open of {keys}{full}")
}

/// The match of a limit, and its options that are not the defaults.
fn options(limit: &Limit) -> Vec<String> {
    let held = limit.hold.as_ref().zip(limit.held_sources);
    let asleep = match limit.adapted {
        Some(false) => ": limiter adapt does not run",
        _ => "",
    };
    let options = [
        limit
            .r#match
            .as_ref()
            .map(|matches| format!("match {matches}")),
        limit.cost.map(|cost| format!("cost {cost}")),
        Some(limit.algorithm.to_string()).filter(|name| name != "token-bucket"),
        held.map(|(hold, held)| format!("holds for {hold}: {} held", grouped(held))),
        (limit.max_delay.as_ref()).map(|time| format!("delays for {time} at most")),
        (limit.adaptive.as_ref()).map(|adaptive| format!("down to {adaptive}{asleep}")),
        (limit.proof.as_ref()).map(|proof| format!("proof {proof}")),
        limit.connections.map(open),
        (limit.slip).map(|slip| format!("slip {slip}")),
        (limit.shadow).then(|| "shadow: drops nothing".to_owned()),
    ];
    options.into_iter().flatten().collect()
}
