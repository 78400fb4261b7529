//! `check` and `top`.

use comfy_table::{CellAlignment, Table, presets::NOTHING};

use crate::stats::source::{Check, CheckedLimit, Top};
use crate::view::units::{grouped, seconds};

/// One source.
#[must_use]
pub fn check(check: &Check) -> String {
    let mut text = format!("{} on {}\n", check.source, check.interface);
    match check.listed {
        Some("deny") if check.shadow => {
            text.push_str("  on the deny list: passes only because of shadow\n");
        }
        Some("deny") => text.push_str("  on the deny list: dropped before any limit\n"),
        Some(list) => text.push_str(&format!("  on the {list} list: passes before any limit\n")),
        None => {}
    }
    if !check.tiers.is_empty() {
        text.push_str(&format!("  on {}\n", check.tiers.join(", ")));
    }
    if check.limits.is_empty() && check.listed.is_none() {
        text.push_str("  no limit holds it: passes\n");
    }
    for limit in &check.limits {
        let state = if limit.tracked {
            ""
        } else {
            " (not in the table: its bucket is full)"
        };
        text.push_str(&format!(
            "  {}{}: {:.1} of {} tokens{state}\n",
            limit.name,
            bucket(limit, check),
            limit.tokens,
            grouped(limit.burst)
        ));
        if limit.retry_after_seconds > 0.0 {
            text.push_str(&format!(
                "    the next packet passes in {}\n",
                seconds(limit.retry_after_seconds)
            ));
        }
        if limit.tracked {
            text.push_str(&format!(
                "    {} passed, {} dropped since it is in the table\n",
                grouped(limit.passed),
                grouped(limit.dropped)
            ));
        }
        if limit.would_drop > 0 {
            text.push_str(&format!(
                "    {} passed only because of shadow\n",
                grouped(limit.would_drop)
            ));
        }
    }
    text
}

/// What the bucket is kept for, where that is not what stands above.
fn bucket(limit: &CheckedLimit, check: &Check) -> String {
    if limit.bucket == check.source {
        String::new()
    } else {
        format!(" for {}", limit.bucket)
    }
}

/// The busiest sources.
#[must_use]
pub fn top(top: &Top) -> String {
    if top.sources.is_empty() {
        return format!("{}: no source is in the table\n", top.interface);
    }
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header([
        "SOURCE",
        "LIMIT",
        "PASSED",
        "DROPPED",
        "WOULD DROP",
        "TOKENS",
    ]);
    for source in &top.sources {
        table.add_row([
            source.source.clone(),
            source.limit.clone(),
            grouped(source.passed),
            grouped(source.dropped),
            grouped(source.would_drop),
            format!("{:.1}", source.tokens),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{}\n", table.trim_fmt())
}
