//! Compares limiter's prices with their targets, as ratios.
//!
//! A price is the time over the bare program of the same round. Absolute times differ between machines and hours;
//! ratios of subjects that ran side by side differ less.

use std::io::{self, Write};

use serde::Serialize;

use super::{
    case::{Case, Family, Sources},
    results::Results,
    series::Measured,
    subject::Subject,
};

#[derive(Clone, Debug, Serialize)]
pub struct Goal {
    /// The packets, and the two prices that are compared.
    pub what: String,
    pub sources: Sources,
    /// The ratio to reach.
    pub at_most: f64,
    /// The ratio of this run. None if one of the two was not measured.
    pub measured: Option<f64>,
    /// True if the target is reached; none if it was not measured.
    pub met: Option<bool>,
}

/// A target: true if packets pass, the number of sources, the two subjects, and the highest ratio of their prices.
type Row = (bool, u32, Subject, Subject, f64);

const GOALS: [Row; 9] = {
    use Subject::{Limiter, LimiterEight, LimiterNested, NftPrerouting, Reference};
    [
        (false, 1, Limiter, Reference, 0.35),
        (false, 1_024, Limiter, Reference, 0.40),
        (false, 65_536, Limiter, Reference, 0.45),
        // An idle limit may add a fifth, and each further limit a fiftieth.
        (true, 1, LimiterEight, Limiter, 1.34),
        (true, 1_024, LimiterEight, Limiter, 1.34),
        (true, 1_024, LimiterNested, Limiter, 2.2),
        // nft has only one of the three limits here.
        (true, 1_024, LimiterNested, NftPrerouting, 0.5),
        (false, 1, LimiterNested, Limiter, 1.25),
        (false, 1_024, LimiterNested, Limiter, 1.25),
    ]
};

/// All targets, with the values of `measured`.
pub fn all(measured: &[Measured]) -> Vec<Goal> {
    let results = Results(measured);
    let goal = |&(passes, sources, one, other, at_most): &Row| {
        let sources = Sources::Number(sources);
        let flood = Case::flood(Family::Ipv4, sources);
        let (case, packets) = match passes {
            true => (flood.passed(), "passing"),
            false => (flood, "dropping"),
        };
        let measured = results.share(case, one, other);
        Goal {
            what: format!("{packets}: {} by {}", one.name(), other.name()),
            sources,
            at_most,
            measured,
            met: measured.map(|ratio| ratio <= at_most),
        }
    };
    GOALS.iter().map(goal).collect()
}

/// Prints the targets as a table.
pub fn print(out: &mut impl Write, goals: &[Goal]) -> io::Result<()> {
    writeln!(out, "\nTargets: ratios of prices, IPv4, one CPU\n")?;
    let row = |goal: &Goal| {
        let measured = goal.measured.map(|ratio| format!("{ratio:.2}"));
        let met = match goal.met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "not measured",
        };
        vec![
            goal.what.clone(),
            goal.sources.to_string(),
            format!("at most {:.2}", goal.at_most),
            measured.unwrap_or_else(|| "-".to_owned()),
            met.to_owned(),
        ]
    };
    crate::grid::print(out, &goals.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{super::results::tests::made_up, *};

    #[test]
    fn goal_is_met_up_to_its_bound() {
        let flood = Case::flood(Family::Ipv4, Sources::Number(1));
        for (limiter, ratio, met) in [(64.0, 0.35, true), (65.0, 0.375, false)] {
            let measured = [
                made_up(flood, Subject::Limiter, limiter),
                made_up(flood, Subject::Reference, 90.0),
            ];
            let goals = all(&measured);
            assert_eq!((goals[0].measured, goals[0].met), (Some(ratio), Some(met)));
            assert!(goals[1..].iter().all(|goal| goal.met.is_none()));
        }
    }
}
