//! The generations that packets may go to. The link runs the program of one; after a trial, the trial's fallback is
//! in force. The kernel changes from one to the other by itself, at the deadline.

use crate::{
    Error, Result,
    state::{Generation, Record, Trial},
    sys::{Dir, LinkInfo, clock},
};

/// The end of a trial in wall-clock time, RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnTrial {
    /// The trial runs. At this time it is undone, unless it is kept before.
    Until(String),
    /// The trial was not kept, and no later command has changed anything.
    Ended(String),
}

/// The generations that packets may go to.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    /// The generation of the program that the link runs.
    pub linked: Generation,
    /// The generation in force. After a trial it differs from `linked`.
    pub in_force: Generation,
    /// The generation that will be in force after the running trial, if there is one.
    pub fallback: Option<Generation>,
    /// The running trial.
    pub trial: Option<Trial>,
}

impl Current {
    /// The generation that the link runs, and that is not on trial.
    pub fn only(linked: Generation) -> Self {
        Self {
            in_force: linked.clone(),
            fallback: None,
            trial: None,
            linked,
        }
    }

    /// Returns true if the same generation is still in force, given this state of the link.
    pub fn holds(&self, link: &LinkInfo) -> Result<bool> {
        let in_time = match self.trial {
            Some(trial) => clock::now()? < trial.deadline,
            None => true,
        };
        Ok(in_time && link.interface != 0 && link.program_id == self.linked.program_id)
    }

    /// Finds the generations if the link runs the program with this id. Returns them with the record of the one in
    /// force, and the trial that runs or has ended. `interface` is for messages.
    /// Fails with [`Error::TrialOver`] if nothing is limited after a trial.
    pub fn find(
        folder: &Dir,
        program_id: u32,
        interface: &str,
    ) -> Result<(Self, Record, Option<OnTrial>)> {
        let missing = |why: &str| Error::unreadable(interface, why);
        let linked = Generation::of_program(folder, program_id)?
            .ok_or_else(|| missing("the running program is not pinned"))?;
        let record = Record::open(&linked.dir, interface)?;
        let mut found = Self::only(linked);
        let Some(trial) = record.trial else {
            return Ok((found, record, None));
        };
        let end = trial.end()?;
        let fallback = || Generation::fallback(folder, trial);
        if clock::now()? < trial.deadline {
            found.trial = Some(trial);
            found.fallback = fallback()?;
            return Ok((found, record, Some(OnTrial::Until(end))));
        }
        if !trial.falls_back() {
            return Err(Error::TrialOver(interface.to_owned(), end));
        }
        found.in_force =
            fallback()?.ok_or_else(|| missing("the fallback of its trial is not pinned"))?;
        let record = Record::open(&found.in_force.dir, interface)?;
        Ok((found, record, Some(OnTrial::Ended(end))))
    }
}
