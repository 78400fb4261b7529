//! Prices of subjects: their figures less the bare program's, and ratios to others.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde::Serialize;

use super::{
    case::{Case, Sources},
    results::Results,
    series::Measured,
    subject::Subject,
    table::{columns, rows},
};

/// A subject's price in a case.
#[derive(Clone, Debug, Serialize)]
pub struct Price {
    /// The offered traffic.
    #[serde(flatten)]
    pub case: Case,
    /// The subject.
    pub subject: Subject,
    /// Nanoseconds over the bare program.
    pub price: f64,
    /// Nanoseconds over `one-line`; for limiter only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_one_line: Option<f64>,
    /// The price as a share of others' prices, by name; for limiter only.
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

const NAME: usize = 20;
const CELL: usize = 8;

/// Prints the prices of a table below it.
pub fn print(out: &mut impl Write, table: &[&Measured], prices: &[Price]) -> io::Result<()> {
    let case = table[0].case;
    let floor = Subject::floor(case.verdict).name();
    let columns = columns(table);
    writeln!(out, "\nprice: nanoseconds over {floor}")?;
    write!(out, "{:NAME$}", "sources")?;
    for sources in &columns {
        write!(out, " {sources:>CELL$}")?;
    }
    writeln!(out)?;
    for subject in rows(table).into_iter().filter(|one| one.has_price()) {
        let find = |sources: Sources| {
            prices
                .iter()
                .find(|one| one.subject == subject && one.case == Case { sources, ..case })
        };
        let mut line = |name: &str, cell: &dyn Fn(&Price) -> Option<String>| {
            write!(out, "{name:NAME$}")?;
            for &sources in &columns {
                let cell = find(sources).and_then(cell).unwrap_or_else(|| "-".into());
                write!(out, " {cell:>CELL$}")?;
            }
            writeln!(out)
        };
        line(&subject.name(), &|one| Some(format!("{:.0}", one.price)))?;
        if !subject.is_limiter() {
            continue;
        }
        line("  over one-line", &|one| {
            one.over_one_line.map(|over| format!("{over:+.0}"))
        })?;
        for other in OTHERS.map(Subject::name) {
            line(&format!("  % of {other}"), &|one| {
                let share = one.share_of.get(&other)?;
                Some(format!("{:.0}%", share * 100.0))
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{case::Family, results::tests::made_up},
        *,
    };

    #[test]
    fn limiter_is_compared_with_the_line_and_with_others() {
        let case = Case::flood(Family::Ipv4, Sources::New);
        let measured = [
            made_up(case, Subject::BareDrop, 50.0),
            made_up(case, Subject::OneLine, 70.0),
            made_up(case, Subject::Limiter, 80.0),
            made_up(case, Subject::Hashlimit, 250.0),
        ];
        let prices = all(&measured);
        let said: Vec<_> = prices.iter().map(|one| (one.subject, one.price)).collect();
        let expected = [
            (Subject::OneLine, 20.0),
            (Subject::Limiter, 30.0),
            (Subject::Hashlimit, 200.0),
        ];
        assert_eq!(said, expected);
        assert_eq!(prices[1].over_one_line, Some(10.0));
        let shares: Vec<_> = prices[1].share_of.iter().collect();
        assert_eq!(shares, [(&"hashlimit".to_owned(), &0.15)]);
        let mut text = Vec::new();
        let table: Vec<&Measured> = measured.iter().collect();
        print(&mut text, &table, &prices).expect("writing to memory");
        let text = String::from_utf8_lossy(&text);
        for line in ["limiter 30", "over one-line +10", "% of hashlimit 15%"] {
            let found = |row: &str| row.split_whitespace().eq(line.split(' '));
            assert!(text.lines().any(found), "{line}: {text}");
        }
    }
}
