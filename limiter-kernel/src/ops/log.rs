//! A log: the program in force with messages, on trial for a time. Its fallback is the same program without them, so it
//! ends by itself, and a killed process leaves no message switched on.

use std::time::Duration;

use limiter_common::table::key::SLOTS;

use crate::{
    Attachment, Error, Result,
    ops::{change::Change, set::put_in_force, trial},
    program::log::{self, Message, Messages},
    state::{Current, OnTrial, Record},
    sys::{Dir, Link, clock},
};

/// A log that runs.
pub struct Logging {
    /// Name of the interface.
    pub interface: String,
    /// The log's end in wall-clock time, RFC 3339.
    pub until: String,
    deadline: u64,
    dir: Dir,
    /// `names` are in force for as long as this holds.
    current: Current,
    /// Names of limits, by slot. Limits that were removed may still have messages.
    names: Vec<Option<String>>,
    messages: Messages,
}

/// The state of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// Its time is over.
    Over,
    /// Another command has ended it.
    Ended,
}

impl Logging {
    /// Begins a log of the attachment of `name`, with messages up to `level`.
    pub async fn start(name: &str, level: u32, duration: Duration) -> Result<Self> {
        let attachment = trial::open_settled(name).await?;
        attachment.dir.check_own()?;
        if attachment.record.log == 0 && log::is_pinned(&attachment.dir)? {
            // A killed command has left them.
            let (attachment, _lock) = Attachment::open_locked(name).await?;
            log::clear(&attachment.dir, attachment.record.log != 0);
        }
        let prepare = |attachment| Change::log(attachment, level, duration);
        let mut swapped = put_in_force(name, attachment, prepare).await?;
        let messages = Messages::new(&mut swapped.program)?;
        let attachment = Attachment::open(name).await?;
        let trial = swapped.record.trial.ok_or_else(|| ended(name))?;
        let mut logging = Self {
            interface: attachment.interface.name,
            until: trial.end()?,
            deadline: trial.deadline,
            dir: attachment.dir,
            current: attachment.current,
            names: vec![None; SLOTS as usize],
            messages,
        };
        logging.know(&swapped.record);
        Ok(logging)
    }

    fn know(&mut self, record: &Record) {
        for slot in &record.limits {
            if let Some(name) = self.names.get_mut(slot.number as usize) {
                *name = Some(slot.name.clone());
            }
        }
    }

    /// The next message, if there is one.
    pub fn next_message(&mut self) -> Option<Message> {
        self.messages.next_message()
    }

    /// Name of the limit that has a slot, or had it.
    pub fn limit(&self, slot: u32) -> Option<&str> {
        self.names.get(slot as usize)?.as_deref()
    }

    /// Messages that were not written, because there were too many.
    pub fn lost(&self) -> Result<u64> {
        self.messages.lost()
    }

    /// Checks whether the log still runs, and follows changes of the configuration.
    pub async fn check(&mut self) -> Result<State> {
        if clock::now()? >= self.deadline {
            return Ok(State::Over);
        }
        let Some(link) = Link::open(&self.dir)? else {
            return Ok(State::Ended);
        };
        if self.current.holds(&link.info()?)? {
            return Ok(State::Running);
        }
        let attachment = match Attachment::open(&self.interface).await {
            Ok(attachment) => attachment,
            // Detached.
            Err(Error::NotAttached(_)) => return Ok(State::Ended),
            Err(error) => return Err(error),
        };
        if !self.is_own(&attachment.record) {
            return Ok(State::Ended);
        }
        self.know(&attachment.record);
        self.current = attachment.current;
        Ok(State::Running)
    }

    /// Returns true if this log made the generation. A change of the settings keeps the deadline.
    fn is_own(&self, record: &Record) -> bool {
        let deadline = record.trial.map(|trial| trial.deadline);
        record.log != 0 && deadline == Some(self.deadline)
    }

    /// Puts the program without messages in force again, if this log still runs or its time is over. What it has written
    /// can still be read.
    pub async fn stop(&self) -> Result<()> {
        let (attachment, _lock) = match Attachment::open_locked(&self.interface).await {
            Err(Error::NotAttached(_)) => return Ok(()),
            opened => opened?,
        };
        if self.is_own(&linked(&attachment)?) {
            end(attachment)?;
        }
        Ok(())
    }
}

fn ended(name: &str) -> Error {
    Error::Refused(format!(
        "another command has changed '{name}' meanwhile: try again"
    ))
}

/// The record of the program that the link runs.
fn linked(attachment: &Attachment) -> Result<Record> {
    Record::open(&attachment.current.linked.dir, &attachment.interface.name)
}

/// Returns true if a log runs, or has ended and is not cleared yet.
pub fn is_on(attachment: &Attachment) -> Result<bool> {
    Ok(linked(attachment)?.log != 0)
}

/// Ends a log, with the caller's lock: its fallback becomes the link's program.
pub fn end(mut attachment: Attachment) -> Result<Attachment> {
    attachment.dir.check_own()?;
    if let (Some(until), Some(fallback)) = (
        attachment.log_until().map(str::to_owned),
        attachment.current.fallback.take(),
    ) {
        attachment.record = Record::open(&fallback.dir, &attachment.interface.name)?;
        attachment.current.in_force = fallback;
        attachment.trial = Some(OnTrial::Ended(until));
    }
    trial::settled(attachment)
}
