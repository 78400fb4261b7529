//! What was measured, to look figures up in.

use super::{
    case::{Case, Cpus, Family, Sources, Verdict},
    series::Measured,
    subject::Subject,
};

/// All that was measured.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a>(pub &'a [Measured]);

impl<'a> Results<'a> {
    /// What was measured of a subject in a case.
    pub fn find(self, case: Case, subject: Subject) -> Option<&'a Measured> {
        self.0
            .iter()
            .find(|one| one.case == case && one.subject == subject)
    }

    /// Its price: nanoseconds over the bare program.
    pub fn price(self, case: Case, subject: Subject) -> Option<f64> {
        self.find(case, subject).map(|one| one.over_floor)
    }

    /// Its price as a share of that of another one; nothing where that has none that could be told from
    /// noise.
    pub fn share(self, case: Case, subject: Subject, of: Subject) -> Option<f64> {
        let (price, whole) = (self.price(case, subject)?, self.price(case, of)?);
        (whole > 0.0).then(|| price / whole)
    }
}

impl Case {
    /// A flood that one processor drops.
    pub fn flood(family: Family, sources: Sources) -> Self {
        Self {
            family,
            verdict: Verdict::Dropped,
            sources,
            cpus: Cpus::One,
        }
    }

    /// The same on these processors.
    pub fn on(self, cpus: Cpus) -> Self {
        Self { cpus, ..self }
    }

    /// The same below the limit.
    pub fn passed(self) -> Self {
        Self {
            verdict: Verdict::Passed,
            ..self
        }
    }
}
