//! Loads the programs of one case, with tables that contain all of its sources.

use anyhow::{Context as _, Result, ensure};
use aya::programs::ProgramFd;
use limiter_common::{abi::Config, policy::verdict::Reason};

use super::{
    case::{Case, Cost},
    driver::{Driver, Order},
    programs::STEPS,
};
use crate::object::{Code, Object};

/// All programs of one case.
pub struct Objects {
    /// Programs that only drop or only pass.
    pub bare: Object,
    pub limiter: Object,
    /// The limiter with a limit on bytes, in the case of one source.
    pub by_bytes: Option<Object>,
    pub steps: Object,
}

impl Objects {
    /// Loads the programs, and adds all sources to their tables.
    pub fn load(case: Case, driver: &mut Driver, frags: bool) -> Result<Self> {
        let config = case.config(Cost::Packets)?;
        let smallest = Config { sets: 2, ..config };
        // Only the last program takes multi-buffer packets.
        let bare = ["drop_only", "pass_only", "drop_only_frags"];
        let entries = ["limiter", "limiter_frags"];
        let without = usize::from(!frags);
        let objects = Self {
            bare: Object::load(Code::Bench, &smallest, &bare[..bare.len() - without])?,
            limiter: Object::load(Code::Limiter, &config, &entries[..entries.len() - without])?,
            by_bytes: match case.sources {
                1 => Some(Object::load(
                    Code::Limiter,
                    &case.config(Cost::Bytes)?,
                    &["limiter"],
                )?),
                _ => None,
            },
            steps: Object::load(Code::Bench, &config, &STEPS.map(|step| step.program))?,
        };
        for (object, entry) in objects.limiting() {
            fill(driver, object.program(entry)?, case.sources)?;
            expect_only(object, &[], Reason::Admitted, case.sources.into())
                .context("filling the table")?;
        }
        Ok(objects)
    }

    /// The objects with a table, each with the program that counts packets.
    pub fn limiting(&self) -> impl Iterator<Item = (&Object, &'static str)> {
        [(&self.limiter, "limiter"), (&self.steps, "step_counters")]
            .into_iter()
            .chain(self.by_bytes.iter().map(|object| (object, "limiter")))
    }
}

/// Adds all sources to the table, in order.
fn fill(driver: &mut Driver, program: &ProgramFd, sources: u32) -> Result<()> {
    driver.start(Order::Counting, sources)?;
    driver.drive(program, false, sources).map(drop)
}

/// Packets counted under each reason.
pub type Counted = Vec<(Reason, u64)>;

/// Fails unless `object` has counted at least `least` packets since `before`, all of them under `reason`: a figure
/// must measure what it claims.
pub fn expect_only(
    object: &Object,
    before: &[(Reason, u64)],
    reason: Reason,
    least: u64,
) -> Result<()> {
    let earlier = |reason| {
        before
            .iter()
            .find(|(of, _)| *of == reason)
            .map_or(0, |(_, count)| *count)
    };
    for (of, count) in object.counted()? {
        let new = count - earlier(of);
        ensure!(
            if of == reason { new >= least } else { new == 0 },
            "{new} packets were counted as {of:?}; at least {least} were expected, all {reason:?}"
        );
    }
    Ok(())
}
