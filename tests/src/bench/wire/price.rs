//! Computes the prices of subjects: their figures minus the figure of the bare program, and ratios of prices.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde::Serialize;

use super::{case::Case, series::Measured, subject::Subject, table::grid};

/// A subject's price in a case.
#[derive(Clone, Debug, Serialize)]
pub struct Price {
    #[serde(flatten)]
    pub case: Case,
    pub subject: Subject,
    /// Nanoseconds over the bare program.
    pub price: f64,
    /// Nanoseconds over `one-line`; for limiter only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_one_line: Option<f64>,
    /// The price as a share of the prices of other subjects, by name; for limiter only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub share_of: BTreeMap<String, f64>,
}

/// Subjects that limiter is compared with.
const OTHERS: [Subject; 4] = [
    Subject::Reference,
    Subject::NftIngress,
    Subject::NftPrerouting,
    Subject::Hashlimit,
];

/// All prices, in the order of measurement.
pub fn all(measured: &[Measured]) -> Vec<Price> {
    let priced = measured.iter().filter(|one| one.subject.has_price());
    priced.map(|one| Price::of(one, measured.iter())).collect()
}

impl Price {
    /// The price of `one`, compared with the other results.
    fn of<'m>(one: &Measured, all: impl Iterator<Item = &'m Measured> + Clone) -> Self {
        let Measured {
            case,
            subject,
            over_floor: price,
            ..
        } = *one;
        let mut found = Self {
            case,
            subject,
            price,
            over_one_line: None,
            share_of: BTreeMap::new(),
        };
        if subject.is_limiter() {
            let of = |subject: Subject| {
                let mut all = all.clone();
                let other = all.find(|other| other.case == case && other.subject == subject)?;
                Some(other.over_floor)
            };
            found.over_one_line = of(Subject::OneLine).map(|line| price - line);
            // A price that is too small to tell from noise has no share.
            let share = |other: Subject| {
                let whole = of(other).filter(|whole| *whole > 0.0)?;
                Some((other.name(), price / whole))
            };
            found.share_of = OTHERS.into_iter().filter_map(share).collect();
        }
        found
    }
}

/// Prints the prices of a table below it.
pub fn print(out: &mut impl Write, table: &[&Measured]) -> io::Result<()> {
    let floor = Subject::floor(table[0].case.verdict).name();
    writeln!(out, "\nprice: nanoseconds over {floor}")?;
    let labels = |subject: Subject| {
        let mut labels = Vec::new();
        if subject.has_price() {
            labels.push(subject.name());
        }
        if subject.is_limiter() {
            labels.push("  over one-line".to_owned());
            labels.extend(OTHERS.map(|other| format!("  % of {}", other.name())));
        }
        labels
    };
    grid(out, table, labels, |one, line| {
        let price = Price::of(one, table.iter().copied());
        match line {
            0 => Some(format!("{:.0}", price.price)),
            1 => price.over_one_line.map(|over| format!("{over:+.0}")),
            _ => {
                let share = price.share_of.get(&OTHERS[line - 2].name())?;
                Some(format!("{:.0}%", share * 100.0))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::case::{Cpus, Family, Sources, Verdict},
        *,
    };
    use crate::sample::Sample;

    /// A made-up result of `median` nanoseconds. The bare program takes 50.
    fn made_up((subject, median): (Subject, f64)) -> Measured {
        Measured {
            case: Case {
                family: Family::Ipv4,
                verdict: Verdict::Dropped,
                sources: Sources::New,
                cpus: Cpus::One,
            },
            subject,
            sample: Sample {
                median,
                min: median,
                max: median,
            },
            over_floor: median - 50.0,
            times_floor: median / 50.0,
            sent: 1,
            delivered: 0,
        }
    }

    #[test]
    fn price_of_limiter_is_compared_with_other_subjects() {
        let measured = [
            (Subject::BareDrop, 50.0),
            (Subject::OneLine, 70.0),
            (Subject::Limiter, 80.0),
            (Subject::Reference, 50.0),
            (Subject::Hashlimit, 250.0),
        ]
        .map(made_up);
        let prices = all(&measured);
        let found: Vec<_> = prices.iter().map(|one| one.price).collect();
        assert_eq!(found, [20.0, 30.0, 0.0, 200.0]);
        assert_eq!(prices[1].over_one_line, Some(10.0));
        let shares: Vec<_> = prices[1].share_of.iter().collect();
        // The reference has no price, and nft was not measured.
        assert_eq!(shares, [(&"hashlimit".to_owned(), &0.15)]);
        let mut text = Vec::new();
        print(&mut text, &measured.each_ref()).expect("writing to memory");
        let text = String::from_utf8_lossy(&text);
        for line in ["limiter 30", "over one-line +10", "% of hashlimit 15%"] {
            let found = |row: &str| row.split_whitespace().eq(line.split(' '));
            assert!(text.lines().any(found), "{line}: {text}");
        }
    }
}
