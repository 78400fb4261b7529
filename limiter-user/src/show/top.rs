//! The output of `top --once`.

use limiter_config::DENY;

use crate::{
    observe::{Top, check::BAN, source::TopSource},
    show::{
        table::table,
        units::{below, grouped, rate, seconds},
    },
};

/// The busiest sources, and the drops of others.
pub fn once(top: &Top) -> String {
    let (name, verdicts) = (&top.interface, &top.verdicts);
    if top.sources.is_empty() && top.other_drops.is_empty() {
        return format!("{name}: no source is in the table\n");
    }
    let over = |interval| format!("; rates over {}", seconds(interval));
    let interval = top.interval_seconds.map(over).unwrap_or_default();
    let passed = grouped(verdicts.passed.packets);
    let dropped = grouped(verdicts.dropped.packets);
    let lines = delays(top) + &sources(top);
    format!("{name}: {passed} passed, {dropped} dropped{interval}\n{lines}\n")
}

/// A line about delayed packets; empty if no limit delays.
pub fn delays(top: &Top) -> String {
    let below = below(top.delayed_below_seconds);
    let line = |packets| format!("delayed {}/s{below}\n", rate(Some(packets)));
    top.delayed_packets_per_second.map(line).unwrap_or_default()
}

/// The sources, and drops of others.
fn sources(top: &Top) -> String {
    let columns = "SOURCE|LIMIT|PASS/s|DROP/s|PASSED|DROPPED|WOULD DROP|TOKENS";
    let sources = top.sources.iter().map(|source| {
        [
            with_place(source),
            source.limit.clone(),
            rate(source.passed_packets_per_second),
            drop_rate(source),
            grouped(source.passed_packets),
            grouped(source.dropped_packets),
            grouped(source.would_drop_packets),
            tokens(source),
        ]
    });
    let others = top.other_drops.iter().map(|drops| {
        let (source, limit) = of_others(&drops.reason);
        let since = rate(drops.dropped_packets_per_second);
        let dropped = grouped(drops.dropped_packets);
        // They have no bucket.
        [source, limit, "-", &since, "-", &dropped, "-", "-"].map(str::to_owned)
    });
    table(columns, 2, sources.chain(others))
}

/// The tokens of a source, the time for which it is held, and its open connections.
fn tokens(source: &TopSource) -> String {
    let tokens = match source.held_seconds {
        Some(time) => format!("held {}", seconds(time)),
        None => format!("{:.1}", source.tokens),
    };
    match source.open_connections {
        Some(open) => format!("{tokens}, {} open", grouped(open)),
        None => tokens,
    }
}

/// A source, with its country and autonomous system if they are known.
pub fn with_place(source: &TopSource) -> String {
    let system = source.autonomous_system.map(|number| format!("AS{number}"));
    let place = source.country.iter().chain(&system);
    let place: String = place.map(|part| format!(" {part}")).collect();
    source.source.clone() + &place
}

/// The name of drops that are not of a single source, and the name of their limit.
pub fn of_others(reason: &str) -> (&str, &str) {
    match reason {
        "limit" => ("other sources", "any"),
        DENY => ("denied sources", "deny list"),
        BAN => ("banned sources", "ban"),
        "new_source" => ("new sources", "new source"),
        "answered" => ("asked for proof", "new source"),
        reason => (reason, reason),
    }
}

/// Packets over the limit per second; in parentheses if shadow let them pass.
pub fn drop_rate(source: &TopSource) -> String {
    match source.listed.as_deref() {
        // The drops are counted for the prefix.
        Some(DENY) => "denied".to_owned(),
        Some(BAN) => "banned".to_owned(),
        _ if !source.shadow => rate(source.dropped_packets_per_second),
        _ => format!("({})", rate(source.would_drop_packets_per_second)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::live::example;

    #[test]
    fn delays_have_a_line_if_limits_delay() {
        let mut top = example::sample(0).top;
        assert!(!once(&top).contains("delayed"));
        top.delayed_packets_per_second = Some(100.0);
        top.delayed_below_seconds = Some(0.016_777_216);
        assert!(once(&top).contains("\ndelayed 100/s, 99 % below 16.8 ms\n"));
    }
}
