//! Defines the subjects and the effort of the measurement.

use serde::Serialize;

use super::{
    case::{Case, Cpus, Family, Sources, Verdict},
    subject::Subject,
};

/// The tables of results, in order.
const TABLES: [(Cpus, Family, Verdict); 7] = {
    use Verdict::{Dropped, Passed};
    [
        (Cpus::One, Family::Ipv4, Dropped),
        (Cpus::One, Family::Ipv4, Passed),
        (Cpus::One, Family::Ipv6, Passed),
        (Cpus::One, Family::Ipv6, Dropped),
        (Cpus::Same, Family::Ipv4, Dropped),
        (Cpus::Different, Family::Ipv4, Dropped),
        (Cpus::Different, Family::Ipv4, Passed),
    ]
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
        for (cpus, family, verdict) in TABLES.into_iter().filter(|(on, ..)| on.count() <= cpus) {
            if self.quick && (family, verdict) == (Family::Ipv6, Verdict::Passed) {
                continue;
            }
            let is_measured = |sources: &&Sources| match sources {
                Sources::Number(_) => true,
                // Packets that pass are measured for known sources only. Two processors would send the same new
                // sources, or run out of them. The setup is long, so the quick plan has it only once.
                Sources::New => {
                    (cpus, verdict) == (Cpus::One, Verdict::Dropped)
                        && !(self.quick && family == Family::Ipv6)
                }
            };
            let sources = self.sources.iter().filter(is_measured);
            cases.extend(sources.map(|&sources| Case {
                family,
                verdict,
                sources,
                cpus,
            }));
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
}
