//! Defines the subjects and the effort of the measurement.

use clap::{Args, builder::PossibleValuesParser};
use serde::Serialize;

use super::{
    case::{Case, Cpus, Family, Sources, Verdict},
    mix::Traffic,
    subject::{SUBJECTS, Subject},
};

/// The tables of results, in order.
const TABLES: [(Cpus, Family, Verdict, Traffic); 10] = {
    use Traffic::{Dns, Game, Plain, Web};
    use Verdict::{Dropped, Passed};
    [
        (Cpus::One, Family::Ipv4, Dropped, Plain),
        (Cpus::One, Family::Ipv4, Passed, Plain),
        (Cpus::One, Family::Ipv4, Passed, Web),
        (Cpus::One, Family::Ipv4, Passed, Dns),
        (Cpus::One, Family::Ipv4, Passed, Game),
        (Cpus::One, Family::Ipv6, Passed, Plain),
        (Cpus::One, Family::Ipv6, Dropped, Plain),
        (Cpus::Same, Family::Ipv4, Dropped, Plain),
        (Cpus::Different, Family::Ipv4, Dropped, Plain),
        (Cpus::Different, Family::Ipv4, Passed, Plain),
    ]
};

/// The subjects that the quick plan measures in every case. It measures the others with known sources on one processor.
const SAMPLE: [&str; 2] = ["limiter", "reference"];

#[derive(Debug, Args, Serialize)]
pub struct Plan {
    /// Turns of each subject
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Packets of one turn, in hundreds
    #[arg(long, value_name = "N", default_value = "200000", value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub packets: u32,
    /// Numbers of sources: powers of two, `heavy`, `new` for a new source in every packet, or `hot` for the program
    /// alone
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "1,1024,65536,1048576,new"
    )]
    #[serde(skip)]
    sources: Vec<Sources>,
    /// Only these subjects, and the bare programs that they are compared with
    #[arg(
        long = "subject",
        value_name = "NAME,...",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(SUBJECTS.iter().map(|subject| subject.0))
    )]
    #[serde(skip)]
    subjects: Vec<String>,
    /// Only `limiter`, and limiter with each field of a limit and each key
    #[arg(long, conflicts_with = "subjects")]
    #[serde(skip)]
    fields: bool,
    /// Only check that the benchmark works, within seconds; the figures mean nothing
    #[arg(long, conflicts_with_all = ["rounds", "packets", "sources"])]
    #[serde(skip)]
    quick: bool,
}

impl Plan {
    /// The plan with the effort of `--quick`, if that is set, and with hundreds of packets.
    pub fn checked(self) -> Self {
        if !self.quick {
            let packets = self.packets.next_multiple_of(100);
            return Self { packets, ..self };
        }
        Self {
            rounds: 1,
            packets: 4_000,
            sources: vec![Sources::Number(64), Sources::New, Sources::Hot],
            ..self
        }
    }

    /// The subjects of a case.
    pub fn subjects(&self, case: Case) -> impl Iterator<Item = &'static Subject> {
        let floor = Subject::floor(case.verdict).0;
        SUBJECTS.iter().filter(move |subject| {
            let is_base = subject.0 == floor || self.fields && subject.0 == "limiter";
            self.wants(subject, case) || is_base && subject.has_turns(case)
        })
    }

    fn wants(&self, subject: &Subject, case: Case) -> bool {
        let wanted = match &*self.subjects {
            [] => self.fields == subject.is_field(),
            names => names.iter().any(|name| name == subject.0),
        };
        let is_sampled = !self.quick || case.is_usual() || SAMPLE.contains(&subject.0);
        wanted && is_sampled && subject.has_turns(case)
    }

    /// All cases for this number of processors.
    pub fn cases(&self, cpus: usize) -> Vec<Case> {
        let mut cases = Vec::new();
        for (cpus, family, verdict, traffic) in TABLES
            .into_iter()
            .filter(|(processors, ..)| processors.count() <= cpus)
        {
            // Packets that pass are measured for known sources only. Two processors would send the same new sources, or
            // run out of them. The quick plan leaves out what is like another case, or has a long setup.
            let with_new = (cpus, verdict) == (Cpus::One, Verdict::Dropped);
            let is_long = |sources| match sources {
                Sources::New => family == Family::Ipv6,
                Sources::Hot => (family, verdict) != (Family::Ipv4, Verdict::Dropped),
                _ => (family, verdict) == (Family::Ipv6, Verdict::Passed),
            };
            let sources = self.sources.iter().filter(|sources| {
                let measured = match sources {
                    // Each source has a connection.
                    Sources::Number(1_025..) | Sources::Heavy | Sources::New
                        if traffic != Traffic::Plain =>
                    {
                        false
                    }
                    Sources::New => with_new,
                    Sources::Hot => cpus == Cpus::One,
                    Sources::Number(_) | Sources::Heavy => true,
                };
                measured && !(self.quick && is_long(**sources))
            });
            let cases_of = sources.map(|&sources| Case {
                traffic,
                family,
                verdict,
                sources,
                cpus,
            });
            cases.extend(
                cases_of.filter(|case| SUBJECTS.iter().any(|subject| self.wants(subject, *case))),
            );
        }
        cases
    }

    /// Packets that are sent before all turns, until each source has sent all kinds, or the table is full.
    pub fn to_fill(&self, case: Case) -> u32 {
        /// No kind of a mix has less than one per cent.
        const RAREST: u32 = 100;
        match case.sources {
            // Filling the table takes about a second per subject, and hardly changes the result.
            Sources::New if self.quick => self.warm_up(case.sources),
            sources if case.traffic != Traffic::Plain => sources.count() * RAREST,
            sources => sources.count().min(sources.capacity()),
        }
    }

    /// Packets before each turn, which bring code and table into the caches. They also use up limiter's burst of new
    /// sources, like the beginning of a flood.
    pub fn warm_up(&self, sources: Sources) -> u32 {
        const BEYOND_BURST: u32 = 1 << 17;
        let tenth = self.packets.div_ceil(1_000) * 100;
        match sources {
            Sources::New => tenth.max(BEYOND_BURST),
            _ => tenth,
        }
    }
}
