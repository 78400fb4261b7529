//! The messages of a program that logs, by aya-log.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use aya::maps::{MapData, PerCpuArray};
use aya_log::EbpfLogger;
use limiter_common::abi::log::Logging;
use log::{Log, Metadata, Record};

use crate::{
    error::{Error, Result, read_failed},
    program::{Program, Raw},
    sys::Dir,
};

/// The name of the ring buffer, which aya-log looks for.
pub const MESSAGES: &str = "AYA_LOGS";

/// The maps of a log. They are pinned while it runs, so that a change of the settings does not end it.
pub const MAPS: [&str; 2] = [MESSAGES, "LOGGED"];

/// Returns true if the maps of a log are pinned in the `folder` of an attachment.
pub fn is_pinned(folder: &Dir) -> Result<bool> {
    let names = folder.names()?;
    Ok(MAPS.iter().all(|map| names.iter().any(|name| name == map)))
}

/// Pins the maps of a `program` that `logs`, unless they are its predecessor's.
pub fn pin(program: &Program, folder: &Dir, logs: bool) -> Result<()> {
    if !logs || is_pinned(folder)? {
        return Ok(());
    }
    clear(folder, false);
    program.pin_maps(&MAPS, folder)
}

/// Removes the pins, unless the program in force `logs`. The next change tries again where that fails.
pub fn clear(folder: &Dir, logs: bool) {
    if !logs {
        for map in MAPS {
            let _ = folder.unpin(map);
        }
    }
}

/// A message, with its level as aya-log numbers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The level.
    pub level: u32,
    /// The text as the program has written it.
    pub text: String,
}

/// Takes the messages from aya-log.
#[derive(Clone, Debug, Default)]
struct Queue(Arc<Mutex<VecDeque<Message>>>);

impl Log for Queue {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let message = Message {
            level: record.level() as u32,
            text: record.args().to_string(),
        };
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(message);
    }

    fn flush(&self) {}
}

/// A reader of messages.
pub struct Messages {
    logger: EbpfLogger<Queue>,
    queue: Queue,
    state: PerCpuArray<MapData, Raw<Logging>>,
}

impl Messages {
    /// A reader of what this program writes. There can be one.
    pub fn new(program: &mut Program) -> Result<Self> {
        let queue = Queue::default();
        let state = program.take_map(MAPS[1])?.try_into().map_err(read_failed)?;
        let logger = EbpfLogger::init_with_logger(program.ebpf_mut(), queue.clone());
        let logger = logger.map_err(|error| {
            let advice = "this build of limiter is broken: reinstall it";
            Error::load("log", &error.to_string(), advice)
        })?;
        Ok(Self {
            logger,
            queue,
            state,
        })
    }

    /// The next message, if there is one.
    pub fn next_message(&mut self) -> Option<Message> {
        let mut next = self.taken();
        if next.is_none() {
            self.logger.flush();
            next = self.taken();
        }
        next
    }

    fn taken(&self) -> Option<Message> {
        let mut queue = self.queue.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    }

    /// Messages that were not written, because there were too many.
    pub fn lost(&self) -> Result<u64> {
        let cpus = self.state.get(&0, 0).map_err(read_failed)?;
        Ok(cpus.iter().map(|Raw(cpu)| cpu.lost).sum())
    }
}
