//! The generation in force: the link runs its program or, after a trial, it is the trial's fallback. The kernel
//! changes from one to the other by itself, at the deadline.

use std::time::SystemTime;

use limiter_common::abi::NEXT_FALLBACK;

use crate::kernel::{
    error::{Error, Result},
    program::maps,
    state::{generation, record::Record},
    sys::{bpf::LinkInfo, clock, folder::Dir},
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
    /// The condition for a generation with this program that is not on trial.
    pub const fn of(program_id: u32) -> Self {
        Self {
            program_id,
            until: None,
        }
    }

    /// Whether the condition holds now, given this state of the link.
    pub fn holds(self, link: &LinkInfo) -> Result<bool> {
        let in_time = match self.until {
            Some(until) => clock::now()? < until,
            None => true,
        };
        Ok(in_time && link.interface != 0 && link.program_id == self.program_id)
    }
}

/// The generation in force.
#[derive(Debug)]
pub(in crate::kernel) struct Current {
    /// Number of the generation.
    pub generation: u64,
    /// Number of the generation of the program that the link runs.
    pub linked: u64,
    /// Id of the generation's program.
    pub program_id: u32,
    /// The generation's record.
    pub record: Record,
    /// The trial that runs or has ended.
    pub trial: Option<OnTrial>,
    /// The condition under which the generation stays in force.
    pub standing: Standing,
}

/// Finds the generation in force if the link runs the program with this id. `interface` is for messages.
///
/// # Errors
/// [`Error::TrialOver`] if nothing is limited after a trial.
pub(in crate::kernel) fn find(folder: &Dir, program_id: u32, interface: &str) -> Result<Current> {
    let missing = |why: &str| Error::unreadable(interface, why);
    let linked = generation::of_program(folder, program_id)?
        .ok_or_else(|| missing("the running program is not pinned"))?;
    let record = Record::open(&generation::open(folder, linked)?, interface)?;
    let trial = record.trial;
    let mut found = Current {
        generation: linked,
        linked,
        program_id,
        trial: None,
        standing: Standing::of(program_id),
        record,
    };
    let Some(of_record) = trial else {
        return Ok(found);
    };
    let trial = OnTrial {
        until: clock::wall(of_record.deadline)?,
        is_over: clock::now()? >= of_record.deadline,
    };
    found.trial = Some(trial);
    if !trial.is_over {
        found.standing.until = Some(of_record.deadline);
    } else if of_record.falls_back {
        (found.generation, found.program_id) = fallback(folder, found.record.frags)?
            .ok_or_else(|| missing("the fallback of its trial is not pinned"))?;
        found.record = Record::open(&generation::open(folder, found.generation)?, interface)?;
    } else {
        return Err(Error::TrialOver {
            interface: interface.to_owned(),
            ended: trial.end(),
        });
    }
    Ok(found)
}

/// The fallback of a trial, as set in the kernel, and the id of its program.
pub(in crate::kernel) fn fallback(folder: &Dir, frags: bool) -> Result<Option<(u64, u32)>> {
    let Some(id) = maps::next_id(folder, maps::next_of(frags), NEXT_FALLBACK)? else {
        return Ok(None);
    };
    Ok(generation::of_program(folder, id)?.map(|number| (number, id)))
}
