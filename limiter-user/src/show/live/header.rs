//! The interface, and all its packets by verdict and reason.

use std::{cmp::Reverse, time::SystemTime};

use limiter_common::policy::verdict::Reason;
use ratatui::{style::Style, text::Line};

use crate::{
    observe::{Count, Interface},
    show::{
        live::{
            grid::{Cell, Column, Grid, flow, width, wrapped},
            view::View,
        },
        top,
        units::{bits, grouped, rate, whole},
    },
};

/// The lines of the header. They are shown first, and none is left out.
/// `is_short`: reasons without drops at present are left to `limiter status`.
pub fn lines(view: &View, most: usize, is_short: bool) -> Vec<Line<'static>> {
    let mut lines = flow(&title(view), most, view.palette.title());
    lines.extend(alarms(view, most));
    lines.extend(sums(view, is_short).lines(most).into_iter().skip(1));
    let delays = top::delays(&view.sample.top);
    lines.extend(delays.lines().map(|line| Line::raw(line.to_owned())));
    lines
}

fn title(view: &View) -> Vec<String> {
    let interface = &view.sample.interface;
    let (entries, capacity) = (interface.sources.entries, interface.sources.capacity);
    let mut texts = vec![
        format!("{} {}", interface.name, interface.mode),
        format!("{} of {} entries", grouped(entries), grouped(capacity)),
    ];
    let added = |interface: &Interface| interface.sources.added;
    let before = view.sample.before.as_ref();
    if let Some(seconds) = view.sample.top.interval_seconds
        && let Some(before) = before
    {
        let added = added(interface).saturating_sub(added(before));
        let added = rate(Some(added as f64 / seconds));
        texts.push(format!("{added} new sources/s"));
    }
    texts.push(format!(
        "every {}",
        humantime::format_duration(view.interval)
    ));
    texts
}

/// States of the whole interface, each on lines that reach from side to side.
fn alarms(view: &View, most: usize) -> Vec<Line<'static>> {
    let interface = &view.sample.interface;
    let name = &interface.name;
    let mut texts = Vec::new();
    if interface.shadow {
        let short = "SHADOW: nothing is dropped".to_owned();
        let long = format!("{short}; packets over a limit are counted, and pass");
        texts.push([long, short]);
    }
    if let Some(until) = &interface.try_until {
        let left = left(until, view.now);
        texts.push([
            format!("ON TRIAL: {left} left, then it is undone; to keep it: limiter keep {name}"),
            format!("ON TRIAL {left}: limiter keep {name}"),
        ]);
    }
    if let Some(log) = &interface.log {
        let left = left(&log.until, view.now);
        let short = format!("LOGGING, {left} left");
        texts.push([
            format!("{short}; to end it: limiter keep {name} --revert"),
            short,
        ]);
    }
    let lines = texts.into_iter().flat_map(|[long, short]| {
        let text = if width(&long) <= most { long } else { short };
        wrapped(&text, most, view.palette.alarm())
    });
    lines.map(|line| filled(line, most)).collect()
}

/// The line with spaces up to this width.
pub fn filled(mut line: Line<'static>, most: usize) -> Line<'static> {
    let space = most.saturating_sub(line.width());
    line.push_span(" ".repeat(space));
    line
}

/// The time until a moment, in whole units.
fn left(until: &str, now: SystemTime) -> String {
    match humantime::parse_rfc3339(until) {
        Ok(until) => {
            let left = until.duration_since(now).unwrap_or_default();
            whole(left.as_secs_f64())
        }
        Err(_) => format!("until {until}, no time"),
    }
}

/// A line of packets.
struct Sum {
    name: String,
    all: Count,
    before: Option<Count>,
    style: Style,
}

/// Passed and dropped packets, the latter by reason.
fn sums(view: &View, is_short: bool) -> Grid {
    let (sample, palette) = (&view.sample, view.palette);
    let before = sample.before.as_ref();
    let of_verdict = |name: &str, style, count: fn(&Interface) -> Count| Sum {
        name: name.to_owned(),
        all: count(&sample.interface),
        before: before.map(count),
        style,
    };
    let mut sums = vec![of_verdict("passed", palette.passed(), |interface| {
        interface.verdicts.passed
    })];
    let over = of_verdict("  would drop", palette.shadow(), |interface| {
        interface.verdicts.would_drop
    });
    if sample.interface.shadow || over.all.packets > 0 {
        sums.push(over);
    }
    sums.push(of_verdict("dropped", palette.dropped(), |interface| {
        interface.verdicts.dropped
    }));
    sums.extend(reasons(view, is_short));
    let column = |is_number, left_out| Column {
        title: Cell::plain(""),
        is_number,
        left_out,
    };
    Grid {
        columns: vec![
            column(false, 0),
            column(true, 0),
            column(true, 1),
            column(true, 2),
        ],
        rows: sums.iter().map(|sum| row(sum, view)).collect(),
    }
}

fn row(sum: &Sum, view: &View) -> Vec<Cell> {
    let seconds = view.sample.top.interval_seconds;
    let since = |count: fn(Count) -> u64| {
        let grown = count(sum.all).checked_sub(count(sum.before?))?;
        Some(grown as f64 / seconds?)
    };
    let packets = since(|count| count.packets);
    let bytes = since(|count| count.bytes);
    // Colours are for packets of the present.
    let style = match packets {
        Some(rate) if rate > 0.0 => sum.style,
        _ => Style::new(),
    };
    vec![
        Cell::new(&sum.name, style),
        Cell::new(format!("{}/s", rate(packets)), style),
        Cell::new(
            bytes.map_or("-".to_owned(), |bytes| bits(8.0 * bytes)),
            style,
        ),
        Cell::plain(format!("{} in all", grouped(sum.all.packets))),
    ]
}

/// The reasons of drops. New sources go first while they are refused, because no row of a source shows them.
fn reasons(view: &View, is_short: bool) -> Vec<Sum> {
    let sample = &view.sample;
    let before = sample.before.as_ref().map(|before| &before.drops);
    let since = |reason: Reason, all: Count| {
        let then = before.map_or(all, |drops| drops.of(reason));
        all.packets.saturating_sub(then.packets)
    };
    let drops = sample.interface.drops.iter();
    let mut drops: Vec<_> = drops.filter(|(_, count)| count.packets > 0).collect();
    let now: u64 = drops
        .iter()
        .map(|(reason, count)| since(*reason, *count))
        .sum();
    if is_short && before.is_some() {
        drops.retain(|(reason, count)| since(*reason, *count) > 0);
    }
    drops.sort_by_key(|(reason, count)| {
        let since = since(*reason, *count);
        let is_of_new = *reason == Reason::NewSource && since > 0;
        Reverse((is_of_new, since, count.packets))
    });
    let sums = drops.into_iter().map(|(reason, count)| {
        // Honest new sources are refused now and then. Half of all drops are a flood.
        let is_flood = reason == Reason::NewSource && 2 * since(reason, count) > now;
        let name = match reason {
            Reason::Limit => "over a limit",
            _ => top::of_others(reason.name()).0,
        };
        Sum {
            name: format!("  {name}{}", if is_flood { " (spoofed?)" } else { "" }),
            all: count,
            before: Some(before.map_or(count, |drops| drops.of(reason))),
            style: view.palette.dropped(),
        }
    });
    sums.collect()
}
