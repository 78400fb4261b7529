//! Cases of the fleet benchmark.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    pub agents: u32,
    /// Hot sources of each member.
    pub sources: u32,
    /// Number of members that see each source.
    pub at: u32,
    /// True if the store is a cluster of three.
    pub cluster: bool,
    /// Measured rounds of each member, after the first.
    pub rounds: u32,
}

/// The members that see a source.
#[derive(Clone, Copy)]
enum At {
    One,
    Three,
    All,
}

fn one(agents: u32, sources: u32, at: At) -> Case {
    let at = match at {
        At::One => 1,
        At::Three => 3,
        At::All => agents,
    };
    Case {
        agents,
        sources,
        at,
        cluster: false,
        rounds: 3,
    }
}

/// All cases: about two minutes.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for at in [At::One, At::Three, At::All] {
        cases.extend([10, 30, 100].map(|agents| one(agents, 9_000, at)));
    }
    cases.push(one(100, 900, At::Three));
    let many = one(100, 99_900, At::Three);
    cases.push(Case { rounds: 1, ..many });
    for at in [At::One, At::All] {
        let cluster = true;
        let one = one(30, 9_000, at);
        cases.push(Case { cluster, ..one });
    }
    cases
}

/// A few cases, in seconds. Their byte counts are exact. Their times mean nothing.
pub fn quick() -> Vec<Case> {
    let mut cases = vec![
        one(5, 200, At::One),
        one(20, 200, At::One),
        one(5, 200, At::All),
        one(20, 200, At::All),
    ];
    cases.push(Case {
        cluster: true,
        ..one(5, 200, At::All)
    });
    cases
}

impl Case {
    /// Number of each member's sources in one block.
    fn block(&self) -> u32 {
        self.sources / self.at
    }

    /// Number of sources in all.
    #[cfg(test)]
    fn records(&self) -> u32 {
        self.agents * self.block()
    }

    /// Number of sources, summed over all members.
    pub fn held(&self) -> f64 {
        f64::from(self.agents * self.sources)
    }

    /// The number of a member's `index`th source. Consecutive blocks of sources go to consecutive members.
    pub fn source(&self, agent: u32, index: u32) -> u32 {
        let block = (agent + index / self.block()) % self.agents;
        block * self.block() + index % self.block()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn each_source_is_at_the_configured_number_of_members() {
        for at in [1, 3, 12] {
            let case = Case {
                agents: 12,
                sources: 24,
                at,
                cluster: false,
                rounds: 1,
            };
            let mut holders: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
            for agent in 0..case.agents {
                for index in 0..case.sources {
                    let source = case.source(agent, index);
                    assert!(holders.entry(source).or_default().insert(agent));
                }
            }
            assert_eq!(holders.len(), case.records() as usize);
            assert!(holders.values().all(|of| of.len() == at as usize), "{at}");
        }
    }

    #[test]
    fn sources_of_every_case_divide_evenly_among_members() {
        for case in all().into_iter().chain(quick()) {
            assert_eq!(case.sources % case.at, 0, "{case:?}");
            assert!(case.at <= case.agents, "{case:?}");
        }
    }
}
