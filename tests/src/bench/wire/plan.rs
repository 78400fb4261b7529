//! Defines the subjects and the effort of the measurement.

use serde::Serialize;

use super::{
    case::{Case, Cpus, Family, Sources, Verdict},
    subject::Subject,
};

#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Turns of each subject in each case.
    pub rounds: u32,
    /// Packets per turn on each processor.
    pub packets: u32,
    #[serde(skip)]
    pub subjects: Vec<Subject>,
    #[serde(skip)]
    pub sources: Vec<Sources>,
    /// Measure only enough cases to run every part.
    #[serde(skip)]
    pub quick: bool,
}

impl Plan {
    pub fn new(rounds: u32, packets: u32, subjects: Vec<Subject>, sources: Vec<Sources>) -> Self {
        Self {
            rounds,
            packets,
            subjects,
            sources,
            quick: false,
        }
    }

    /// Only to check that it works.
    pub fn quick(subjects: Vec<Subject>) -> Self {
        Self {
            quick: true,
            ..Self::new(1, 4_000, subjects, vec![Sources::Number(64), Sources::New])
        }
    }

    /// All cases for this number of processors.
    pub fn cases(&self, cpus: usize) -> Vec<Case> {
        let mut cases = Vec::new();
        for (cpus, family, verdict) in self.tables(cpus) {
            cases.extend(
                self.sources
                    .iter()
                    // Packets that pass are measured for known sources only.
                    .filter(|sources| **sources != Sources::New || verdict == Verdict::Dropped)
                    // The case with the longest setup is measured only once.
                    .filter(|sources| {
                        !self.quick || **sources != Sources::New || family == Family::Ipv4
                    })
                    // Two processors would send the same new sources, or run out of them.
                    .filter(|sources| cpus == Cpus::One || **sources != Sources::New)
                    .map(|&sources| Case {
                        family,
                        verdict,
                        sources,
                        cpus,
                    }),
            );
        }
        cases
    }

    /// Packets that are sent before all turns.
    pub fn to_fill(&self, sources: Sources) -> u32 {
        match sources {
            // Filling the table takes about a second per subject, and hardly changes the result.
            Sources::New if self.quick => self.warm_up(sources),
            _ => sources.to_fill(),
        }
    }

    /// Packets before each turn, which bring code and table into the caches. They also use up limiter's burst of new
    /// sources, like the beginning of a flood.
    pub fn warm_up(&self, sources: Sources) -> u32 {
        const BEYOND_BURST: u32 = 1 << 17;
        let tenth = self.packets.div_ceil(10);
        match sources {
            Sources::New => tenth.max(BEYOND_BURST),
            Sources::Number(_) => tenth,
        }
    }

    fn tables(&self, cpus: usize) -> Vec<(Cpus, Family, Verdict)> {
        use Verdict::{Dropped, Passed};
        let mut tables = vec![
            (Cpus::One, Family::Ipv4, Dropped),
            (Cpus::One, Family::Ipv4, Passed),
        ];
        if !self.quick {
            tables.push((Cpus::One, Family::Ipv6, Passed));
        }
        tables.push((Cpus::One, Family::Ipv6, Dropped));
        if cpus >= 2 {
            tables.push((Cpus::Same, Family::Ipv4, Dropped));
            tables.push((Cpus::Different, Family::Ipv4, Dropped));
            tables.push((Cpus::Different, Family::Ipv4, Passed));
        }
        tables
    }
}
