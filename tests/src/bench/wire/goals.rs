//! What limiter is to reach, and what it has reached in this run.

use std::io::{self, Write};

use limiter_common::{
    abi::{LOCKS, SETS_OF_WORD, Set},
    table::WAYS,
};
use serde::Serialize;

use super::{
    case::{Case, Cpus, Family, Sources},
    limiter::Configured,
    results::Results,
    scaling::Scaling,
    series::Measured,
    subject::Subject,
};

/// What a figure is to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

/// One goal.
#[derive(Clone, Debug, Serialize)]
pub struct Goal {
    /// What figure is meant.
    pub what: String,
    /// With how many sources, where that matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<Sources>,
    /// What it is to be.
    #[serde(flatten)]
    pub wanted: Wanted,
    /// What it is; nothing where this run has not measured it.
    pub measured: Option<f64>,
    /// Whether that is what it is to be.
    pub met: Option<bool>,
}

impl Wanted {
    fn is_met(self, measured: f64) -> bool {
        match self {
            Self::AtMost(most) => measured <= most,
            Self::AtLeast(least) => measured >= least,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(most) => format!("at most {most:.2}"),
            Self::AtLeast(least) => format!("at least {least:.2}"),
        }
    }
}

impl Goal {
    fn new(what: &str, sources: Option<Sources>, wanted: Wanted, measured: Option<f64>) -> Self {
        Self {
            what: what.into(),
            sources,
            wanted,
            measured,
            met: measured.map(|measured| wanted.is_met(measured)),
        }
    }
}

const KNOWN: [Sources; 4] = [
    Sources::Number(1),
    Sources::Number(1_024),
    Sources::Number(65_536),
    Sources::Number(1_048_576),
];

/// Numbers of sources, those that are new at last.
fn flooded() -> impl Iterator<Item = Sources> {
    KNOWN.into_iter().chain([Sources::New])
}

use Wanted::{AtLeast, AtMost};

/// All goals, with what `measured` says to them.
pub fn all(measured: &[Measured]) -> Vec<Goal> {
    let results = Results(measured);
    let mut goals = Vec::new();
    drops(results, &mut goals);
    prices(results, &mut goals);
    passes(results, &mut goals);
    more_limits(results, &mut goals);
    two_processors(results, &mut goals);
    let memory = bytes_of_source();
    goals.push(Goal::new(
        "bytes of the table for each source, its counts and locks included (default size)",
        None,
        AtMost(32.0),
        memory,
    ));
    goals
}

fn drops(results: Results<'_>, goals: &mut Vec<Goal>) {
    let limiter = |family, sources| results.find(Case::flood(family, sources), Subject::Limiter);
    for (sources, most) in flooded().zip([1.15, 1.15, 1.20, 1.40, 1.40]) {
        let times = limiter(Family::Ipv4, sources).map(|one| one.times_floor);
        let what = "IPv4, over the limit: limiter, times bare-drop";
        goals.push(Goal::new(what, Some(sources), AtMost(most), times));
    }
    for sources in flooded() {
        let median = |family| Some(limiter(family, sources)?.sample.median);
        let times = median(Family::Ipv6)
            .zip(median(Family::Ipv4))
            .map(|(ipv6, ipv4)| ipv6 / ipv4);
        let what = "over the limit: limiter with IPv6, times with IPv4";
        goals.push(Goal::new(what, Some(sources), AtMost(1.15), times));
    }
}

fn prices(results: Results<'_>, goals: &mut Vec<Goal>) {
    let others = [
        (Subject::NftIngress, 0.1),
        (Subject::NftPrerouting, 0.1),
        (Subject::Hashlimit, 0.1),
        (Subject::Reference, 1.0 / 3.0),
    ];
    for (other, most) in others {
        let what = format!(
            "IPv4, over the limit: limiter's price by that of {}",
            other.name()
        );
        for sources in flooded() {
            let case = Case::flood(Family::Ipv4, sources);
            let share = results.share(case, Subject::Limiter, other);
            goals.push(Goal::new(&what, Some(sources), AtMost(most), share));
        }
    }
}

fn passes(results: Results<'_>, goals: &mut Vec<Goal>) {
    for (family, name) in [(Family::Ipv4, "IPv4"), (Family::Ipv6, "IPv6")] {
        let what = format!("{name}, below the limit: limiter, times bare-pass");
        for sources in KNOWN {
            let found = results.find(Case::flood(family, sources).passed(), Subject::Limiter);
            let times = found.map(|one| one.times_floor);
            goals.push(Goal::new(&what, Some(sources), AtMost(1.05), times));
        }
    }
}

fn more_limits(results: Results<'_>, goals: &mut Vec<Goal>) {
    for sources in KNOWN {
        let case = Case::flood(Family::Ipv4, sources);
        let share = results.share(case, Subject::LimiterEight, Subject::Limiter);
        let what = "IPv4, over the limit: price with eight limits more, times limiter's";
        goals.push(Goal::new(what, Some(sources), AtMost(1.2), share));
    }
    for sources in KNOWN {
        let case = Case::flood(Family::Ipv4, sources);
        let lists = results.price(case, Subject::LimiterLists);
        let more = lists
            .zip(results.price(case, Subject::Limiter))
            .map(|(lists, plain)| lists - plain);
        let what = "IPv4, over the limit: nanoseconds that 100,000 prefixes add";
        goals.push(Goal::new(what, Some(sources), AtMost(60.0), more));
    }
}

