//! The generations that packets may go to. The link runs the program of one; after a trial, the trial's fallback is
//! in force. The kernel changes from one to the other by itself, at the deadline.

use std::time::SystemTime;

use crate::kernel::{
    Error, Result,
    state::{Generation, Record},
    sys::{Dir, LinkInfo, clock},
};

/// A trial, as shown to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnTrial {
    /// The trial's end in wall-clock time.
    pub until: SystemTime,
    /// Whether the trial has ended.
    pub is_over: bool,
}

impl OnTrial {
    /// The trial's end, RFC 3339.
    pub fn end(self) -> String {
        shown(self.until)
    }
}

/// A time, RFC 3339.
pub(in crate::kernel) fn shown(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// A condition: while it holds, the same generation stays in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernel) struct Standing {
    /// Id of the program that the link runs.
    program_id: u32,
    /// The end of the trial, in nanoseconds of the kernel's clock.
    until: Option<u64>,
}

impl Standing {
    /// Whether the condition holds now, given this state of the link.
    pub fn holds(self, link: &LinkInfo) -> Result<bool> {
        let in_time = match self.until {
            Some(until) => clock::now()? < until,
            None => true,
        };
        Ok(in_time && link.interface != 0 && link.program_id == self.program_id)
    }
}

/// The generations that packets may go to.
#[derive(Debug)]
pub(in crate::kernel) struct Current {
    /// The generation of the program that the link runs.
    pub linked: Generation,
    /// The generation in force. After a trial it differs from `linked`.
    pub in_force: Generation,
    /// The generation that will be in force after the running trial, if there is one.
    pub fallback: Option<Generation>,
    /// The condition under which `in_force` stays in force.
    pub standing: Standing,
}

impl Current {
    /// The generation that the link runs, and that is not on trial.
    pub fn only(linked: Generation) -> Self {
        Self {
            standing: Standing {
                program_id: linked.program_id,
                until: None,
            },
            in_force: linked.clone(),
            fallback: None,
            linked,
        }
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
        let mut record = Record::open(&linked.dir, interface)?;
        let mut found = Self::only(linked);
        let Some(of_record) = record.trial else {
            return Ok((found, record, None));
        };
        let trial = OnTrial {
            until: clock::wall(of_record.deadline)?,
            is_over: clock::now()? >= of_record.deadline,
        };
        let fallback = || Generation::fallback(folder);
        if !trial.is_over {
            found.standing.until = Some(of_record.deadline);
            found.fallback = fallback()?;
        } else if of_record.falls_back {
            found.in_force =
                fallback()?.ok_or_else(|| missing("the fallback of its trial is not pinned"))?;
            record = Record::open(&found.in_force.dir, interface)?;
        } else {
            return Err(Error::TrialOver(interface.to_owned(), trial.end()));
        }
        Ok((found, record, Some(trial)))
    }
}
