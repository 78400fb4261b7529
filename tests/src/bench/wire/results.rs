//! Looks up measured figures.

use super::{
    case::{Case, Cpus, Family, Sources, Verdict},
    series::Measured,
    subject::Subject,
};

#[derive(Clone, Copy, Debug)]
pub struct Results<'a>(pub &'a [Measured]);

impl<'a> Results<'a> {
    pub fn find(self, case: Case, subject: Subject) -> Option<&'a Measured> {
        self.0
            .iter()
            .find(|one| one.case == case && one.subject == subject)
    }

    /// The subject's price: nanoseconds over the bare program.
    pub fn price(self, case: Case, subject: Subject) -> Option<f64> {
        self.find(case, subject).map(|one| one.over_floor)
    }

    /// The price as a share of another subject's price; none if that price is too small to tell from noise.
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

    /// The case on these processors.
    pub fn on(self, cpus: Cpus) -> Self {
        Self { cpus, ..self }
    }

    /// The case below the limit.
    pub fn passed(self) -> Self {
        Self {
            verdict: Verdict::Passed,
            ..self
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::sample::Sample;

    /// A made-up result of `median` nanoseconds. The bare program takes 50.
    pub fn made_up(case: Case, subject: Subject, median: f64) -> Measured {
        const FLOOR: f64 = 50.0;
        let processors = if case.cpus == Cpus::One { 1.0 } else { 2.0 };
        Measured {
            case,
            subject,
            sample: Sample {
                median,
                min: median,
                max: median,
            },
            over_floor: median - FLOOR,
            times_floor: median / FLOOR,
            slower: (case.cpus != Cpus::One).then_some(median * 1.25),
            mpps: processors * 1e3 / median,
            sent: 1,
            delivered: 0,
        }
    }

    #[test]
    fn share_is_a_ratio_of_prices() {
        let case = Case::flood(Family::Ipv4, Sources::New);
        let measured = [
            made_up(case, Subject::Limiter, 60.0),
            made_up(case, Subject::Reference, 90.0),
            made_up(case, Subject::Hashlimit, 50.0),
        ];
        let share = |of| Results(&measured).share(case, Subject::Limiter, of);
        assert_eq!(share(Subject::Reference), Some(0.25));
        assert_eq!(share(Subject::Hashlimit), None, "no price");
        assert_eq!(share(Subject::NftIngress), None, "nft was not measured");
    }
}