fn two_processors(results: Results<'_>, goals: &mut Vec<Goal>) {
    let scaling = |cpus, sources| {
        let case = Case::flood(Family::Ipv4, sources).on(cpus);
        Scaling::of(results.find(case, Subject::Limiter)?, results)
    };
    for sources in KNOWN {
        let times = scaling(Cpus::Different, sources).map(|one| one.times);
        let what = "two processors, each its own sources: packets a second, times one's";
        goals.push(Goal::new(what, Some(sources), AtLeast(1.9), times));
    }
    let one = Sources::Number(1);
    let share = scaling(Cpus::Same, one).map(|one| one.slower);
    let what = "two processors, one source: the slower one's packets a second, by one's alone";
    goals.push(Goal::new(what, Some(one), AtLeast(0.5), share));
}

/// At the default size.
fn bytes_of_source() -> Option<f64> {
    let case = Case::flood(Family::Ipv4, Sources::Number(1));
    let sets = Configured::Plain.config(case).ok()?.sets;
    let table = f64::from(sets) * size_of::<Set>() as f64;
    let counts_and_locks = f64::from((sets.div_ceil(SETS_OF_WORD) + LOCKS) * u64::BITS / 8);
    Some((table + counts_and_locks) / f64::from(sets * WAYS))
}

/// What the goals are, and what they leave out.
const WHAT: &str = "\
What limiter is to reach, and what it has in this run, by medians. Whether what it decides is exact, on
one processor and on two, is no question of time: the tests say that.
";

/// Writes them.
pub fn print(out: &mut impl Write, goals: &[Goal]) -> io::Result<()> {
    const NAME: usize = 82;
    writeln!(out, "\nGoals\n\n{WHAT}")?;
    let count = |met| goals.iter().filter(|one| one.met == met).count();
    writeln!(
        out,
        "{} met, {} not met, {} without a figure in this run",
        count(Some(true)),
        count(Some(false)),
        count(None)
    )?;
    for goal in goals {
        let Goal {
            what,
            sources,
            wanted,
            measured,
            met,
        } = goal;
        writeln!(
            out,
            "{what:NAME$} {:>8} {:>14} {:>8}  {}",
            sources.map_or_else(String::new, |sources| sources.to_string()),
            wanted.text(),
            measured.map_or_else(|| "-".into(), |measured| format!("{measured:.2}")),
            match met {
                Some(true) => "met",
                Some(false) => "NOT MET",
                None => "no figure",
            }
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::results::tests::made_up, *};

    const ONE: Sources = Sources::Number(1);

    fn goal(measured: &[Measured], what: &str, sources: Sources) -> (Option<f64>, Option<bool>) {
        let found: Vec<Goal> = all(measured)
            .into_iter()
            .filter(|goal| goal.what.contains(what) && goal.sources == Some(sources))
            .collect();
        let [goal] = &found[..] else {
            panic!("{what}: {found:?}");
        };
        (goal.measured, goal.met)
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let goals = all(&[]);
        let without_wire = goals.iter().filter(|goal| goal.sources.is_some());
        assert!(without_wire.clone().count() > 40);
        for goal in without_wire {
            assert_eq!((goal.measured, goal.met), (None, None), "{}", goal.what);
        }
    }

    #[test]
    fn goals_are_met_up_to_their_bound() {
        let flood = Case::flood(Family::Ipv4, ONE);
        let times = |median| {
            goal(
                &[made_up(flood, Subject::Limiter, median)],
                "bare-drop",
                ONE,
            )
        };
        assert_eq!(times(57.5), (Some(1.15), Some(true)));
        assert_eq!(times(58.0), (Some(1.16), Some(false)));
    }

    #[test]
    fn prices_are_compared_and_not_figures() {
        let flood = Case::flood(Family::Ipv4, ONE);
        let measured = [
            made_up(flood, Subject::Limiter, 60.0),
            made_up(flood, Subject::NftIngress, 150.0),
            made_up(flood, Subject::Reference, 75.0),
            made_up(flood, Subject::LimiterEight, 62.0),
            made_up(flood, Subject::LimiterLists, 121.0),
        ];
        let goal = |what| goal(&measured, what, ONE);
        assert_eq!(goal("nft-ingress"), (Some(0.1), Some(true)));
        assert_eq!(goal("reference"), (Some(0.4), Some(false)));
        assert_eq!(goal("eight"), (Some(1.2), Some(true)));
        assert_eq!(goal("prefixes"), (Some(61.0), Some(false)));
    }

    #[test]
    fn families_are_compared_with_each_other() {
        let flood = |family| Case::flood(family, ONE);
        let measured = [
            made_up(flood(Family::Ipv4), Subject::Limiter, 100.0),
            made_up(flood(Family::Ipv6), Subject::Limiter, 125.0),
        ];
        let said = goal(&measured, "with IPv6, times with IPv4", ONE);
        assert_eq!(said, (Some(1.25), Some(false)));
    }

    #[test]
    fn two_processors_are_compared_with_one() {
        let flood = Case::flood(Family::Ipv4, ONE);
        let measured = [
            made_up(flood, Subject::Limiter, 100.0),
            made_up(flood.on(Cpus::Different), Subject::Limiter, 100.0),
            made_up(flood.on(Cpus::Same), Subject::Limiter, 200.0),
        ];
        let own = goal(&measured, "each its own sources", ONE);
        assert_eq!(own, (Some(2.0), Some(true)));
        // 100 ns alone, and 250 ns on the slower one of the two.
        let same = goal(&measured, "one source", ONE);
        assert_eq!(same, (Some(0.4), Some(false)));
    }
}
