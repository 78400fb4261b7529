//! Computes the prices of subjects: their figures minus the figure of the bare program, and ratios of prices.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde::Serialize;

use super::{case::Case, results::Results, series::Measured, subject::Subject, table::grid};

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
    let results = Results(measured);
    let priced = measured.iter().filter(|one| one.subject.has_price());
    priced.map(|one| Price::of(one, results)).collect()
}

impl Price {
    fn of(one: &Measured, results: Results<'_>) -> Self {
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
            let line = results.price(case, Subject::OneLine);
            found.over_one_line = line.map(|line| price - line);
            let share = |of: Subject| Some((of.name(), results.share(case, subject, of)?));
            found.share_of = OTHERS.into_iter().filter_map(share).collect();
        }
        found
    }
}

/// Prints the prices of a table below it.
pub fn print(out: &mut impl Write, table: &[&Measured], results: Results<'_>) -> io::Result<()> {
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
        let price = Price::of(one, results);
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
        super::{
            case::{Family, Sources},
            results::tests::made_up,
        },
        *,
    };

    #[test]
    fn price_of_limiter_is_compared_with_other_subjects() {
        let case = Case::flood(Family::Ipv4, Sources::New);
        let measured = [
            made_up(case, Subject::BareDrop, 50.0),
            made_up(case, Subject::OneLine, 70.0),
            made_up(case, Subject::Limiter, 80.0),
            made_up(case, Subject::Hashlimit, 250.0),
        ];
        let prices = all(&measured);
        let found: Vec<_> = prices.iter().map(|one| (one.subject, one.price)).collect();
        let expected = [
            (Subject::OneLine, 20.0),
            (Subject::Limiter, 30.0),
            (Subject::Hashlimit, 200.0),
        ];
        assert_eq!(found, expected);
        assert_eq!(prices[1].over_one_line, Some(10.0));
        let shares: Vec<_> = prices[1].share_of.iter().collect();
        assert_eq!(shares, [(&"hashlimit".to_owned(), &0.15)]);
        let mut text = Vec::new();
        let table: Vec<&Measured> = measured.iter().collect();
        print(&mut text, &table, Results(&measured)).expect("writing to memory");
        let text = String::from_utf8_lossy(&text);
        for line in ["limiter 30", "over one-line +10", "% of hashlimit 15%"] {
            let found = |row: &str| row.split_whitespace().eq(line.split(' '));
            assert!(text.lines().any(found), "{line}: {text}");
        }
    }
}
