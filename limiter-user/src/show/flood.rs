//! The output of `explain`.

use super::{
    table,
    units::{counted, grouped, whole_packets},
};
use crate::plan::flood::{Explanation, Pattern, Share};

/// Formats the explanation.
pub fn text(explanation: &Explanation) -> String {
    let mut text = traffic(explanation);
    if !explanation.shares.is_empty() {
        let rows = explanation.shares.iter().map(row);
        text += "\n";
        text += &table::table("FIELD|VALUE|NOW|BEFORE", 2, rows);
        text += "\n";
    }
    for (number, pattern) in (1..).zip(&explanation.patterns) {
        let number = match explanation.patterns.len() {
            1 => String::new(),
            _ => format!(" {number}"),
        };
        text += &shown(&format!("Pattern{number}"), pattern, explanation);
    }
    if let Some(costly) = &explanation.costly {
        text += &shown("Withheld pattern", costly, explanation);
    }
    let about = match &explanation.interface {
        Some(interface) => format!("{interface}: "),
        None => String::new(),
    };
    text + &format!("\n{about}{}\n", explanation.advice)
}

fn traffic(explanation: &Explanation) -> String {
    let name = explanation.interface.as_deref().unwrap_or("capture");
    let ordinary = match explanation.ordinary_per_second {
        Some(rate) => format!("ordinary are {}/s", whole_packets(rate)),
        None => "no picture of ordinary traffic".to_owned(),
    };
    let now = whole_packets(explanation.packets_per_second);
    let exempt = percent(explanation.exempt);
    let dropped = match explanation.interface {
        Some(_) => format!(", {} dropped", percent(explanation.dropped)),
        None => String::new(),
    };
    format!(
        "{name}: {now} packets/s{dropped}, {ordinary}; {exempt} are exempt from limits; {:.1} s, {} examined\n",
        explanation.seconds,
        counted(explanation.sampled, "packet"),
    )
}

fn row(share: &Share) -> [String; 4] {
    [
        share.field.to_owned(),
        share.value.clone(),
        percent(share.now),
        share.before.map_or_else(|| "-".to_owned(), percent),
    ]
}

fn shown(title: &str, pattern: &Pattern, explanation: &Explanation) -> String {
    let next = match &pattern.held_by {
        Some(name) => format!(
            "The limit {name} has this match already: {}",
            pattern.matches
        ),
        None => format!("{}\nTry it:\n{}", pattern.limit, pattern.command),
    };
    format!(
        "\n{title}: matches {} of what is above the ordinary rate, and {} of ordinary packets ({} of {}).\n\n{next}\n",
        percent(pattern.of_excess),
        percent(pattern.of_ordinary),
        grouped(pattern.ordinary_packets),
        grouped(explanation.ordinary_packets),
    )
}

/// A share from 0 to 1: with two digits behind the point if it is small, and never rounded up to all.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        0.0 => "0 %".to_owned(),
        small if small < 1.0 => format!("{small:.2} %"),
        100.0 => "100 %".to_owned(),
        most => format!("{:.1} %", most.min(99.9)),
    }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn shares_are_never_rounded_to_nothing_or_to_all() {
        let shares = [0.0, 0.0002, 0.123_4, 0.999_9, 1.0];
        let texts = ["0 %", "0.02 %", "12.3 %", "99.9 %", "100 %"];
        assert_eq!(shares.map(percent), texts);
    }
}
